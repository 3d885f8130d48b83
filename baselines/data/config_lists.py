"""Lists of configurations for models that compare those of a list."""

from typing import Iterable, List, Sequence

import numpy as np

# A model that compares configurations sees lists of at most so many, and the
# mean over this many ways of cutting all of them into lists counts.
LIST_LENGTH = 128
PERMUTATIONS = 4


def list_cuts(count: int) -> List[np.ndarray]:
    """Cuts configurations into lists of nearly equal length, several times.

    The same number gives the same lists, int64 arrays; every configuration is in
    PERMUTATIONS of them, or all are in one where it holds them all.
    """
    if count <= LIST_LENGTH:
        return [np.arange(count)]
    rng = np.random.default_rng(count)
    pieces = -(-count // LIST_LENGTH)
    return [
        chosen
        for _ in range(PERMUTATIONS)
        for chosen in np.array_split(rng.permutation(count), pieces)
    ]


def mean_scores(
    count: int, cuts: Sequence[np.ndarray], scored: Iterable[np.ndarray]
) -> np.ndarray:
    """Averages the scores of lists, given in the order of `cuts`: float32 [count]."""
    total = np.zeros(count)
    for chosen, scores in zip(cuts, scored):
        total[chosen] += scores
    times = sum(len(chosen) for chosen in cuts) / count
    return (total / times).astype(np.float32)
