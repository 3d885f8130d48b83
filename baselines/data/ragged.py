"""Pieces of different lengths that lie end to end in one array."""

import numpy as np


def starts(sizes: np.ndarray) -> np.ndarray:
    """Where each piece begins: int32 [pieces], from int [pieces] lengths."""
    return (np.cumsum(sizes) - sizes).astype(np.int32)


def ranges(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Concatenates the ranges `first` .. `first + sizes`: int64 [sum of sizes]."""
    offset = first - (np.cumsum(sizes) - sizes)
    return np.arange(sizes.sum()) + np.repeat(offset, sizes)
