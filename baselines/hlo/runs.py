"""What the runs of both kinds of tuned modules have in common."""

import dataclasses
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Configs:
    """The usable runs of a module, c of them, in stored order.

    Attributes:
        config_runtime: int64 [c], nanoseconds; 0 for a candidate that was not
            measured.
        normalizer: time of the first usable default run, nanoseconds; None where
            no default was measured.
        default: the default among the c (first measured, else first); or None.
        run_index: int64 [c], the position of each among all runs.
        dropped: run counts by reason.
    """

    config_runtime: np.ndarray
    normalizer: Optional[int]
    default: Optional[int]
    run_index: np.ndarray
    dropped: Dict[str, int]


def time_of(run: Any) -> int:
    """Returns the time of a run, nanoseconds; 0 or less if it was not measured."""
    return run.profile.compute_time_ns


def timing(usable: Sequence[Tuple[int, Any]], least: int) -> Dict[str, Any]:
    """Returns what configurations of both kinds say about time.

    Args:
        usable: (position among all runs, run) of c runs.
        least: nanoseconds that a measured run takes at least.

    Returns:
        The fields `config_runtime`, `normalizer`, `default` and `run_index`.
    """
    times = np.array([time_of(run) for _, run in usable], np.int64)
    times[times < least] = 0
    defaults = [i for i, (_, run) in enumerate(usable) if run.is_default]
    default = next((i for i in defaults if times[i]), next(iter(defaults), None))
    measured = default is not None and times[default]
    return {
        'config_runtime': times,
        'normalizer': int(times[default]) if measured else None,
        'default': default,
        'run_index': np.array([index for index, _ in usable], np.int64),
    }
