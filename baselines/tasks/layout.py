"""Layouts: rank the layouts of a program's configurable nodes."""

import dataclasses
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import registry
from baselines.data.layout import sampling
from baselines.data.packed import splits
from baselines.features import expansion as expansion_lib
from baselines.features import normalizer as normalizer_lib
from baselines.layout import flat
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import scoring
from baselines.layout import segments as segments_lib
from baselines.tasks import prediction
from baselines.tasks import task
from baselines.tasks import training
from baselines.training import loop


class Layouts(task.Task):
    """Programs, each with runtimes in nanoseconds."""

    config_class = config_lib.LayoutConfig
    unit = 'program'
    models = staticmethod(registry.layout_models)
    model_noun = 'layout model'
    example_graph = staticmethod(graphs_lib.example_graph)
    table = flat.FlatTable
    program_of = staticmethod(str)
    configs_at_once = 1

    @classmethod
    def make_model(
        cls,
        name: str,
        kwargs: Dict[str, Any],
        own: registry.Own,
        num_configs: int,
        num_ops: int,
        normalizer: normalizer_lib.Normalizer,
    ) -> tf.keras.Model:
        """See the base class; refuses models that need columns that were expanded."""
        if 'scaling' in (registry.options(cls.model_class(name, own)) or ()):
            if not normalizer.expansion.is_published:
                raise ValueError(
                    f'--model={name} undoes the scaling of raw columns; train it '
                    'without --features and --mod128'
                )
            kwargs = {'scaling': normalizer.to_json(), **kwargs}
        return super().make_model(name, kwargs, own, num_configs, num_ops, normalizer)

    def scaled(
        self, store: splits.PackedSplit, training: bool = False
    ) -> programs_lib.StoredPrograms:
        """The programs of a split, `StoredPrograms`."""
        return programs_lib.StoredPrograms(store, self.normalizer, training)

    @functools.cached_property
    def _scorer(self) -> scoring.LayoutScorer:
        return scoring.LayoutScorer(self.model, self.options.memory_budget << 20)

    def model_scores(
        self, graphs: Sequence[graphs_lib.Program], numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        some = range(len(graphs)) if numbers is None else numbers
        return (self._scorer.score(graphs[n]) for n in some)

    def labels(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """Runtimes of a program in nanoseconds."""
        return store.part('config_runtime', number)

    def configurations(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """Numbers of different configurations, as they were packed."""
        return store.part('config_group', number)


def _subset(program: graphs_lib.Program, configs: np.ndarray) -> graphs_lib.Program:
    """The same program with only some of its configurations, int [s]."""
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return dataclasses.replace(
        program,
        codes=program.codes[groups],
        group=group,
        runtimes=program.runtimes[configs],
    )


class Training(Layouts, training.Training):
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


class Predictor(Layouts, prediction.Predictor):
    """A run of a layout model, ready to score."""
