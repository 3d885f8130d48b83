"""Sparse matrices as coordinates, times dense ones."""

from typing import NamedTuple, Union

import tensorflow as tf


class Matrix(NamedTuple):
    """A sparse matrix."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]


def multiply(
    matrix: Matrix, x: tf.Tensor, num_rows: Union[int, tf.Tensor]
) -> tf.Tensor:
    """Multiplies a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )
