"""Draws tile configurations of kernels, to measure and to write as raw files."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import itertools
import math
from typing import Any

import numpy as np

from baselines.hlo import protos
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import extents
from tpugraphs_lab.kernels import rewriting

# Sizes of tiles, by the names 'output', 'kernel' and 'input'.
Config = Mapping[str, Any]

# Kernels whose arrays are all smaller take about as long as to call them.
LEAST_ELEMENTS = 8192
# Rounds of a loop at most; a round costs about a tenth of a microsecond.
_MOST_TRIPS = 2048
# Bytes of an output tile at most: a larger one does not fit into a core's own cache.
_FOOTPRINT = 4 << 20
# Sizes of a dimension at most: loops count elements in 32 bits.
_MOST_SIZE = (1 << 31) - 1


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations of a kernel, ready to be measured."""

    configs: list[Config]  # the default first
    modules: list[bytes]  # their HloModuleProtos, serialised


def candidates_of(
    kernel: cutting.Kernel, rng: np.random.Generator, count: int
) -> Candidates:
    """Draws configurations of a kernel, the untiled one first.

    Args:
        count: configurations at most, with the untiled one.
    """
    plan = rewriting.Plan(kernel.module)
    return candidates_with(plan, draw_tiles(plan, rng, count))


def candidates_with(
    plan: rewriting.Plan, drawn: Sequence[rewriting.Tiles]
) -> Candidates:
    """Makes the modules of configurations of a kernel, the untiled one first."""
    candidates = Candidates([], [])
    for tiles in drawn:
        tiled = rewriting.tile(plan, tiles)
        config = {'output': tiles.output, 'kernel': tiles.kernel, 'input': tiled.input}
        candidates.configs.append(config)
        # As bytes a module takes a fraction of the memory.
        candidates.modules.append(tiled.module.SerializeToString())
    return candidates


def tuning_data(
    kernel: cutting.Kernel,
    configs: Sequence[Config],
    times: Iterable[float] = (),
    default: int = 0,
) -> protos.ModuleTuningData:
    """Returns a ModuleTuningData of a kernel with configurations.

    Args:
        times: their nanoseconds; empty for candidates.
        default: number of XLA's own configuration.
    """
    tuning = protos.ModuleTuningData(
        module=kernel.module, fingerprint=int(kernel.name.rpartition('_')[2], 16)
    )
    for config in configs:
        sizes = tuning.runs.add().op_config.tile_size_config
        sizes.kernel_bounds.extend(config['kernel'])
        sizes.output_bounds.extend(config['output'])
        sizes.input_bounds.extend(config['input'])
    tuning.runs[default].is_default = True
    for run, time in zip(tuning.runs, times):
        # Below 2 ns a run does not count as measured.
        run.profile.compute_time_ns = max(2, int(time))
    return tuning


def kernels_of(
    module: protos.HloModuleProto,
    program: str,
    seen: set[str],
    skipped: collections.Counter[str],
) -> list[cutting.Kernel]:
    """Returns the kernels of an optimised module that can be tiled.

    Args:
        seen: hashes of earlier kernels, which are left out; the new ones are added.
        skipped: counts the kernels left out, by reason.
    """
    cut, reasons = cutting.cut(module, program, LEAST_ELEMENTS)
    skipped.update(reasons)
    tileable = []
    for kernel in cut:
        if _largest_size(kernel.module) > _MOST_SIZE:
            skipped['too large for an index of 32 bits'] += 1
            continue
        digest = kernel.name.rpartition('_')[2]
        plan = rewriting.Plan(kernel.module)
        output, reduced = plan.tileable
        if digest in seen:
            skipped['kernel of another program too'] += 1
        elif not any(output + reduced):
            skipped[f'nothing to tile: {plan.root.opcode}'] += 1
        else:
            tileable.append(kernel)
        seen.add(digest)
    return tileable


