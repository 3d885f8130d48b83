"""Tile-size configurations of a tuned kernel (TuningData, one module of it).

As columns of features, as JSON, and as human-readable text.
"""

from collections.abc import Mapping, Sequence
import dataclasses

from google.protobuf import message
import numpy as np

from baselines.core import text
from baselines.hlo import candidates
from baselines.hlo import gather
from baselines.hlo import schema

# What a run must have taken at least, in nanoseconds, to count as measured.
_MIN_TIME = 2

_BOUNDS = ('output_bounds', 'kernel_bounds', 'input_bounds')  # as text

# The largest published kernels have some 100,000.
MAX_CONFIGS = 10_000_000


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class TileConfigs(gather.Configs):
    """The usable runs of a kernel."""

    config_feat: np.ndarray  # float32 [c, 24]


def explain_unusable(tuning: message.Message, measured: bool = True) -> str | None:
    """Returns why a ModuleTuningData is passed over, or None.

    With `measured`, as the published extractor does; else, if it has nothing to rank.
    """
    if len(tuning.runs) < 2:
        return f'{len(tuning.runs) or "no"} run{"s" * (not tuning.runs)}'
    if not tuning.HasField('module'):
        return 'no module'
    if not all(run.op_config.HasField('tile_size_config') for run in tuning.runs):
        return 'a run without tile sizes'
    usable = _list_usable(tuning, measured)
    if measured:
        has_default = any(run.is_default for _, run in usable)
        return None if has_default else 'no usable default run'
    if len(usable) < 2:
        return f'{"only one" if usable else "no"} run without error mark'
    return None


def extract_configs(
    tuning: message.Message, pad: int = 0, measured: bool = True
) -> TileConfigs:
    """Returns the usable runs of a module.

    A run is dropped if it has the error mark or took at most 1 ns.

    Args:
        tuning: a ModuleTuningData for which `explain_unusable` is None.
        pad: the value of absent entries of the bounds, 0 (as published) or -1.
        measured: whether runs and their default have to be measured; to be
            ranked, they need not.

    Raises:
        ValueError: the module is not usable, or has more than MAX_CONFIGS.
    """
    reason = explain_unusable(tuning) if measured else None
    name = text.quoted(tuning.module.name)
    if reason:
        raise ValueError(f'module {name} has {reason}')
    usable = _list_usable(tuning, measured)
    if len(usable) > MAX_CONFIGS:
        raise ValueError(
            f'module {name} has {len(usable):,} usable runs, '
            f'more than the {MAX_CONFIGS:,} allowed'
        )
    errors = sum(run.error for run in tuning.runs)
    sizes = [run.op_config.tile_size_config for _, run in usable]
    lists = {name: [getattr(s, name)[:] for s in sizes] for name in schema.TILE_LISTS}
    return TileConfigs(
        config_feat=_pad_lists(lists, pad),
        dropped={'error': errors, 'no time': len(tuning.runs) - len(usable) - errors},
        **gather.gather_timing(usable, _MIN_TIME),
    )


def columns_of(configs: Sequence[text.JsonObject], pad: int = 0) -> np.ndarray:
    """Returns float32 [c, 24], the columns of configurations given as dicts.

    Args:
        configs: such as {'output_bounds': [8, 128]}, see `hlo.candidates`.
        pad: the value of absent entries, 0 or -1.

    Raises:
        ValueError: a configuration is malformed; gives its number.
    """
    rows: dict[str, list[list[int]]] = {name: [] for name in schema.TILE_LISTS}
    reader = candidates.TileBounds()
    for number, config in enumerate(configs):
        with text.locate_errors(f'configuration {number}'):
            bounds = reader.read(config)
        for name, lists in rows.items():
            lists.append(bounds.get(name, []))
    return _pad_lists(rows, pad)


def _pad_lists(lists: Mapping[str, Sequence[Sequence[int]]], pad: int) -> np.ndarray:
    """Returns the columns of the lists of all configurations: float32 [c, 24]."""
    blocks = [
        gather.Ragged.from_rows(lists[field.name]).tabulate(
            field.entries, pad, empty_product=0
        )
        for field in schema.TILE_FIELDS
    ]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def _list_usable(
    tuning: message.Message, measured: bool
) -> list[tuple[int, message.Message]]:
    """Returns (position, run) of the runs without error and, if asked, with a time."""
    return [
        (index, run)
        for index, run in enumerate(tuning.runs)
        if not run.error and (not measured or gather.time_of(run) >= _MIN_TIME)
    ]


def tile_json(run: message.Message) -> dict[str, list[int]]:
    """Returns e.g. {'output_bounds': [8, 128], ...} of a ConfigProfile with tiles."""
    sizes = run.op_config.tile_size_config
    bounds = {name: list(getattr(sizes, name)) for name in _BOUNDS}
    if sizes.iteration_bounds:  # no feature, and hardly ever there
        bounds['iteration_bounds'] = list(sizes.iteration_bounds)
    return bounds


def tile_row_json(row: np.ndarray, pad: int = 0) -> dict[str, list[int]]:
    """Returns the bounds of `tile_json` from the columns of a configuration.

    Args:
        row: float32 [24].
        pad: value of absent entries; 0 is never a bound.
    """
    bounds_by_name = {}
    for name in _BOUNDS:
        bounds = row[schema.TILE.block(name)].astype(int).tolist()
        while bounds and bounds[-1] in (0, pad):
            bounds.pop()
        bounds_by_name[name] = bounds
    return bounds_by_name


def format_tile(bounds: dict[str, Sequence[int]]) -> str:
    """Returns e.g. `output 8x128, kernel 256, input -` of `tile_json`; `-` is empty."""
    return ', '.join(
        f'{name[: -len("_bounds")]} {"x".join(map(str, sizes)) or "-"}'
        for name, sizes in bounds.items()
    )
