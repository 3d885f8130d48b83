"""Ragged data: pieces of different lengths, end to end in one array."""

import numpy as np


def starts(sizes: np.ndarray) -> np.ndarray:
    """Returns where pieces of lengths `sizes` begin, end to end: int32 [pieces]."""
    return (np.cumsum(sizes) - sizes).astype(np.int32)


def ranges(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Concatenates the ranges `first` .. `first + sizes`: int64 [sum of sizes]."""
    # [pieces]: how far an element's value is ahead of its place in the result.
    offset = first - (np.cumsum(sizes) - sizes)
    return np.arange(sizes.sum()) + np.repeat(offset, sizes)


def groups(sizes: np.ndarray, most: int) -> list[np.ndarray]:
    """Cuts pieces into runs of about `most` elements: int64 numbers of the pieces.

    After its first piece a run has at most `most` elements; no run is empty.
    """
    if not len(sizes):
        return []
    # The run in which a piece's last element is, if all runs were full: it rises where
    # a new one begins.
    run = (np.cumsum(sizes) - 1) // most
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(run)) + 1)
