"""How much kernel time a model saves, by size of the kernel.

Means over kernels count a kernel of microseconds as much as one of milliseconds, where
most of a program's time is.  These figures are weighted by time instead, and grouped by
the time that a kernel takes with XLA's default configuration.  The share saved of
several kernels is the ratio of the sums.
"""

import dataclasses

import numpy as np

from baselines.evaluation import metrics

# Upper bounds of all size classes but the last, nanoseconds.
_BOUNDS = (30_000, 300_000, 3_000_000)
SIZE_CLASSES = ('below 30 us', '30 to 300 us', '0.3 to 3 ms', '3 ms and above')


def size_class(default_ns: float) -> str:
    """Returns the size class of a kernel, one of `SIZE_CLASSES`.

    Args:
        default_ns: the nanoseconds that it takes with XLA's default.
    """
    return SIZE_CLASSES[int(np.searchsorted(_BOUNDS, default_ns, side='right'))]


@dataclasses.dataclass(frozen=True)
class TimeSaved:
    """Nanoseconds of one run of a kernel that are saved over XLA's default.

    Attributes:
        first: by the configuration that a model ranks first; negative if it is slower
            than the default.
        measured: by the best of the default and the configurations that a model ranks
            first, measured.
        possible: by the best of all configurations.
    """

    first: float
    measured: float
    possible: float


def time_saved(
    scores: np.ndarray,
    search: np.ndarray,
    judge: np.ndarray,
    default: int,
    count: int = 10,
) -> TimeSaved:
    """Returns what a ranking of the configurations of a kernel saves.

    A configuration is chosen by one measurement and judged by another, so that noise
    does not look like a saving.  Of equal scores it is the expectation over all orders.

    Args:
        scores: float [c], lower = faster.
        search: nanoseconds [c], which choose among measured configurations.
        judge: nanoseconds [c] of another measurement.
        count: configurations to measure, in addition to the default.
    """
    saved = np.subtract(judge[default], judge, dtype=float)
    # The default's time is known, so it is measured first.
    tried = np.where(np.arange(len(scores)) == default, -np.inf, scores)
    return TimeSaved(
        metrics.expected_best(scores, search, 1, saved),
        metrics.expected_best(tried, search, 1 + count, saved),
        float(saved[search.argmin()]),
    )
