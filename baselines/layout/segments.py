"""Segments: the ranges of nodes that a training step passes gradients through."""

from typing import Sequence

import numpy as np


def split_segments(node_splits: np.ndarray, keep_nodes: int) -> np.ndarray:
    """Cuts a program at its own splits, between its computations.

    Neighbouring parts are joined while they have `keep_nodes` nodes together
    at most; a part that has more is cut every `keep_nodes` nodes, as a whole
    program, with no splits but its ends, is in the published code.

    Args:
        node_splits: int [s], ascending from 0 to the number of nodes, at least 1.
        keep_nodes: most nodes in a segment; negative for no limit.

    Returns:
        int64 [segments, 2], first node and end of each.

    Example:
        split_segments([0, 2, 4, 13], 4)   # [[0, 4], [4, 8], [8, 12], [12, 13]]
        split_segments([0, 10], 4)         # [[0, 4], [4, 8], [8, 10]]
    """
    splits = np.unique(np.asarray(node_splits).reshape(-1))
    if keep_nodes < 0 or len(splits) < 2:
        return np.array([[0, splits[-1]]])
    segments = []
    begin = 0
    while begin < splits[-1]:
        fits = splits[(splits > begin) & (splits <= begin + keep_nodes)]
        end = fits[-1] if len(fits) else begin + keep_nodes
        segments.append([begin, end])
        begin = int(end)
    return np.array(segments)


def draw_segments(
    rng: np.random.Generator, choices: Sequence[np.ndarray]
) -> np.ndarray:
    """Draws one segment of each program, all equally likely.

    Args:
        rng: the source of randomness.
        choices: per program int [segments, 2].

    Returns:
        int64 [programs, 2].
    """
    counts = np.array([len(segments) for segments in choices])
    drawn = rng.integers(0, counts)
    return np.stack([s[i] for s, i in zip(choices, drawn)]).astype(np.int64)
