"""Averages the scores of several models, brought to a common scale.

    average([[3.0, 1.0, 2.0], [0.9, 0.2, 0.1]], by='ranks')    # [1.0, 0.25, 0.25]

Each model has its own scale of scores: a ranking loss determines them only up to an
increasing function.  So each model's scores of a graph are first mapped to one scale.
This module does not use models or files.
"""

from collections.abc import Callable, Sequence
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
import scipy  # loads `special` on first use

from baselines.evaluation import metrics

WEIGHTS = (1.0, 0.5, 0.0)  # of a member in the mean of two
_PARTS = 10  # of the configurations of a single program


class ScoredGraph(NamedTuple):
    """A graph that members have scored."""

    program: str  # the name of its program
    scores: Sequence[np.ndarray]  # of each member [c]
    runtimes: np.ndarray  # [c]


def scale_to_range(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to [0, 1]: (s - min) / (max - min); equal scores to 0."""
    scores = np.asarray(scores, np.float64)
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def standardise(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to mean 0 and standard deviation 1; equal scores to 0."""
    scores = np.asarray(scores, np.float64)
    spread = scores.std()
    if not spread:
        return np.zeros_like(scores)
    return (scores - scores.mean()) / spread


def rank_scores(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to their places: 0 for the lowest, 1 for the highest.

    Returns:
        float64 [c]; equal scores share the mean of their places, and all are 0
        where there is no difference.
    """
    places = _rank_with_ties(scores) - 1
    if places.min() == places.max():
        return np.zeros(len(places))
    return places / (len(places) - 1)


WAYS = {'scores': scale_to_range, 'ranks': rank_scores, 'standard': standardise}


def get_normal_scores(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to the normal quantiles of their ranks, about -2 to 2.

    Returns:
        float64 [c]; equal scores share the mean of their ranks.
    """
    # (rank - 1/2) / c is never 0 or 1, whose quantiles are infinite.
    places = _rank_with_ties(scores) - 0.5
    return scipy.special.ndtri(places / len(places))  # norm.ppf, without its checks


def _rank_with_ties(scores: ArrayLike) -> np.ndarray:
    """Returns float64 [c]: ranks from 1; equal scores share their mean.

    As scipy.stats.rankdata, whose import takes a second, and whose checks longer than
    the ranks of a graph.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # The last rank of each distinct score, less half of its repeats.
    ranks: np.ndarray = np.cumsum(counts) - (counts - 1) / 2
    return ranks[place]


def compute_agreement(members: Sequence[ArrayLike]) -> float:
    """Returns the share of a graph's pairs of configurations that models order alike.

    Where models disagree, their mean is less often right (Lakshminarayanan et al.,
    "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles",
    NeurIPS 2017).

    Args:
        members: scores [c] of two or more models, without NaN.

    Returns:
        The mean over pairs of models, between 0 and 1.  Pairs of configurations with
        equal scores by the second model are left out; without any other pair it is
        1/2, as for a random order.
    """
    shares = []
    for first, second in itertools.combinations(members, 2):
        # Ranks from 1, since `ordered_pairs` wants positive runtimes; ties share one.
        places = np.unique(second, return_inverse=True)[1] + 1
        alike, total = metrics.ordered_pairs(first, places)
        shares.append(alike / total if total else 0.5)
    return float(np.mean(shares))


def average(
    members: Sequence[ArrayLike], weights: ArrayLike | None = None, by: str = 'scores'
) -> np.ndarray:
    """Averages the scores that several models give a graph.

    Args:
        members: scores [c] of each model, lower = predicted faster.
        weights: weights of the models; None means equal.  Only their ratios matter.
        by: a key of `WAYS`, the function that maps each model's scores.

    Returns:
        float64 [c], lower = predicted faster; in [0, 1] but for 'standard'.

    Raises:
        ValueError: there is no model, their numbers of scores differ, a score
            is not finite, `by` is unknown, or as in `check_weights`.
    """
    if by not in WAYS:
        raise ValueError(f'by must be one of {", ".join(WAYS)}, not {by!r}')
    shares = check_weights(weights, len(members))
    arrays = [np.asarray(scores) for scores in members]
    for scores in arrays:
        if scores.ndim != 1 or not scores.size or len(scores) != len(arrays[0]):
            raise ValueError(
                f'scores must be of one shape [c], not {[s.shape for s in arrays]}'
            )
        if not np.isfinite(scores).all():
            raise ValueError('a score is not finite')
    return np.sum([w * WAYS[by](s) for w, s in zip(shares, arrays)], axis=0)


def choose_weights(
    graphs: Sequence[ScoredGraph], quality: Callable[[np.ndarray, np.ndarray], float]
) -> list[float]:
    """Chooses the weights of two members in their mean, on graphs to validate on.

    Weights are equal, unless half the weight for one member, or none, is better by more
    than its interval: the 95 % interval of the mean gain, drawing whole programs, is
    above 0.  With a single program, parts of its configurations are drawn.

    Args:
        quality: (scores, runtimes) of a graph -> a figure, more is better; NaN, for
            equal scores, counts 0.

    Returns:
        A weight of `WEIGHTS`, the larger one 1, for each member.
    """
    # Equal runtimes say nothing about an order.
    graphs = [graph for graph in graphs if np.ptp(graph.runtimes) > 0]
    if len({graph.program for graph in graphs}) == 1:
        graphs = [part for graph in graphs for part in _cut_configurations(graph)]
    if not graphs:
        return [1.0, 1.0]
    # [graphs] for each pair of weights of which the larger is 1.
    qualities = {
        (first, second): np.nan_to_num(
            [
                quality(average(g.scores, (first, second), by='standard'), g.runtimes)
                for g in graphs
            ]
        )
        for first, second in itertools.product(WEIGHTS, WEIGHTS)
        if max(first, second) == 1
    }
    best, programs = (1.0, 1.0), [graph.program for graph in graphs]
    for weights, figures in qualities.items():
        gain = figures - qualities[1.0, 1.0]
        low, _ = metrics.grouped_interval(gain, programs)
        if low is not None and low > 0 and figures.mean() > qualities[best].mean():
            best = weights
    return list(best)


def is_better(
    scored: Sequence[np.ndarray],
    than: Sequence[np.ndarray],
    runtimes: Sequence[np.ndarray],
    quality: Callable[[np.ndarray, np.ndarray], float],
) -> bool:
    """Returns whether scores rank graphs better than others do, on average.

    Args:
        runtimes: runtimes [c] of each graph.
        quality: figure of a graph, as in `choose_weights`.
    """
    ours, theirs = (
        np.nan_to_num([quality(*graph) for graph in zip(scores, runtimes)]).mean()
        for scores in (scored, than)
    )
    return bool(ours > theirs)


def _cut_configurations(graph: ScoredGraph) -> list[ScoredGraph]:
    """Cuts a graph's configurations into random parts, as if of different programs."""
    order = np.random.default_rng(0).permutation(len(graph.runtimes))
    # At least two configurations in a part, or it has no order.
    parts = np.array_split(order, min(_PARTS, len(order) // 2))
    cut = [
        ScoredGraph(
            str(number), [scores[rows] for scores in graph.scores], graph.runtimes[rows]
        )
        for number, rows in enumerate(parts)
    ]
    return [part for part in cut if np.ptp(part.runtimes) > 0]


def check_weights(weights: ArrayLike | None, count: int) -> np.ndarray:
    """Returns the weights of `count` models, divided by their sum.

    Raises:
        ValueError: there is no model; there are more or fewer weights than
            models, one is negative or not finite, or all are 0.
    """
    if not count:
        raise ValueError('an ensemble needs at least one model')
    weights = np.ones(count) if weights is None else np.asarray(weights, np.float64)
    if weights.shape != (count,):
        raise ValueError(f'--weights: give {count}, one per run, not {weights.size}')
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(
            f'--weights must be at least 0, and not all 0, not {weights.tolist()}'
        )
    return weights / weights.sum()
