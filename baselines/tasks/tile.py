"""Tiles: rank the tile sizes of a kernel."""

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from baselines import config as config_lib
from baselines import registry
from baselines.data import families
from baselines.data.packed import splits
from baselines.data.tile import sampling
from baselines.features import expansion as expansion_lib
from baselines.features import loop_columns
from baselines.features import tile_table
from baselines.tasks import prediction
from baselines.tasks import task
from baselines.tasks import training
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring
from baselines.training import loop
from baselines.training import losses

# Slices that are scored before compiling would have been.
_FEW_ITEMS = 16

# Steps between two looks at the progress bar.
_STEPS_PER_CHUNK = 50


class Tiles(task.Task):
    """Kernels, each with runtimes divided by that of its default tile."""

    config_class = config_lib.TileConfig
    unit = 'kernel'
    models = staticmethod(registry.tile_models)
    model_noun = 'model'
    example_graph = staticmethod(graphs_lib.example_graph)
    table = tile_table.FlatTable
    program_of = staticmethod(families.program_of_kernel)
    configs_at_once = 1 << 16

    def scaled(
        self, store: splits.PackedSplit, training: bool = False
    ) -> graphs_lib.TileGraphs:
        """The kernels of a split, `TileGraphs`."""
        return graphs_lib.TileGraphs(store, self.normalizer)

    def table_of(
        self, graphs: graphs_lib.TileGraphs, wanted: Sequence[str]
    ) -> tile_table.FlatTable:
        """Shares what is computed of configurations with the graph model."""
        return tile_table.FlatTable(graphs.store, wanted, graphs.table)

    _scorer: Optional[scoring.TileScorer] = None

    def model_scores(
        self, graphs: graphs_lib.TileGraphs, numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        if self._scorer is None:  # compiled once for all splits
            cells = np.diff(graphs.store.node_offsets) @ graphs.store.config_counts
            little = cells <= _FEW_ITEMS * graphs_lib.CELLS_PER_ITEM
            once = self.scores_once and little and len(graphs.store) <= _FEW_ITEMS
            self._scorer = scoring.TileScorer(self.model, graphs, not once)
        return self._scorer.of(graphs).score_all(numbers)

    def labels(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """Runtimes of a kernel divided by their normalisers, float64."""
        runtimes = store.part('config_runtime', number)
        return runtimes / store.part('config_runtime_normalizers', number)


class Training(Tiles, training.Training):
    """The training of a tile model."""

    temperature = losses.TILE_TEMPERATURE
    unpack = staticmethod(graphs_lib.unpack)

    def check_model(self, model_class: type) -> None:
        config = self.config
        if getattr(model_class, 'wants_estimate', False) and not config.estimate:
            raise ValueError(
                f'--model={config.model} corrects an analytical estimate, which is '
                'not among the features: add --estimate'
            )

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


class Predictor(Tiles, prediction.Predictor):
    """A run of a tile model, ready to score."""
