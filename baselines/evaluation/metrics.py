"""Measures of a ranking of configurations: the published ones, computed exactly.

A graph is a pair of 1-D arrays of one length c, its number of configurations:
`scores` (predictions, lower = faster; only their order matters) and `runtimes`
(measurements, positive, all in one unit; tile runtimes are divided by their normalizers
first).  This module does not use models or files.
"""

from collections.abc import Callable
import functools
import math
from typing import Any, NamedTuple
import warnings

import numpy as np
from numpy.typing import ArrayLike
import scipy  # loads `stats`, which takes a second, on first use

from baselines.core import arrays

Interval = tuple[float, float] | tuple[None, None]

CONFIDENCE = 0.95  # of intervals
_RESAMPLES = 9999
# Resamples drawn at once hold at most this many values (8 bytes each).
_BOOTSTRAP_CELLS = 4_000_000
_FEW_RANKS = 128  # whose pairs are compared all at once
_FEW_SCORES = 512  # of which SciPy takes longer for Kendall's tau


def rank_without_ties(scores: ArrayLike) -> np.ndarray:
    """Returns int64 [c]: the place of each configuration from the best, 0.

    As scores they give the same ranking without ties, which is the published rule for
    equal scores.
    """
    return np.argsort(arrays.order_by_score(scores))  # the inverse of a permutation


def expected_best(
    scores: ArrayLike, costs: ArrayLike, k: int, values: ArrayLike | None = None
) -> float:
    """Computes the expected cost of the cheapest of the k configurations ranked first.

    Equal scores do not imply an order, so every order of such configurations is taken
    to be equally likely.  Let n configurations share the k-th score, and m have a lower
    one: then d = k - m of the n are drawn at random.  Sorted by cost, the first i of
    them are all missed with probability S_i = C(n-i, d) / C(n, d), and the expectation
    is v_1 + sum_i (v_{i+1} - v_i) S_i, where the v end with the cheapest configuration
    that has a lower score, if any.  S_i is S_{i-1} times a factor in [0, 1], so that
    nothing overflows.

    Args:
        scores: [c], lower = predicted faster.
        costs: [c], such as runtimes; the cheapest of the k is chosen.
        k: how many to take, at least 1; a graph with fewer gives all it has.
        values: [c], of which to return the expectation for the chosen configuration;
            None for the costs.

    Raises:
        ValueError: no score, not 1-D, or a NaN among them.
    """
    # Shapes: all [c] until `order` keeps the candidates, cheapest first.
    scores, costs = arrays.check_scores(scores), np.asarray(costs)
    values = np.asarray(costs if values is None else values, np.float64)
    k = min(k, len(scores))
    last = np.partition(scores, k - 1)[k - 1]  # the k-th lowest
    order = np.argsort(costs, kind='stable')
    order = order[scores[order] <= last]
    # True for the configurations that are taken in every order of the ties.
    certain = scores[order] < last
    drawn, tied = k - certain.sum(), len(order) - certain.sum()
    # What is dearer than the cheapest of these is never the best.
    if certain.any():
        order = order[: certain.argmax() + 1]
    left = tied - np.arange(len(order) - 1, dtype=np.float64)  # n - i + 1
    # S_i = S_{i-1} (n - i + 1 - d) / (n - i + 1).
    missed = np.cumprod(np.maximum(left - drawn, 0.0) / left)
    return float(values[order[0]] + np.diff(values[order]) @ missed)


def slowdown(scores: ArrayLike, runtimes: ArrayLike, k: int) -> float:
    """Divides the best runtime of the k configurations ranked first by the best.

    This is the cost of measuring only the model's k favourites: 1 means that the
    fastest configuration is among them.

    Args:
        scores: [c], lower = predicted faster; of ties the expectation over all orders
            is taken, see `expected_best`.
        runtimes: [c], positive.
        k: how many to take, at least 1; a graph with fewer gives all it has.

    Returns:
        A ratio >= 1.

    Raises:
        ValueError: shapes differ, a NaN score, a runtime not positive.
    """
    scores, runtimes = _check_graph(scores, runtimes)
    return expected_best(scores, runtimes, k) / float(runtimes.min())


def top_k_error(scores: ArrayLike, runtimes: ArrayLike, k: int) -> float:
    """Returns `slowdown` less 1; arguments and errors as there."""
    return slowdown(scores, runtimes, k) - 1.0


