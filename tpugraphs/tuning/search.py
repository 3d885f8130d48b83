"""Chooses the configurations to measure next.

The times are modelled by a Gaussian process over the columns of tile sizes, whose mean
is a model's scores.  Measured times overrule the scores nearby; if they do not
correlate with the scores at all, the mean is constant.  The configuration with the
largest expected improvement is proposed (Jones et al., 1998).

The constants below were chosen with benchmarks/measured_tuning.py --share.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import math

import numpy as np

from tpugraphs.clock import timing

# Log times over the default's: the mean of configurations, and the standard deviations
# of configurations and of repeated measurements.
_MEAN = 0.3
_SPREAD = 1.0
_NOISE = 0.05
# Weight of the scores, which are scaled to a variance of one.
_TRUST = 0.15
# Length scale of correlations between configurations, in doublings of sizes.
_LENGTH = 10.0

# The distribution function of scipy.stats, whose import takes longer than all others.
_normal_cdf = np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2)

Proposal = Callable[[Mapping[int, float], Collection[int], int], list[int]]


def beginning_with(starts: Sequence[int], then: Proposal) -> Proposal:
    """Returns a function that proposes the given configurations before all others.

    Args:
        starts: numbers of configurations, the most promising first.
        then: proposes others: `propose` with its first two arguments.
    """

    def proposed(
        measured: Mapping[int, float], excluded: Collection[int], count: int
    ) -> list[int]:
        first = [n for n in starts if n not in measured and n not in excluded]
        return list(dict.fromkeys([*first, *then(measured, excluded, count)]))

    return proposed


def propose(
    columns: np.ndarray,
    scores: np.ndarray | None,
    measured: Mapping[int, float],
    excluded: Collection[int],
    count: int,
) -> list[int]:
    """Returns the numbers of configurations to measure, the most promising first.

    A configuration is chosen as if those before it had taken their expected times.

    Args:
        columns: float [c, d] of the configurations, see `tile_choices.columns`.
        scores: float [c] of a model, lower = faster; None without one.
        measured: log times over the default's, by number; 0 is the default.
        excluded: numbers of others that are not proposed.
        count: configurations to propose at most.
    """
    numbers, times = list(measured), list(measured.values())
    # [c], expected log times over the default's.
    prior = np.full(len(columns), _MEAN)
    if scores is not None:
        scores = np.asarray(scores, float)
        scaled = prior + _TRUST * (scores - scores.mean()) / (scores.std() or 1.0)
        # Two times agree with half of all rankings, so three are needed.
        is_judged = len(measured) > 2
        if not is_judged or timing.kendall_tau(scaled[numbers], np.array(times)) > 0:
            prior = scaled
    left = len(columns) - len({*measured, *excluded})
    for _ in range(min(count, left)):
        mean, spread = _posterior(columns, prior, numbers, np.array(times))
        better = (min(times) - mean) / spread
        # [c]: the mean of max(0, best - time) where times are normally distributed.
        density = np.exp(-(better**2) / 2) / math.sqrt(2 * math.pi)
        gain = spread * (better * _normal_cdf(better) + density)
        gain[[*numbers, *excluded]] = -np.inf
        numbers.append(int(gain.argmax()))
        times.append(mean[numbers[-1]])
    return numbers[len(measured) :]


def _posterior(
    columns: np.ndarray, prior: np.ndarray, numbers: list[int], times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the expected log times of configurations and their deviations.

    Args:
        columns: float [c, d] of the configurations.
        prior: float [c], the expected log times without measurements.
    """
    distances = columns[:, None] - columns[numbers][None]
    far = np.sqrt(3 * (distances**2).sum(-1)) / _LENGTH
    # [c, m], covariances of all configurations with the m measured ones.
    shared = _SPREAD**2 * (1 + far) * np.exp(-far)  # Matérn, 3/2
    # [m, m] between measured ones, with the noise of a measurement.
    inner = shared[numbers] + _NOISE**2 * np.eye(len(numbers))
    solved = np.linalg.solve(inner, shared.T)
    mean = prior + (times - prior[numbers]) @ solved
    variance = _SPREAD**2 - (shared.T * solved).sum(0)
    return mean, np.sqrt(np.maximum(variance, 1e-12))
