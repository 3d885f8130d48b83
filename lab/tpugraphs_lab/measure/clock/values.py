"""Draws values of a program's inputs, and compares results."""

import math

import numpy as np


def draw_array(
    rng: np.random.Generator, type: str, dims: list[int], high: int = 2
) -> np.ndarray:
    """Returns values for which no operation is unusually fast or slow.

    Args:
        type: NumPy's name of the element type.
        dims: shape of the array.
        high: exclusive upper bound of integers.
    """
    if type == 'bool':
        return rng.random(dims) < 0.5
    if type.startswith(('int', 'uint')):
        bits = int(type.lstrip('uint'))
        high = min(high, 100, 1 << bits - 1) if bits <= 8 else high
        return rng.integers(0, high, dims).astype(type)
    return rng.uniform(0.1, 1.1, dims).astype(np.float32).astype(type)


def finite_share(array: np.ndarray) -> float:
    """Returns the share of an array's values that are finite numbers."""
    return float(np.isfinite(widen(array)).mean()) if array.size else 1.0


def perturbed(rng: np.random.Generator, array: np.ndarray, share: float) -> np.ndarray:
    """Returns floats that differ by about a share of themselves; integers stay.

    All of them together move by a random share, and each by another one: changes of
    single terms average out in a sum, the rounding errors of partial sums do not.
    """
    if array.dtype.kind in 'biu':
        return array
    wide = array if array.itemsize > 2 else array.astype(np.float32)
    # One move for all values, and one for each of them: array.shape.
    moves = rng.standard_normal() + rng.standard_normal(array.shape, np.float32)
    return (wide + wide * (share * moves).astype(wide.real.dtype)).astype(array.dtype)


def widen(array: np.ndarray) -> np.ndarray:
    """Returns an array in twice the precision or more, to calculate with."""
    return array.astype(np.complex128 if array.dtype.kind == 'c' else np.float64)


def tamer(array: np.ndarray, attempt: int) -> np.ndarray:
    """Returns values that are more likely to lead to finite results.

    Sums of products of such floats do not grow, and they are positive since training
    steps take square roots.  Integers become smaller with each attempt: JAX gathers
    NaN for an index behind the last row.

    Args:
        array: drawn values, or those of the attempt before.
        attempt: floats change in the first one, number 0, only.
    """
    if array.dtype.kind in 'iu':
        return array // np.array(4, array.dtype)
    if array.ndim < 2 or array.dtype.kind == 'b' or attempt:
        return array
    inputs = math.prod(array.shape[:-1])
    return (np.abs(array) / max(1, inputs)).astype(array.dtype)


def halved(array: np.ndarray) -> np.ndarray:
    """Returns numbers that are half as large, of the same type; booleans stay."""
    if array.dtype.kind == 'b':
        return array
    half = (
        array // array.dtype.type(2) if array.dtype.kind in 'iu' else widen(array) / 2
    )
    return half.astype(array.dtype)


def are_close(
    expected: list[np.ndarray], actual: list[np.ndarray], limits: list[np.ndarray]
) -> bool:
    """Returns whether results agree: integers exactly, floats but for rounding.

    NaN agree with NaN, infinities with themselves, zeros with those of the same sign
    unless rounding changes them.

    Args:
        limits: the largest difference of each value, of the shapes of `expected`.
    """
    return len(expected) == len(actual) and all(
        map(_are_arrays_close, expected, actual, limits)
    )


def _are_arrays_close(
    expected: np.ndarray, actual: np.ndarray, limits: np.ndarray
) -> bool:
    """Returns whether two arrays agree; see `are_close`."""
    if expected.shape != actual.shape or expected.dtype.name != actual.dtype.name:
        return False
    if expected.dtype.kind in 'biu':
        return bool((expected == actual).all())
    a, b = widen(expected), widen(actual)
    with np.errstate(invalid='ignore'):  # inf - inf
        # Numbers too small for the type may be taken for 0.
        is_far = np.abs(b - a) > limits + np.finfo(np.float32).tiny
    # bool, array.shape, as all of the following.  Infinities are equal to themselves,
    # NaN is not.
    is_same = (a == b) | np.isnan(a) & np.isnan(b)
    is_near = np.isfinite(a) & np.isfinite(b) & ~is_far
    # A sum whose terms cancel may round to a zero of either sign.
    is_exact_zero = (a == 0) & (b == 0) & (limits == 0)
    signs_differ = (np.signbit(a.real) != np.signbit(b.real)) | (
        np.signbit(a.imag) != np.signbit(b.imag)
    )
    return bool(((is_same | is_near) & ~(is_exact_zero & signs_differ)).all())
