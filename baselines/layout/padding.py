"""The cost of padding to registers, for arrays and for dots and convolutions.

A matrix unit multiplies rows that stream past with 128 columns at once.  The
output's fastest dimension (c elements) lies in the columns and is filled up to a
multiple of 128, the second fastest (s elements) to one of 8:

    work = multiply-adds * ceil(c / 128) * 128 / c * max(r', 32) / r
    r    = all other elements of the output; r' the same, with s filled up

In the gradient of a window, which sums over more pixels than it has, each of its
pixels needs other weights, and r is s alone.  Fewer than 32 rows take as long as 32,
as measured on two programs; the rest is public.

An assignment, one of a, is a configurable instruction with one of its layouts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.hlo import schema
from baselines.layout import shapes

_COLUMNS, _SUBLANES, _LEAST_ROWS = 128, 8, 32
_REGISTER = np.array([_COLUMNS, _SUBLANES], np.float32)
_MOST_WASTE = 4.0  # larger padding factors are clipped
# Of output, input and kernel, in a configuration.
_FASTEST = [schema.LAYOUT.block(array).start for array in schema.LAYOUT_ARRAYS]


class Products(NamedTuple):
    """The multiply-adds of k configurable nodes."""

    share: np.ndarray  # float32 [k], of the program's multiply-adds
    total: float  # multiply-adds of the program
    dims: np.ndarray  # float32 [k, 6], sizes of the output
    # bool [k], whether the node computes the gradient of a window
    of_window: np.ndarray


def count_products(
    arrays: shapes.Arrays, operands: Sequence[shapes.Operand], chosen: np.ndarray
) -> Products:
    """Counts the multiply-adds of configurable nodes.

    The size k that a dot sums over is not a feature.  For [b, m, k] and [b, k, n] it
    follows from the sizes of the arrays if b = 1; otherwise the result is sqrt(b) times
    too large.

    Args:
        chosen: int [k], the configurable nodes.
    """
    # All [n], one number per node.
    elements = arrays.elements
    first, second = (operand.node for operand in operands)
    itself = np.arange(len(elements))
    outputs = arrays.read_sizes(itself, 0, 0) * arrays.read_sizes(itself, 0, 1)
    pixels = elements / np.maximum(outputs, 1)  # without batch and features
    window = np.maximum(arrays.window, 1)
    is_convolution = arrays.has_opcode('convolution')
    # How many products each element of the output is the sum of.  Of a dot [m, k] and
    # [k, n]: k = sqrt(mk * kn / mn).
    summed = np.sqrt(elements[first] * elements[second] / elements)
    summed = np.where(arrays.has_opcode('dot'), summed, 0)
    of_kernel = window * np.maximum(arrays.read_sizes(second, 2, 0), 1)
    summed = np.where(is_convolution, of_kernel, summed)
    multiply_adds = (elements * summed)[chosen]  # [k]
    total = multiply_adds.sum()
    of_window = is_convolution & (window > pixels)
    share = multiply_adds / (total + 1e-9)  # 0 without products
    return Products(share, total, arrays.dims[chosen], of_window[chosen])


def read_fastest_dimensions(vectors: np.ndarray, dims: np.ndarray) -> np.ndarray:
    """Reads the two fastest dimensions of arrays; row major where none is listed.

    Args:
        vectors: int [a, 18], layouts of output, input and kernel; -1: none.
        dims: float32 [a, 3, 6], their sizes; 0: none.
    """
    listed = np.stack([vectors[:, start : start + 2] for start in _FASTEST], axis=1)
    return np.where(listed < 0, _find_row_major(dims), listed)


def pad_work(products: Products, node: np.ndarray, fastest: np.ndarray) -> np.ndarray:
    """Computes how much padding multiplies the work of products: float32 [a].

    Args:
        node: int [a], the node of each assignment, one of the k.
        fastest: int [a, 2], the two fastest dimensions of the output.
    """
    dims = products.dims[node]  # [a, 6]
    columns, second = _read_sizes(fastest, dims).T  # [a] each: c and s of the formula
    elements = np.maximum(dims, 1).prod(axis=1)  # [a]
    others = np.maximum(elements / (columns * second), 1)
    others = np.where(products.of_window[node], 1, others).astype(np.float32)
    rows = _round_up(second, _SUBLANES) * others
    factor = np.maximum(rows, _LEAST_ROWS) / (second * others)
    return factor * _round_up(columns, _COLUMNS) / columns


def get_effects(fastest: np.ndarray, dims: np.ndarray, roles: np.ndarray) -> np.ndarray:
    """Computes effects of layouts on output, input and kernel.

    Args:
        fastest: int [a, 3, 2], the two fastest dimensions of each.
        dims: float32 [a, 3, 6], sizes.
        roles: int [a, 3, 2], batch and feature dimension, or no dimension.

    Returns:
        float32 [a, 3 * effects], for each array: logarithms of both sizes and of
        their padding, logarithm and value of the padding together, whether they are
        the last dimensions, and whether they are batch or features.
    """
    size = _read_sizes(fastest, dims)  # [a, 3, 2]
    waste = np.log(np.minimum(_round_up(size, _REGISTER) / size, _MOST_WASTE))
    both = waste.sum(axis=-1, keepdims=True)  # [a, 3, 1]
    # [a, 3, 2, 2]: each of the two fastest dimensions against batch and features.
    in_roles = fastest[:, :, :, np.newaxis] == roles[:, :, np.newaxis]
    columns = np.concatenate(
        [
            np.log(size) / 8,
            waste,
            both,
            np.exp(both) / 4,
            fastest == _find_row_major(dims),
            in_roles.reshape(-1, 3, 4),
        ],
        axis=-1,
    )
    return columns.astype(np.float32).reshape(len(fastest), -1)


def _find_row_major(dims: np.ndarray) -> np.ndarray:
    """Returns the two fastest dimensions of row-major arrays: [..., 2]."""
    return np.count_nonzero(dims, axis=-1)[..., np.newaxis] - np.array([1, 2])


def _read_sizes(fastest: np.ndarray, dims: np.ndarray) -> np.ndarray:
    """Returns the sizes of the two fastest dimensions, at least 1: [..., 2]."""
    sizes = shapes.one_hot(fastest) * dims[..., np.newaxis, :]
    return np.maximum(sizes.sum(axis=-1), 1)


def _round_up(x: np.ndarray, unit: int | np.ndarray) -> np.ndarray:
    """Rounds up to a multiple."""
    return np.ceil(x / unit) * unit
