"""The data of a tile model's training."""

from typing import Any, Dict, Iterator, Mapping, Tuple

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines.data.tile import sampling
from baselines.data.tile import store as tile_store
from baselines.features import loop_columns
from baselines.tiles import graphs as graphs_lib
from baselines.training import losses
from baselines.training import task_data

# Steps between two looks at the progress bar.
_STEPS_PER_CHUNK = 50


class KernelSampler:
    """Draws configurations of kernels, all alike.

    Attributes:
        counts: int64 [kernels], configurations of each.

    Args:
        counts: likewise.
    """

    def __init__(self, counts: np.ndarray):
        self.counts = counts

    def draw(self, rng: np.random.Generator, graphs: np.ndarray, k: int) -> np.ndarray:
        """Draws k different configurations of each kernel: int64 [kernels, k]."""
        return sampling.draw_configs(rng, self.counts[graphs], k)


class TileData(task_data.TaskData[tile_store.TileStore, graphs_lib.TileGraphs]):
    """Kernels, `configs` configurations of each in a step."""

    settings: config_lib.TileConfig
    sampler: KernelSampler
    temperature = losses.TILE_TEMPERATURE

    @staticmethod
    def make_sampler(
        settings: config_lib.TileConfig, train: tile_store.TileStore
    ) -> KernelSampler:
        """Returns what draws configurations of all kernels alike."""
        return KernelSampler(train.config_counts)

    @staticmethod
    def feature_options(
        settings: config_lib.TileConfig, train: tile_store.TileStore
    ) -> Dict[str, Any]:
        """Returns the columns that settings add; a recipe those of loops that fit."""
        return {
            'estimate': settings.estimate,
            'tile_columns': settings.tile_columns,
            'loop_columns': settings.loop_columns
            or bool(settings.recipe and settings.tile_columns)
            and loop_columns.fits(train),
        }

    @property
    def patience_steps(self) -> int:
        """Fewest steps without a better score: an epoch of few kernels is short."""
        return self.settings.early_stop_steps

    @property
    def steps_per_epoch(self) -> int:
        """What does not fill a batch is left out, as published.

        The order differs from epoch to epoch, so everything has its turn.
        """
        return len(self.chosen) // self.batch

    def draws(self, epoch: int) -> Iterator[Tuple[np.ndarray, ...]]:
        """Draws `configs` configurations of each kernel."""
        rng = self.epoch_rng(epoch)
        order = self.order(rng)
        for start in range(0, len(order), _STEPS_PER_CHUNK):
            kernels = order[start : start + _STEPS_PER_CHUNK]
            configs = self.sampler.draw(rng, kernels.reshape(-1), self.settings.configs)
            yield kernels, configs.reshape(*kernels.shape, -1)

    def pack(self, *drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """Packs kernels and configurations, see `TileGraphs.training_items`."""
        return self.graphs['train'].training_items(*drawn)

    def signature(self, batch: int) -> Dict[str, tf.TensorSpec]:
        """See `TileGraphs.signature`."""
        return self.graphs['train'].signature(batch)

    def unpack(
        self, packed: Mapping[str, tf.Tensor], step: Any, batch: int
    ) -> Tuple[Any, tf.Tensor]:
        """See `tiles.graphs.unpack`."""
        return graphs_lib.unpack(packed, step, batch, self.settings.configs)

    def describe(self) -> str:
        """Says what is trained on, for people."""
        configs = self.sampler.counts[self.chosen].sum()
        return f'{len(self.chosen):,} kernels with {configs:,} configurations'


DATA = TileData