def _largest_size(module: protos.HloModuleProto) -> int:
    """Returns the largest size of a dimension in a kernel's module."""
    entry = cutting.entry_of(module)
    return max((n for i in entry.instructions for n in i.shape.dimensions), default=0)


def tile_sizes(size: int) -> list[int]:
    """Returns the tile sizes of a dimension, ascending: 1, 2, 4, ... and divisors."""
    powers = {1 << n for n in range(size.bit_length())}
    divisors = {d for d in range(1, math.isqrt(size) + 1) if not size % d}
    return sorted(powers | divisors | {size // d for d in divisors})


def draw_tiles(
    plan: rewriting.Plan, rng: np.random.Generator, count: int
) -> list[rewriting.Tiles]:
    """Returns distinct configurations of a kernel; the untiled one is the first.

    Args:
        count: how many at most, with the untiled one.
    """
    output, _ = plan.tileable
    choices = [tile_sizes(n) if free else [n] for n, free in zip(plan.output, output)]
    choices += _divisors(plan)
    outputs = len(plan.output)

    def tiles(row: tuple[int, ...]) -> rewriting.Tiles:
        return rewriting.Tiles(row[:outputs], row[outputs:])

    whole = (*plan.output, *plan.reduced)
    fits = lambda row: _fits(plan, tiles(row))
    return list(map(tiles, draw_rows(whole, choices, rng, count, fits)))


def _divisors(plan: rewriting.Plan) -> list[list[int]]:
    """Returns the possible tile sizes of the dimensions of `plan.reduced`."""
    return [
        [size for size in tile_sizes(n) if not n % size] if free else [n]
        for n, free in zip(plan.reduced, plan.tileable[1])
    ]


def draw_rows(
    default: tuple[int, ...],
    choices: Sequence[Sequence[int]],
    rng: np.random.Generator,
    count: int,
    fits: Callable[[tuple[int, ...]], bool] = lambda row: True,
) -> list[tuple[int, ...]]:
    """Draws distinct rows of sizes, the default first.

    If few are possible, all are taken; else half of the sizes stay those of the
    default, since tiles of all dimensions are mostly small.  A fifth are the smallest:
    XLA drops dimensions of size one and then compiles another kernel (a product
    instead of a convolution of one pixel).

    Args:
        choices: possible sizes, ascending, by place in a row.
        count: rows at most, with the default.
    """
    drawn: Iterable[tuple[int, ...]]
    if math.prod(map(len, choices)) <= 4 * count:
        # All of them in random order: without this, draws would repeat.
        combinations = list(itertools.product(*choices))
        drawn = (combinations[index] for index in rng.permutation(len(combinations)))
    else:
        drawn = (_draw_row(default, choices, rng) for _ in range(50 * count))
    rows = {default: None}
    for row in drawn:
        if len(rows) == count:
            break
        if fits(row):
            rows[row] = None
    return list(rows)


def _draw_row(
    default: Sequence[int], choices: Sequence[Sequence[int]], rng: np.random.Generator
) -> tuple[int, ...]:
    """Draws a row of sizes, as `draw_rows` describes."""
    # [sizes], uniform: below 0.5 the default, below 0.7 the smallest, else any.
    kinds = rng.random(len(choices))
    return tuple(
        size if kind < 0.5 else s[0 if kind < 0.7 else rng.integers(len(s))]
        for size, s, kind in zip(default, choices, kinds)
    )


def _fits(plan: rewriting.Plan, tiles: rewriting.Tiles) -> bool:
    """Returns whether a configuration has few enough rounds and a tile small enough."""
    trips = extents.trips(plan.output, tiles.output)
    trips *= extents.trips(plan.reduced, tiles.kernel)
    share = math.prod(tiles.output) / max(1, math.prod(plan.output))
    footprint = share * building.num_bytes(plan.root.shape)
    return trips <= _MOST_TRIPS and footprint <= _FOOTPRINT
