"""The training of layout models: programs drawn, packed and validated on."""

import dataclasses
import functools
from typing import Any, Callable, Dict, Iterator, List

import numpy as np

from baselines.data.layout import sampling
from baselines.data.packed import splits
from baselines.features import expansion as expansion_lib
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import segments as segments_lib
from baselines.runs import layout_task
from baselines.training import job
from baselines.training import loop


def _subset(program: graphs_lib.Program, configs: np.ndarray) -> graphs_lib.Program:
    """The same program with only some of its configurations, int [s]."""
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return dataclasses.replace(
        program,
        codes=program.codes[groups],
        group=group,
        runtimes=program.runtimes[configs],
    )


class Training(layout_task.Layouts, job.Training):
    """The training of a layout model."""

    temperature = 1.0  # as published
    label_scale = graphs_lib.RUNTIME_SCALE
    chosen_by_tau = True
    unpack = staticmethod(graphs_lib.unpack)

    def feature_options(self) -> Dict[str, Any]:
        config = self.config
        of_layouts = expansion_lib.Expansion.of_layouts
        return {'expansion': of_layouts(config.features, config.mod128)}

    def drawable(self, store: splits.PackedSplit) -> np.ndarray:
        """Equal configurations count once."""
        config = self.config
        self._sampler = sampling.ConfigSampler(
            store,
            config.sampling,
            max_configs=config.max_configs if config.max_configs > 0 else None,
            seed=config.seed,
        )
        return self._sampler.counts

    def relative_noise(self) -> float:
        """Of configurations that were measured more than once."""
        return self.stores['train'].relative_noise(self.chosen)

    def inputs(self, graphs: programs_lib.StoredPrograms) -> graphs_lib.LayoutGraphs:
        return graphs_lib.LayoutGraphs(graphs)

    def steps_of(self, count: int, batch: int) -> int:
        """The last batch is filled up with other programs."""
        return -(-count // batch)

    @functools.cached_property
    def _cuts(self) -> Dict[int, np.ndarray]:
        """The segments of each program of the split: int [segments, 2]."""
        config, store = self.config, self.stores['train']
        if config.segments == 'splits':
            ends = [store.part('node_splits', n) for n in self.chosen]
        else:
            ends = [(0, n) for n in np.diff(store.node_offsets)[self.chosen]]
        cuts = [segments_lib.split_segments(s, config.keep_nodes) for s in ends]
        return dict(zip(self.chosen, cuts))

    def chunks(
        self, rng: np.random.Generator, batches: np.ndarray
    ) -> Iterator[loop.Chunk]:
        """Draws `configs` configurations and a segment of each program."""
        for numbers in batches:
            drawn = self._sampler.draw(rng, numbers, self.config.configs)
            kept = segments_lib.draw_segments(rng, [self._cuts[n] for n in numbers])
            step = (x[np.newaxis] for x in (numbers, drawn.configs, kept))
            yield loop.Chunk(self.packer.items(*self.devices.share(*step)), 1)

    def chosen_scores(
        self, chosen: List[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        programs = [_subset(self.graphs['valid'][n], c) for n, c in enumerate(chosen)]
        return lambda: self.model_scores(programs)

    def words(self, count: int, configs: int) -> str:
        where = ':'.join(self.collection.flags.values())
        return (
            f'{count:,} programs of {where} with {configs:,} different configurations'
        )

    def error_words(self, errors: Dict[str, float]) -> str:
        tau, *slowdowns = (f'{error:.4f}' for error in errors.values())
        return f'tau: {tau}; slowdown@1/10/100: {" / ".join(slowdowns)}'
