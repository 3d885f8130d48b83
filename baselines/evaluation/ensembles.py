"""Scores of several models as those of one: brought to one scale and averaged.

    average([[3.0, 1.0, 2.0], [0.9, 0.2, 0.1]], by='ranks')    # [1.0, 0.25, 0.25]

Models score on scales of their own: a ranking loss leaves scores free up to any
increasing function.  So each model's scores of a graph are first mapped to
one scale.  Nothing here knows of models or files.
"""

import itertools
from typing import Optional, Sequence

import numpy as np
from numpy.typing import ArrayLike

from baselines import text
from baselines.evaluation import metrics

WAYS = ('scores', 'ranks', 'standard')


def min_max(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to [0, 1]: (s - min) / (max - min).

    Returns:
        float64 [c]; all 0 where all scores are equal.
    """
    scores = np.asarray(scores, np.float64)
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def standard(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to mean 0 and standard deviation 1.

    Returns:
        float64 [c]; all 0 where all scores are equal.
    """
    scores = np.asarray(scores, np.float64)
    spread = scores.std()
    if not spread:
        return np.zeros_like(scores)
    return (scores - scores.mean()) / spread


def ranks(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to their places: 0 for the lowest, 1 for the highest.

    Returns:
        float64 [c]; equal scores share the mean of their places, and all are 0
        where there is no difference.
    """
    # It takes half a second to import, and help needs no more than `WAYS`.
    from scipy import stats

    places = stats.rankdata(scores) - 1
    if places.min() == places.max():
        return np.zeros(len(places))
    return places / (len(places) - 1)


def normal_scores(scores: ArrayLike) -> np.ndarray:
    """Maps scores [c] to the normal quantiles of their ranks, about -2 to 2.

    Returns:
        float64 [c]; equal scores share the mean of their ranks.
    """
    from scipy import stats  # late, as in `ranks`

    places = stats.rankdata(scores) - 0.5
    return stats.norm.ppf(places / len(places))


def agreement(members: Sequence[ArrayLike]) -> float:
    """Returns the share of a graph's pairs of configurations that models order alike.

    Where models disagree, their mean is less often right: what an ensemble knows of
    its own errors (Lakshminarayanan et al., "Simple and Scalable Predictive
    Uncertainty Estimation using Deep Ensembles", NeurIPS 2017).

    Args:
        members: for each of two or more models [c], without NaN.

    Returns:
        The mean over pairs of models, between 0 and 1.  Pairs of configurations that
        the second model scores alike are left out; if that is all, it is 1/2, as of
        a random order.
    """
    shares = []
    for first, second in itertools.combinations(members, 2):
        places = np.unique(second, return_inverse=True)[1] + 1
        alike, total = metrics.ordered_pairs(first, places)
        shares.append(alike / total if total else 0.5)
    return float(np.mean(shares))


def average(
    members: Sequence[ArrayLike],
    weights: Optional[ArrayLike] = None,
    by: str = 'scores',
) -> np.ndarray:
    """Averages the scores that several models give a graph.

    Args:
        members: for each model [c], lower = predicted faster.
        weights: of the models; None means equal.  Only their ratios matter.
        by: 'scores' maps each model's scores by `min_max`, 'ranks' by `ranks`,
            'standard' by `standard`.

    Returns:
        float64 [c], lower = predicted faster; in [0, 1] but for 'standard'.

    Raises:
        ValueError: there is no model, their numbers of scores differ, a score
            is not finite, `by` is unknown, or as in `check_weights`.
    """
    if by not in WAYS:
        raise ValueError(f'by is {by!r}: it is one of {", ".join(WAYS)}')
    shares = check_weights(weights, len(members))
    arrays = [np.asarray(scores) for scores in members]
    for scores in arrays:
        if scores.ndim != 1 or not scores.size or len(scores) != len(arrays[0]):
            raise ValueError(
                f'scores have shapes {", ".join(str(s.shape) for s in arrays)}:'
                ' each model gives one to each of the same configurations'
            )
        if not np.isfinite(scores).all():
            raise ValueError('a score is not finite')
    scale = {'scores': min_max, 'ranks': ranks, 'standard': standard}[by]
    return np.sum([w * scale(s) for w, s in zip(shares, arrays)], axis=0)


def check_weights(weights: Optional[ArrayLike], count: int) -> np.ndarray:
    """Returns the weights of `count` models, divided by their sum.

    Raises:
        ValueError: there is no model; there are more or fewer weights than
            models, one is negative or not finite, or all are 0.
    """
    if not count:
        raise ValueError('an ensemble needs at least one model')
    weights = np.ones(count) if weights is None else np.asarray(weights, np.float64)
    if weights.shape != (count,):
        raise ValueError(
            f'--weights: {text.count(weights.size, "weight")} for '
            f'{text.count(count, "run")}'
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(
            '--weights should be numbers of at least 0, not all 0, not '
            + ' '.join(f'{weight:g}' for weight in weights)
        )
    return weights / weights.sum()