def ordered_pairs(scores: ArrayLike, runtimes: ArrayLike) -> tuple[int, int]:
    """Counts pairs in the right order, exactly, in O(c log c).

    Args:
        scores: [c], lower = predicted faster.
        runtimes: [c], positive.

    Returns:
        (correct, total): `total` pairs have runtimes y_i > y_j; of those,
        `correct` have scores s_i > s_j.  Equal scores count as wrong.

    Raises:
        ValueError: shapes differ, a NaN score, a runtime not positive.
    """
    scores, runtimes = _check_graph(scores, runtimes)
    _, ranks = np.unique(scores, return_inverse=True)
    # Within equal runtimes the scores fall, so no such pair can be ascending.
    ranks = ranks[np.lexsort((-ranks, runtimes))].astype(np.int64)
    total = math.comb(len(runtimes), 2) - _count_ties(runtimes)
    return _count_ascending(ranks)[0], total


def ordered_pair_accuracy(scores: ArrayLike, runtimes: ArrayLike) -> float:
    """Returns the share of pairs in the right order; NaN if no two runtimes differ.

    Arguments and errors are those of `ordered_pairs`.
    """
    correct, total = ordered_pairs(scores, runtimes)
    return correct / total if total else float('nan')


def kendall_tau(scores: ArrayLike, runtimes: ArrayLike) -> float:
    """Computes Kendall's tau-b of scores and runtimes, Kaggle's layout score.

    Returns:
        Between -1 and 1; NaN when all scores or all runtimes are equal (also
        for a single configuration), for then tau is not defined.

    Raises:
        ValueError: shapes differ, a NaN score, a runtime not positive.
    """
    scores, runtimes = _check_graph(scores, runtimes)
    if scores.min() == scores.max() or runtimes.min() == runtimes.max():
        return float('nan')
    if len(scores) > _FEW_SCORES:
        # Of float32 NumPy 2 makes a float32 tau.
        scores, runtimes = (
            x.astype(np.float64) if x.dtype.kind == 'f' else x
            for x in (scores, runtimes)
        )
        return float(scipy.stats.kendalltau(scores, runtimes)[0])
    # The same number, without the import of SciPy's, its checks and its p-value.
    correct, total = ordered_pairs(scores, runtimes)
    pairs, of_scores = math.comb(len(scores), 2), _count_ties(scores)
    # Of the pairs in `total`, these have equal scores.  Rank of the score times c plus
    # rank of the runtime is one number for both.
    both = np.unique(scores, return_inverse=True)[1] * len(scores)
    tied = of_scores - _count_ties(both + np.unique(runtimes, return_inverse=True)[1])
    # Concordant less discordant pairs: correct - (total - tied - correct).
    tau = (2 * correct + tied - total) / math.sqrt(pairs - of_scores) / math.sqrt(total)
    return min(1.0, max(-1.0, tau))  # rounding may exceed the bounds


def bootstrap_interval(
    values: ArrayLike, statistic: Callable[..., Any] = np.mean, method: str = 'BCa'
) -> Interval:
    """Estimates a confidence interval of the mean over graphs, by bootstrap.

    It is how far the mean could move with other graphs of the same kind, without the
    noise between training runs.

    Args:
        values: [n], one finite figure per graph, of one at least.
        statistic: the mean, or another function of an array and an axis.
        method: of `scipy.stats.bootstrap`.

    Returns:
        (low, high), the same every time; both None for a single graph, and where it is
        not defined.
    """
    values = np.asarray(values, np.float64)
    if len(values) == 1:
        return None, None
    if values.min() == values.max():  # of which SciPy returns NaN
        return float(values[0]), float(values[0])
    with warnings.catch_warnings():  # of values without an interval
        warnings.simplefilter('ignore')
        low, high = scipy.stats.bootstrap(
            (values,),
            statistic,
            n_resamples=_RESAMPLES,
            batch=max(1, _BOOTSTRAP_CELLS // len(values)),
            confidence_level=CONFIDENCE,
            method=method,
            random_state=np.random.default_rng(0),
        ).confidence_interval
    return (None, None) if np.isnan(low + high) else (float(low), float(high))


def grouped_interval(values: ArrayLike, groups: ArrayLike) -> Interval:
    """Estimates a confidence interval of a mean over graphs that come in groups.

    Kernels of one program are similar, so they are not independent measurements: whole
    groups are drawn with replacement, and percentiles of the mean over all their graphs
    are returned.

    Args:
        values: [n], one figure per graph, none NaN.

    Returns:
        (low, high), the same every time; both None for a single group.
    """
    _, members = np.unique(np.asarray(groups), return_inverse=True)
    sums, sizes = np.bincount(members, values), np.bincount(members)
    if len(sizes) == 1:
        return None, None
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(sizes), (_RESAMPLES, len(sizes)))  # groups
    # Means over graphs, not over groups: [resamples].
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


