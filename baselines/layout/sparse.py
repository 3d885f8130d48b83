"""Sparse matrices as coordinates, times dense ones."""

from typing import NamedTuple

import tensorflow as tf


class Matrix(NamedTuple):
    """A sparse matrix."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]


def multiply(matrix: Matrix, x: tf.Tensor, num_rows) -> tf.Tensor:
    """The product of a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )


def where(mask: tf.Tensor) -> tf.Tensor:
    """Positions at which a mask [n] is true: int32."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def marked(numbers: tf.Tensor, size) -> tf.Tensor:
    """bool [size], true at some numbers: the reverse of `where`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, size) > 0
