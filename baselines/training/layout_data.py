"""The data of a layout model's training."""

import functools
from typing import Any, Dict, Iterator, Mapping, Tuple

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines.data.layout import sampling
from baselines.data.layout import store as layout_store
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.runs import tasks
from baselines.training import task_data


class LayoutData(
    task_data.TaskData[layout_store.LayoutStore, programs_lib.StoredPrograms]
):
    """Programs, `configs` configurations and a segment of each in a step."""

    settings: config_lib.LayoutConfig
    sampler: sampling.ConfigSampler
    temperature = 1.0  # as published
    label_scale = graphs_lib.RUNTIME_SCALE

    @staticmethod
    def make_sampler(
        settings: config_lib.LayoutConfig, train: layout_store.LayoutStore
    ) -> sampling.ConfigSampler:
        """Returns what draws configurations; equal ones count once."""
        most = settings.max_configs
        return sampling.ConfigSampler(
            train,
            settings.sampling,
            max_configs=most if most > 0 else None,
            seed=settings.seed,
        )

    @staticmethod
    def feature_options(
        settings: config_lib.LayoutConfig, train: layout_store.LayoutStore
    ) -> Dict[str, Any]:
        """Returns nothing: layouts have no columns to choose."""
        return {}

    @property
    def steps_per_epoch(self) -> int:
        """The last batch is filled up with other programs."""
        return -(-len(self.chosen) // self.batch)

    @functools.cached_property
    def _packer(self) -> graphs_lib.LayoutGraphs:
        return graphs_lib.LayoutGraphs(self.graphs['train'])

    def draws(self, epoch: int) -> Iterator[Tuple[np.ndarray, ...]]:
        """Draws `configs` configurations and a segment of each program."""
        rng = self.epoch_rng(epoch)
        sizes = np.diff(self.stores['train'].node_offsets)
        for programs in self.order(rng):
            drawn = self.sampler.draw(rng, programs, self.settings.configs)
            keep = self.settings.keep_nodes
            kept = graphs_lib.draw_segments(rng, sizes[programs], keep)
            yield tuple(x[np.newaxis] for x in (programs, drawn.configs, kept))

    def pack(self, *drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """Packs programs, configurations and segments, see `LayoutGraphs.items`."""
        return self._packer.items(*drawn)

    def signature(self, batch: int) -> Dict[str, tf.TensorSpec]:
        """See `LayoutGraphs.signature`."""
        return self._packer.signature(batch)

    def unpack(
        self, packed: Mapping[str, tf.Tensor], step: Any, batch: int
    ) -> Tuple[Any, tf.Tensor]:
        """See `layout.graphs.unpack`."""
        return graphs_lib.unpack(packed, step, batch, self.settings.configs)

    def model_scorer(self, model: tf.keras.Model) -> tasks.ModelScorer:
        """Returns what scores programs with a model, in --memory_budget."""
        return self.task.model_scorer(model, self.settings.memory_budget)

    def describe(self) -> str:
        """Says what is trained on, for people."""
        collection = ':'.join(self.settings.collection.flags.values())
        configs = self.sampler.counts[self.chosen].sum()
        return (
            f'{len(self.chosen):,} programs of {collection} with {configs:,} different '
            'configurations'
        )


DATA = LayoutData