class Measure(NamedTuple):
    """A figure of a graph, for reports."""

    key: str  # its name in JSON
    title: str  # the head of its column
    # (scores, runtimes) -> the figure; NaN where it is not defined
    of_graph: Callable[[np.ndarray, np.ndarray], float]
    # what random scores are expected to get; None: as equal scores, of which `of_graph`
    # takes the expectation over all orders
    random: float | None = None
    legend: str = ''  # what the title means; measures may share one
    final: str = ''  # its name among the final errors of a training; '' if it is none
    # how many of the configurations ranked first it looks at; None: at all
    first: int | None = None
    more_is_better: bool = False
    show: str = '.3f'  # format of a value

    @property
    def sign(self) -> int:
        """1 if more is better, else -1."""
        return 1 if self.more_is_better else -1

    def of_random(self, runtimes: np.ndarray) -> float:
        """Computes the figure that random scores are expected to get."""
        if self.random is not None:
            return self.random
        return self.of_graph(np.zeros(len(runtimes)), runtimes)


def _compute_tau(scores: np.ndarray, runtimes: np.ndarray) -> float:
    """Returns Kendall's tau; 0 for constant scores, so that they lower a mean."""
    tau = kendall_tau(scores, runtimes)
    return 0.0 if np.isnan(tau) and np.min(runtimes) < np.max(runtimes) else tau


_TOP_K = [
    Measure(
        f'top_{k}_error',
        f'top-{k}',
        functools.partial(top_k_error, k=k),
        legend='top-k: (best of the k ranked first - best) / best.',
        final=str(k),
        first=k,
    )
    for k in (1, 5, 10)
]
_SLOWDOWNS = [
    Measure(
        f'slowdown_{k}',
        f'slowd@{k}',
        functools.partial(slowdown, k=k),
        legend='slowd@k: best of the k ranked first / best.',
        final=str(k),
        first=k,
    )
    for k in (1, 10, 100)
]
_OPA = Measure('opa', 'OPA', ordered_pair_accuracy, random=0.5, more_is_better=True)
_TAU = Measure('kendall_tau', 'tau', _compute_tau, random=0.0, more_is_better=True)
_KAGGLE = Measure(
    'kaggle_score',
    'Kaggle',
    # Five choices that all take more than twice the best runtime count negative.
    lambda scores, runtimes: 2.0 - slowdown(scores, runtimes, 5),
    legend='Kaggle: 1 - top-5.',
    first=5,
    more_is_better=True,
)

# What is reported, in order.  Add a new measure here.
MEASURES: dict[str, list[Measure]] = {
    'tile': [*_TOP_K, _OPA, _TAU, _KAGGLE],
    'layout': [_TAU._replace(final='kendall_tau'), *_SLOWDOWNS, _OPA],
}


def find_measure(task: str, key: str) -> Measure:
    """Returns the measure of a task, 'tile' or 'layout', with a key."""
    [measure] = [m for m in MEASURES[task] if m.key == key]
    return measure


def _count_ties(values: np.ndarray) -> int:
    """Counts the pairs of equal values."""
    _, counts = np.unique(values, return_counts=True)
    return sum(math.comb(count, 2) for count in counts.tolist())


def _count_ascending(ranks: np.ndarray) -> tuple[int, np.ndarray]:
    """Counts i < j with ranks[i] < ranks[j] by merge sort; and sorts the ranks."""
    if len(ranks) <= _FEW_RANKS:
        return int(np.triu(ranks[:, np.newaxis] < ranks).sum()), np.sort(ranks)
    middle = len(ranks) // 2
    first, sorted_first = _count_ascending(ranks[:middle])
    second, sorted_second = _count_ascending(ranks[middle:])
    # For each of the second part, how many of the first are smaller.
    between = int(np.searchsorted(sorted_first, sorted_second).sum())
    # A stable sort is fast where its input is two sorted parts.
    merged = np.sort(np.concatenate([sorted_first, sorted_second]), kind='stable')
    return first + second + between, merged


def _check_graph(scores: ArrayLike, runtimes: ArrayLike) -> tuple[np.ndarray, ...]:
    """Returns scores and as many runtimes as arrays; raises ValueError otherwise."""
    scores = arrays.check_scores(scores)
    why = 'must be positive (files of the test split have no runtimes, only 0)'
    is_valid = lambda x: np.isfinite(x) & (x > 0)
    runtimes = arrays.check_numbers(runtimes, 'runtime', is_valid, why)
    if scores.shape != runtimes.shape:
        raise ValueError(
            f'{len(scores)} scores must be as many as the runtimes, {len(runtimes)}'
        )
    return scores, runtimes
