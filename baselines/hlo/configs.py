"""The configurations of a tuned module: fields that both kinds of modules share."""

from collections.abc import Sequence
import dataclasses
from typing import Any

from google.protobuf import message
import numpy as np


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Configs:
    """The usable runs of a module, c of them, in stored order.

    Attributes:
        config_runtime: int64 [c], nanoseconds; 0 for a candidate that was not
            measured.
        normalizer: time of the first usable default run, nanoseconds; None where
            no default was measured.
        default: the default among the c (first measured, else first); or None.
        run_index: int64 [c], the positions of the usable runs among all runs.
        dropped: run counts by reason.
    """

    config_runtime: np.ndarray
    normalizer: int | None
    default: int | None
    run_index: np.ndarray
    dropped: dict[str, int]


def time_of(run: message.Message) -> int:
    """Returns the nanoseconds that a run took; 0 or less if it was not measured."""
    return run.profile.compute_time_ns


def timing(usable: Sequence[tuple[int, message.Message]], least: int) -> dict[str, Any]:
    """Returns fields of `Configs`: config_runtime, normalizer, default, run_index.

    Args:
        usable: (position among all runs, run) of c runs.
        least: nanoseconds; a run that took less counts as not measured.
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
