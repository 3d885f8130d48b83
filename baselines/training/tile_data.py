"""The training of tile models: kernels drawn, packed and validated on."""

from typing import Any, Callable, Dict, Iterator, List

import numpy as np

from baselines.data.tile import sampling
from baselines.features import expansion as expansion_lib
from baselines.features import loop_columns
from baselines.runs import tile_task
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring
from baselines.training import job
from baselines.training import loop
from baselines.training import losses

# Steps between two looks at the progress bar.
_STEPS_PER_CHUNK = 50


class Training(tile_task.Tiles, job.Training):
    """The training of a tile model."""

    temperature = losses.TILE_TEMPERATURE
    unpack = staticmethod(graphs_lib.unpack)

    def feature_options(self) -> Dict[str, Any]:
        config = self.config
        return {
            'estimate': config.estimate,
            'expansion': expansion_lib.Expansion.of_tiles(
                config.features, config.mod128
            ),
            'tile_columns': config.tile_columns,
            'loop_columns': config.loop_columns
            or bool(config.recipe and config.tile_columns)
            and loop_columns.fits(self.stores['train']),
        }

    def steps_of(self, count: int, batch: int) -> int:
        """What does not fill a batch is left out, as published.

        The order differs from epoch to epoch, so everything has its turn.
        """
        return count // batch

    def chunks(
        self, rng: np.random.Generator, batches: np.ndarray
    ) -> Iterator[loop.Chunk]:
        """Draws `configs` configurations of each kernel."""
        counts = self.stores['train'].config_counts
        for start in range(0, len(batches), _STEPS_PER_CHUNK):
            some = batches[start : start + _STEPS_PER_CHUNK]
            drawn = sampling.draw_configs(
                rng, counts[some.reshape(-1)], self.config.configs
            )
            shares = self.devices.share(some, drawn.reshape(*some.shape, -1))
            packed = self.packer.training_items(*shares)
            yield loop.Chunk(packed, len(some))

    def chosen_scores(
        self, chosen: List[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        scorer = scoring.TileScorer(self.model, self.graphs['valid'])
        self._scorer = scorer
        kernels = np.arange(len(chosen))
        return lambda: scorer.score_chosen(kernels, chosen)

    def words(self, count: int, configs: int) -> str:
        return f'{count:,} kernels with {configs:,} configurations'

    def error_words(self, errors: Dict[str, float]) -> str:
        found = ' / '.join(f'{error:.4f}' for error in errors.values())
        return f'top-{"/".join(errors)} error: {found}'
