"""Sparse matrices as coordinates, times dense ones."""

from typing import NamedTuple, Union

import tensorflow as tf

# A Python number, or a scalar tensor.
Size = Union[int, tf.Tensor]


class Matrix(NamedTuple):
    """A sparse matrix."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]


def multiply(matrix: Matrix, x: tf.Tensor, num_rows: Size) -> tf.Tensor:
    """Multiplies a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )


def where(mask: tf.Tensor) -> tf.Tensor:
    """Returns the positions at which a mask [n] is true: int32."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def marked(numbers: tf.Tensor, size: Size) -> tf.Tensor:
    """Makes a mask, bool [size], that is true at `numbers`: the reverse of `where`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, size) > 0
