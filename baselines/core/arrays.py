"""Ragged data, pieces end to end in one array, and scores [c] in order."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike


def find_starts(sizes: np.ndarray, dtype: type = np.int32) -> np.ndarray:
    """Returns where pieces of lengths `sizes` begin in one array: [pieces]."""
    return (np.cumsum(sizes) - sizes).astype(dtype)


def concatenate_ranges(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Concatenates the ranges `first` .. `first + sizes`: int64 [sum of sizes]."""
    # [pieces]: value of an element minus its place in the result.
    offset = first - (np.cumsum(sizes) - sizes)
    return np.arange(sizes.sum()) + np.repeat(offset, sizes)


def group_pieces(sizes: np.ndarray, most: int) -> list[np.ndarray]:
    """Cuts pieces into runs of about `most` elements: int64 numbers of the pieces.

    After its first piece a run has at most `most` elements; no run is empty.
    """
    if not len(sizes):
        return []
    # [pieces]: number of the run that has a piece's last element, if all runs were
    # full.  A new run begins where it rises.
    run = (np.cumsum(sizes) - 1) // most
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(run)) + 1)


def order_by_score(scores: ArrayLike) -> np.ndarray:
    """Orders configurations from the lowest score to the highest.

    Args:
        scores: [c], lower = predicted faster.

    Returns:
        int64 [c], a permutation of 0..c-1; equal scores stay in index order.

    Raises:
        ValueError: no score, not 1-D, or a NaN among them.
    """
    return np.argsort(check_scores(scores), kind='stable').astype(np.int64)


def check_scores(scores: ArrayLike) -> np.ndarray:
    """Returns scores [c] as an array; raises ValueError for none, or a NaN."""
    return check_numbers(scores, 'score', lambda x: ~np.isnan(x), 'cannot be ranked')


def check_numbers(
    values: ArrayLike,
    name: str,
    are_valid: Callable[[np.ndarray], np.ndarray],
    why: str,
) -> np.ndarray:
    """Returns numbers as an array; raises ValueError unless all are valid."""
    values = np.asarray(values)
    if values.ndim != 1 or not values.size or values.dtype.kind not in 'iuf':
        raise ValueError(
            f'{name}s must be numbers of shape [c], one per configuration, c >= 1, not '
            f'{values.dtype} of shape {values.shape}'
        )
    valid = are_valid(values)
    if not valid.all():
        first = int(np.argmin(valid))  # the first False
        raise ValueError(f'{name} {first} is {values[first]}: {why}')
    return values


def are_scores_equal(scores: np.ndarray) -> bool:
    """Returns whether the scores of a graph differ by rounding at most.

    A model that ignores configurations computes the same formula for each, but rows of
    a float32 matrix product that are handled in different blocks differ by some units
    in the last place (1.7 where measured).
    """
    rounding = 16 * float(np.finfo(np.float32).eps)
    return np.allclose(scores, scores.max(), rtol=rounding, atol=0)
