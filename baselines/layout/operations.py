"""What formulas of layouts are written with: TensorFlow's functions, or NumPy's.

    ops = operations.of(dims)       # tensorflow, for a tensor
    ops.maximum(dims, 1.0)

A model computes these formulas in its graph; trees and the estimate compute them of
arrays, and need not wait for TensorFlow.  So each is written once, with TensorFlow's
names, of which `NumPy` has those that are wanted, with the same meaning.
"""

from typing import Any, Optional, Sequence

import numpy as np

Array = Any  # np.ndarray or tf.Tensor
Operations = Any  # NumPy or the module tensorflow


def of(array: Array) -> Operations:
    """Returns what works on arrays of this one's kind."""
    if isinstance(array, np.ndarray):
        return NumPy()
    import tensorflow as tf

    return tf


class NumPy:
    """TensorFlow's functions on NumPy's arrays; numbers without a type are 32 bit."""

    float32, int32 = np.float32, np.int32
    abs, ceil, exp, log, log1p, round, sqrt = (
        staticmethod(f)
        for f in (np.abs, np.ceil, np.exp, np.log, np.log1p, np.round, np.sqrt)
    )
    maximum, minimum, equal, not_equal, logical_not = (
        staticmethod(f)
        for f in (np.maximum, np.minimum, np.equal, np.not_equal, np.logical_not)
    )
    reduce_sum, reduce_prod, reduce_max, reduce_any, reduce_all = (
        staticmethod(f) for f in (np.sum, np.prod, np.max, np.any, np.all)
    )
    concat, stack, pad, clip_by_value, ones_like = (
        staticmethod(f)
        for f in (np.concatenate, np.stack, np.pad, np.clip, np.ones_like)
    )
    reshape, size, shape = (staticmethod(f) for f in (np.reshape, np.size, np.shape))

    @property
    def math(self) -> 'NumPy':
        """The same: TensorFlow has some functions there alone."""
        return self

    @property
    def nn(self) -> 'NumPy':
        """The same."""
        return self

    @staticmethod
    def constant(value: Any, dtype: Optional[type] = None) -> np.ndarray:
        """Makes an array: float32 or int32, unless it is told."""
        array = np.asarray(value)
        is_float = array.dtype.kind == 'f'
        return array.astype(dtype or (np.float32 if is_float else np.int32))

    @staticmethod
    def cast(x: np.ndarray, dtype: type) -> np.ndarray:
        """Returns x with another type."""
        return x.astype(dtype)

    @staticmethod
    def range(end: int, dtype: type = np.int32) -> np.ndarray:
        """Counts from 0."""
        return np.arange(end, dtype=dtype)

    @staticmethod
    def ones(shape: Sequence[int]) -> np.ndarray:
        """Makes ones, float32."""
        return np.ones(shape, np.float32)

    @staticmethod
    def relu(x: np.ndarray) -> np.ndarray:
        """Puts 0 in place of what is below."""
        return np.maximum(x, np.float32(0))

    @staticmethod
    def where(condition: np.ndarray, x: Any = None, y: Any = None) -> np.ndarray:
        """Chooses between x and y; without them, int64 [n, axes], where it is true."""
        return np.argwhere(condition) if x is None else np.where(condition, x, y)

    @staticmethod
    def gather(
        x: np.ndarray, index: np.ndarray, axis: int = 0, batch_dims: int = 0
    ) -> np.ndarray:
        """Takes rows; with batch_dims=1 elements of each row."""
        if batch_dims:
            return np.take_along_axis(x, index, axis=1)
        return np.take(x, index, axis=axis)

    @staticmethod
    def split(x: np.ndarray, sizes: Any, axis: int) -> Sequence[np.ndarray]:
        """Cuts into so many parts, or into parts of these sizes."""
        if not isinstance(sizes, int):
            sizes = np.cumsum(sizes)[:-1]
        return np.split(x, sizes, axis)

    @staticmethod
    def one_hot(index: np.ndarray, depth: int) -> np.ndarray:
        """Marks a place, float32 [..., depth]; none where it is out of range."""
        return (index[..., np.newaxis] == np.arange(depth)).astype(np.float32)

    @staticmethod
    def sequence_mask(
        lengths: np.ndarray, size: int, dtype: type = np.bool_
    ) -> np.ndarray:
        """Marks the first places: [..., size]."""
        return (np.arange(size) < lengths[..., np.newaxis]).astype(dtype)

    @staticmethod
    def count_nonzero(
        x: np.ndarray, axis: int, keepdims: bool = False, dtype: type = np.int64
    ) -> np.ndarray:
        """Counts what is not 0 along an axis."""
        return np.count_nonzero(x, axis, keepdims=keepdims).astype(dtype)

    @staticmethod
    def matmul(a: np.ndarray, b: np.ndarray, transpose_a: bool = False) -> np.ndarray:
        """Multiplies matrices."""
        return np.matmul(a.T if transpose_a else a, b)

    @staticmethod
    def unsorted_segment_min(
        x: np.ndarray, segment: np.ndarray, count: int
    ) -> np.ndarray:
        """Returns the least of each segment of integers, their largest for none."""
        least = np.full(count, np.iinfo(x.dtype).max, x.dtype)
        np.minimum.at(least, segment, x)
        return least

    @staticmethod
    def unsorted_segment_sum(
        x: np.ndarray, segment: np.ndarray, count: int
    ) -> np.ndarray:
        """Adds up each segment."""
        total = np.zeros((count, *x.shape[1:]), x.dtype)
        np.add.at(total, segment, x)
        return total
