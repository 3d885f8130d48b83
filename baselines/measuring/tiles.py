"""Kernels and their tile configurations as things to measure, and as records."""

import collections
import dataclasses
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from baselines.data import families
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
    """Configurations, ready to be measured."""

    inputs: List[dict]  # see `candidates.inputs_of`
    # each configuration in plain numbers; the default first
    described: List[Dict[str, Any]]
    columns: np.ndarray  # float [c, d], by which one is told to be like another
    # number of a configuration -> its serialised HloModuleProto
    module: Callable[[int], bytes]


class TileItem(kernels.Kernel):
    """A kernel to measure."""

    @property
    def program(self) -> str:
        """What it is cut from."""
        return families.program_of_kernel(self.name)

    def batch(self, rng: np.random.Generator, count: int, score: Any = None) -> Batch:
        """Draws configurations; the untiled kernel is the first."""
        plan = tiling.Plan(self.module)
        drawn = candidates.draw(plan, rng, count)
        tiled = [tiling.tile(plan, tiles) for tiles in drawn]
        described = [
            {'output': tiles.output, 'kernel': tiles.kernel, 'input': t.input}
            for tiles, t in zip(drawn, tiled)
        ]
        return Batch(
            candidates.inputs_of(self.module),
            described,
            columns(drawn),
            lambda i: tiled[i].module.SerializeToString(),
        )

    def tuning(self, described: Sequence[Dict[str, Any]], times: Any = ()) -> Any:
        """Returns it with configurations as the raw files hold them.

        Args:
            described: configurations, the default first.
            times: nanoseconds of each; empty for candidates.
        """
        tuning = protos.protos().ModuleTuningData(
            module=self.module, fingerprint=int(self.name.rpartition('_')[2], 16)
        )
        for each in described:
            sizes = tuning.runs.add().op_config.tile_size_config
            sizes.kernel_bounds.extend(each['kernel'])
            sizes.output_bounds.extend(each['output'])
            sizes.input_bounds.extend(each['input'])
        return timed(tuning, times)

    def write(self, path: str, described: Sequence[Dict[str, Any]], times: Any) -> None:
        """Writes the npz file by the extractor's path."""
        tuning = self.tuning(described, times)
        nodes = graph.extract_graph(tuning.module)
        configs = hlo_tile.extract_configs(tuning)
        records.write_tile(path, raw_lib.record_of(self.name, nodes, configs, False))


def columns(drawn: Sequence[tiling.Tiles]) -> np.ndarray:
    """Returns how often each size is halved, and the logs of the tiles' volumes."""
    output = np.log2([tiles.output for tiles in drawn]).reshape(len(drawn), -1)
    kernel = np.log2([tiles.kernel for tiles in drawn]).reshape(len(drawn), -1)
    sizes = np.concatenate([output, kernel], axis=1)
    volumes = [output.sum(1, keepdims=True), kernel.sum(1, keepdims=True)]
    return np.concatenate([sizes[0] - sizes, *volumes], axis=1)


def timed(tuning: Any, times: Any) -> Any:
    """Returns a ModuleTuningData with its default marked, and times if there are."""
    tuning.runs[0].is_default = True
    for run, time in zip(tuning.runs, times):
        # Below 2 ns a run does not count as measured.
        run.profile.compute_time_ns = max(2, int(time))
    return tuning


def items_of(
    module: Any, program: str, seen: set, skipped: collections.Counter[str]
) -> List[TileItem]:
    """Returns the kernels of an optimised module that can be tiled.

    Args:
        module: the HloModuleProto.
        program: its name.
        seen: hashes of kernels that are there already; those here are added.
        skipped: counts what is left out, by reason.
    """
    found, reasons = kernels.cut(module, program, LEAST_ELEMENTS)
    skipped.update(reasons)
    items = []
    for kernel in found:
        digest = kernel.name.rpartition('_')[2]
        plan = tiling.Plan(kernel.module)
        output, reduced = plan.tileable()
        if digest in seen:
            skipped['kernel of another program too'] += 1
        elif not any(output + reduced):
            skipped[f'nothing to tile: {plan.root.opcode}'] += 1
        else:
            items.append(TileItem(kernel.name, kernel.module, kernel.origin))
        seen.add(digest)
    return items
