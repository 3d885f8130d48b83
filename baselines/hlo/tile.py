"""Tile-size configurations of a tuned kernel (TuningData, one module of it)."""

import dataclasses
from typing import Any, Optional, Tuple

import numpy as np

from baselines.hlo import columns
from baselines.hlo import ragged

# What a run must have taken at least, in nanoseconds, to count as measured.
_MIN_TIME = 2

# The largest published kernels have some 100,000.
MAX_CONFIGS = 10_000_000

_BOUNDS = ('kernel_bounds', 'output_bounds', 'input_bounds')


@dataclasses.dataclass(frozen=True, eq=False)
class TileConfigs:
    """The usable runs of a kernel, c of them, in stored order.

    Attributes:
        config_feat: float32 [c, 24].
        config_runtime: int64 [c], nanoseconds.
        normalizer: time of the first usable default run, nanoseconds.
        run_index: int64 [c], the position of each among all runs.
        feature_names: the 24 column names.
        dropped: run counts by reason: 'error', 'no time'.
    """

    config_feat: np.ndarray
    config_runtime: np.ndarray
    normalizer: int
    run_index: np.ndarray
    feature_names: Tuple[str, ...]
    dropped: dict


def why_unusable(tuning: Any) -> Optional[str]:
    """Returns why the published extractor passes a module over, or None.

    Args:
        tuning: a ModuleTuningData of a TuningData.
    """
    if len(tuning.runs) < 2:
        return f'{len(tuning.runs) or "no"} run{"s" * (not tuning.runs)}'
    if not tuning.HasField('module'):
        return 'no module'
    if not all(run.op_config.HasField('tile_size_config')
               for run in tuning.runs):
        return 'a run without tile sizes'
    if _default_time(_usable(tuning)) is None:
        return 'no usable default run'
    return None


def extract_configs(tuning: Any, pad: int = 0) -> TileConfigs:
    """Returns the usable runs of a module.

    A run is dropped if it has the error mark or took at most 1 ns.

    Args:
        tuning: a ModuleTuningData for which `why_unusable` is None.
        pad: what absent entries of the bounds hold, 0 (as published) or -1.

    Raises:
        ValueError: the module is not usable, or has more than MAX_CONFIGS.
    """
    reason = why_unusable(tuning)
    if reason:
        raise ValueError(f'module {tuning.module.name!r} has {reason}')
    usable = _usable(tuning)
    if len(usable) > MAX_CONFIGS:
        raise ValueError(
            f'module {tuning.module.name!r} has {len(usable):,} usable runs, '
            f'more than the {MAX_CONFIGS:,} allowed')
    errors = sum(run.error for run in tuning.runs)
    out = columns.Columns(pad)
    sizes = [run.op_config.tile_size_config for _, run in usable]
    for bounds in _BOUNDS:
        rows = ragged.Ragged.of([getattr(s, bounds)[:] for s in sizes])
        out.add_list(bounds, rows, 6, aggregates=True, empty_product=0)
    names, config_feat = out.finish()
    return TileConfigs(
        config_feat=config_feat,
        config_runtime=np.array([_time(run) for _, run in usable], np.int64),
        normalizer=_default_time(usable),
        run_index=np.array([index for index, _ in usable], np.int64),
        feature_names=names,
        dropped={
            'error': errors,
            'no time': len(tuning.runs) - len(usable) - errors,
        },
    )


def _usable(tuning: Any) -> list:
    """Returns (position, run) of the runs that count."""
    return [
        (index, run) for index, run in enumerate(tuning.runs)
        if not run.error and _time(run) >= _MIN_TIME
    ]


def _time(run: Any) -> int:
    return run.profile.compute_time_ns


def _default_time(usable: list) -> Optional[int]:
    return next((_time(run) for _, run in usable if run.is_default), None)
