"""Draws configurations of many kernels at once."""

import numpy as np


def draw_configs(rng: np.random.Generator, counts: np.ndarray, k: int) -> np.ndarray:
    """Draws `k` different configurations of each kernel, all equally likely.

    Floyd's algorithm (Bentley & Floyd, CACM 1987), run for all rows in step: draw t
    from the first j + 1 numbers; if t was drawn before take j, which cannot have been.
    After k steps with j = count - k ... count - 1 every subset is equally likely.

    Args:
        rng: the source of randomness; the same state draws the same.
        counts: int64 [B], numbers of configurations of the kernels, at least k.
        k: number of configurations to draw of each kernel, at least 1.

    Returns:
        int64 [B, k]; the entries of row i differ and lie in [0, counts[i]).
    """
    counts = np.asarray(counts, np.int64)
    drawn = np.empty((len(counts), k), np.int64)
    for step in range(k):
        last = counts - k + step  # int64 [B], j of each row
        number = rng.integers(0, last + 1)
        taken = (drawn[:, :step] == number[:, None]).any(axis=1)  # bool [B]
        drawn[:, step] = np.where(taken, last, number)
    # Large numbers come late: only when shuffled, all orders are equally likely, too.
    return rng.permuted(drawn, axis=1)
