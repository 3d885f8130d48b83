"""Arithmetic of tiles on either machine, [rows, few] at a time."""

import functools

import numpy as np

from baselines.hlo import schema

# Opcodes of products, and those that need nothing of the vector unit.
PRODUCTS = ('convolution', 'dot')
_FREE = (
    *'parameter constant tuple get-tuple-element fusion bitcast reshape'.split(),
    *('call', 'while', 'after-all', *PRODUCTS),
)
# A function of this kind is evaluated as a polynomial: ten operations, roughly.
_TRANSCENDENTAL = tuple(
    'exponential exponential-minus-one log log-plus-one tanh logistic power sine '
    'cosine atan2 tan divide sqrt rsqrt cbrt'.split()
)
_TRANSCENDENTAL_COST = 10.0


def multiply(rows: np.ndarray) -> np.ndarray:
    """Multiplies the columns of each row, [rows, few]; faster than along an axis."""
    return functools.reduce(np.multiply, rows.T)


def add_up(rows: np.ndarray) -> np.ndarray:
    """Adds up the columns of each row, [rows, few]; faster than along an axis."""
    return functools.reduce(np.add, rows.T)


def cut_dimensions(
    units: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts dimensions into tiles; absent bounds, 0 or -1, leave them whole.

    Args:
        units: float64 [rows, dimensions], sizes, in registers or elements.
        bounds: [rows, dimensions], sizes of a tile, likewise.

    Returns:
        float64 [rows, dimensions], units of a tile, and trips of the loop over tiles.
    """
    tile = np.where(bounds > 0, np.minimum(bounds, units), units)
    # A dimension that is not there has 0 units, and one trip.
    return tile, np.maximum(np.ceil(units / np.maximum(tile, 1)), 1)


def reverse_dimensions(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reverses lists of dimensions: the last one that is above 0 comes first.

    Args:
        sizes: [n, 6], those above 0 first.

    Returns:
        int64 [n, 6], the places in `sizes`, and bool [n, 6], which of them exist.
    """
    place, rank = np.arange(schema.RANK), (sizes > 0).sum(axis=1)[:, np.newaxis]
    return np.clip(rank - 1 - place, 0, schema.RANK - 1), place < rank


def count_vector_operations(opcodes: np.ndarray) -> np.ndarray:
    """Returns the operations for an element of a result: float64 [n] of opcodes [n]."""
    is_transcendental = np.isin(opcodes, schema.find_opcode_numbers(_TRANSCENDENTAL))
    cost = np.where(is_transcendental, _TRANSCENDENTAL_COST, 1.0)
    return np.where(np.isin(opcodes, schema.find_opcode_numbers(_FREE)), 0.0, cost)
