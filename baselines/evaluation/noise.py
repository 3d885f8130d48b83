"""Estimates from repeated measurements how well any model could do.

Repeated measurements of configurations show how far the clock can be trusted.  A tau
of .3 is poor if two measurements agree with a tau of .8, and about the best possible
if they agree with one of .2.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baselines.evaluation import metrics

_DRAWINGS = 10
MAX_DRAWN = 2000  # different configurations that are drawn: the cost is their square


class Noise(NamedTuple):
    """The noise of a graph whose configurations were measured repeatedly."""

    repeated: int  # how many configurations have more than one measurement
    repeats: int  # how many measurements they have beyond the first
    relative_std: float  # standard deviation of a measurement over its mean
    # Kendall's tau of two measurements of each repeated configuration with each other,
    # mean over drawings; None where there are fewer than two, or all are equal
    tau_twice: float | None
    # the tau of a perfect model, which predicts the true runtimes but not the noise,
    # see `estimate_noise`; None if configurations do not differ
    tau_ceiling: float | None


def estimate_noise(runtimes: np.ndarray, configurations: np.ndarray) -> Noise | None:
    """Measures the noise of a graph, and the tau that a perfect model would reach.

    Measured runtimes vary more than true ones, by the noise, so means of measurements
    are corrected by Tweedie's formula (Efron, "Tweedie's Formula and Selection Bias",
    2011), E[true | x] = x + s^2 d/dx log f(x), with the density f of their logarithms
    smoothed by the noise s itself.  Noise, normal in the logarithm, is then added
    again; the tau of the two is the ceiling.  If true runtimes differ by less than half
    of the noise, it is up to .3 too high, and `tau_twice` shows it; otherwise it is
    right to .06 (`tests/evaluation/test_noise.py`).

    Args:
        runtimes: [c], positive.
        configurations: [c], equal numbers for equal configurations.

    Returns:
        None where fewer than two measurements repeat another.

    Raises:
        ValueError: `metrics.kendall_tau` refuses the runtimes.
    """
    logs = np.log(np.asarray(runtimes, np.float64))  # [c]
    # group [c]: the distinct configuration of each; sizes [groups].
    _, group, sizes = np.unique(configurations, return_inverse=True, return_counts=True)
    repeats = len(logs) - len(sizes)
    if repeats < 2:
        return None
    rng = np.random.default_rng(0)
    means = np.bincount(group, logs) / sizes
    # Unbiased: each group's mean takes one degree of freedom.
    std = float(np.sqrt(((logs - means[group]) ** 2).sum() / repeats))
    again = np.flatnonzero(sizes[group] > 1)
    # Where each repeated group begins among `again`, sorted by group.
    starts = np.cumsum(sizes[sizes > 1]) - sizes[sizes > 1]
    kept = rng.permutation(len(sizes))[:MAX_DRAWN]
    denoised = _denoise_means(means[kept], std / np.sqrt(sizes[kept]))
    true = np.repeat(denoised, sizes[kept])
    twice, ceiling = [], []
    for _ in range(_DRAWINGS):
        # Two measurements of each repeated configuration, drawn at random: the first
        # two of each group after a stable sort of a permutation.
        shuffled = rng.permutation(again)
        shuffled = shuffled[np.argsort(group[shuffled], kind='stable')]
        first, second = logs[shuffled[starts]], logs[shuffled[starts + 1]]
        twice.append(metrics.kendall_tau(first, np.exp(second)))
        measured = np.exp(true + std * rng.normal(size=len(true)))
        ceiling.append(metrics.kendall_tau(true, measured))
    return Noise(
        len(starts), repeats, std, _average_defined(twice), _average_defined(ceiling)
    )


def _denoise_means(means: np.ndarray, stds: np.ndarray) -> np.ndarray:
    """Estimates true values by Tweedie's formula: means of the measured means nearby.

    Args:
        means: [n], of the measurements of a configuration.
        stds: [n], standard deviations of the noise in them, which define nearby.
    """
    if not stds.any():
        return means
    # [n, n]: the density of the noise around each mean, at all others.
    weights = np.exp(-0.5 * ((means[:, np.newaxis] - means) / stds[:, np.newaxis]) ** 2)
    # x + s^2 f'(x) / f(x), with f a sum of normal densities, is this mean.
    return (weights @ means) / weights.sum(axis=1)


def _average_defined(taus: Sequence[float]) -> float | None:
    """Averages the taus that are not NaN; None without any."""
    defined = [tau for tau in taus if not np.isnan(tau)]
    return float(np.mean(defined)) if defined else None
