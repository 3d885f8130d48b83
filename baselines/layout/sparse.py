"""Sparse matrices as coordinates, times dense ones."""

from typing import NamedTuple, Union

from baselines.layout import operations
from baselines.layout.operations import Array

# A Python number, or a scalar tensor.
Size = Union[int, Array]


class Matrix(NamedTuple):
    """A sparse matrix."""

    rows: Array  # int32 [entries]
    cols: Array  # int32 [entries]
    values: Array  # float32 [entries]


def multiply(matrix: Matrix, x: Array, num_rows: Size) -> Array:
    """Multiplies a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    import tensorflow as tf

    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )


def where(mask: Array) -> Array:
    """Returns the positions at which a mask [n] is true: int32."""
    ops = operations.of(mask)
    return ops.cast(ops.where(mask)[:, 0], ops.int32)


def marked(numbers: Array, size: Size) -> Array:
    """Makes a mask, bool [size], that is true at `numbers`: the reverse of `where`."""
    ops = operations.of(numbers)
    return ops.math.unsorted_segment_sum(ops.ones_like(numbers), numbers, size) > 0
