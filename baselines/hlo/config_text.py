"""Writes configurations as JSON and as human-readable text."""

from collections.abc import Sequence

from google.protobuf import message
import numpy as np

from baselines.core import text
from baselines.hlo import schema

_BOUNDS = ('output_bounds', 'kernel_bounds', 'input_bounds')


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


def tile_text(bounds: dict[str, Sequence[int]]) -> str:
    """Returns e.g. `output 8x128, kernel 256, input -` of `tile_json`; `-` is empty."""
    return ', '.join(
        f'{name[: -len("_bounds")]} {"x".join(map(str, sizes)) or "-"}'
        for name, sizes in bounds.items()
    )


def layout_json(
    run: message.Message, nodes: Sequence[int], default: message.Message | None = None
) -> text.JsonObject:
    """Returns e.g. {'layouts': {'12': {'output': [1, 0], 'input': [0, 1]}}}.

    Args:
        run: a ConfigProfile with layouts.
        nodes: the numbers of the configurable nodes.
        default: a ConfigProfile; only nodes that differ from it are listed.
    """
    chosen = {}
    layouts = run.module_config.layout_config.nodes
    usual = default.module_config.layout_config.nodes if default else ()
    for i, (number, layout) in enumerate(zip(nodes, layouts)):
        if i >= len(usual) or layout != usual[i]:
            arrays = zip(schema.LAYOUT_ARRAYS, layout.tensors)
            chosen[str(number)] = {name: list(tensor.dims) for name, tensor in arrays}
    return {'layouts': chosen}


def layout_row_json(rows: np.ndarray, nodes: Sequence[int]) -> text.JsonObject:
    """Returns the layouts of `layout_json` from the columns of a configuration.

    Args:
        rows: float32 [k, 18].
        nodes: the numbers of the k configurable nodes.
    """
    layouts = {}
    for number, row in zip(nodes, rows):
        blocks = {name: row[schema.LAYOUT.block(name)] for name in schema.LAYOUT_ARRAYS}
        layouts[str(number)] = {
            name: block[block >= 0].astype(int).tolist()
            for name, block in blocks.items()
        }
    return {'layouts': layouts}


def layout_text(configuration: text.JsonObject) -> str:
    """Returns e.g. `12: output {1,0} input {0,1}; 15: output {}` of `layout_json`."""
    nodes = []
    for number, arrays in configuration['layouts'].items():
        layouts = [
            f'{name} {{{",".join(map(str, dims))}}}' for name, dims in arrays.items()
        ]
        nodes.append(f'{number}: {" ".join(layouts) or "-"}')
    return '; '.join(nodes) or 'as the default'
