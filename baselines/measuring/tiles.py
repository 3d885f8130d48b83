"""Kernels and their tile configurations as things to measure, and as records."""

import dataclasses
from typing import Any, Dict, List, Sequence

import numpy as np

from baselines.data import raw as raw_lib
from baselines.data.tile import records
from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import tile as hlo_tile
from baselines.measuring import candidates
from baselines.measuring import kernels
from baselines.measuring import tiling

# Kernels whose arrays are all smaller take about as long as to call them.
LEAST_ELEMENTS = 8192


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Configurations, ready to be measured.

    Attributes:
        modules: serialised HloModuleProtos; the default first.
        inputs: see `candidates.inputs_of`.
        described: each configuration in plain numbers.
        runs: each as a ConfigProfile without a time.
    """

    modules: List[bytes]
    inputs: List[dict]
    described: List[Dict[str, Any]]
    runs: List[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class TileItem:
    """A kernel to measure.

    Attributes:
        kernel: it.
        program: what it is cut from.
    """

    kernel: kernels.Kernel
    program: str

    @property
    def name(self) -> str:
        """Its graph id."""
        return self.kernel.name

    @property
    def origin(self) -> str:
        """The instruction in the optimised module."""
        return self.kernel.origin

    def batch(self, rng: np.random.Generator, count: int) -> Batch:
        """Draws configurations; the untiled kernel is the first."""
        plan = tiling.Plan(self.kernel.module)
        return batch_of(plan, candidates.draw(plan, rng, count))

    def tuning(self, runs: Sequence[Any], times: Any = ()) -> Any:
        """Returns it with configurations as the raw files hold them.

        Args:
            runs: configurations, the default first.
            times: nanoseconds of each; empty for candidates.
        """
        tuning = protos.protos().ModuleTuningData()
        tuning.module.CopyFrom(self.kernel.module)
        tuning.fingerprint = int(self.name.rpartition('_')[2], 16)
        add_runs(tuning, runs, times)
        return tuning

    def write(self, path: str, batch: Batch, kept: List[int], times: Any) -> None:
        """Writes the npz file by the extractor's path."""
        tuning = self.tuning([batch.runs[i] for i in kept], times)
        nodes = graph.extract_graph(tuning.module)
        configs = hlo_tile.extract_configs(tuning)
        records.write_tile(
            path, raw_lib.tile_record(self.kernel.name, nodes, configs, False)
        )


def batch_of(plan: tiling.Plan, drawn: Sequence[tiling.Tiles]) -> Batch:
    """Returns configurations of a kernel, the first of them the untiled one."""
    tiled = [tiling.tile(plan, tiles) for tiles in drawn]
    return Batch(
        [t.module.SerializeToString() for t in tiled],
        candidates.inputs_of(plan.module),
        [
            {'output': tiles.output, 'kernel': tiles.kernel, 'input': t.input}
            for tiles, t in zip(drawn, tiled)
        ],
        [run_of(tiles, t.input) for tiles, t in zip(drawn, tiled)],
    )


def run_of(tiles: tiling.Tiles, input_tile: Sequence[int]) -> Any:
    """Returns a configuration as a ConfigProfile without a time."""
    run = protos.protos().ConfigProfile()
    sizes = run.op_config.tile_size_config
    sizes.kernel_bounds.extend(tiles.kernel)
    sizes.output_bounds.extend(tiles.output)
    sizes.input_bounds.extend(input_tile)
    return run


def add_runs(tuning: Any, runs: Sequence[Any], times: Any) -> None:
    """Adds configurations, the default first, and their times if there are."""
    tuning.runs.extend(runs)
    tuning.runs[0].is_default = True
    for run, time in zip(tuning.runs, times):
        # Below 2 ns a run does not count as measured.
        run.profile.compute_time_ns = max(2, int(time))


def items_of(
    module: Any, program: str, seen: set, skipped: Dict[str, int]
) -> List[TileItem]:
    """Returns the kernels of an optimised module that can be tiled.

    Args:
        module: the HloModuleProto.
        program: its name.
        seen: hashes of kernels that are there already; those here are added.
        skipped: counts what is left out, by reason.
    """
    found, reasons = kernels.cut(module, program, LEAST_ELEMENTS)
    for reason, count in reasons.items():
        skipped[reason] = skipped.get(reason, 0) + count
    items = []
    for kernel in found:
        digest = kernel.name.rpartition('_')[2]
        plan = tiling.Plan(kernel.module)
        output, reduced = plan.tileable()
        reason = ''
        if digest in seen:
            reason = 'kernel of another program too'
        elif not any(output + reduced):
            reason = f'nothing to tile: {plan.root.opcode}'
        seen.add(digest)
        if reason:
            skipped[reason] = skipped.get(reason, 0) + 1
        else:
            items.append(TileItem(kernel, program))
    return items
