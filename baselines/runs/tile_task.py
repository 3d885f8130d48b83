"""Tiles: rank the tile sizes of a kernel."""

from typing import Iterator, Optional, Sequence

import numpy as np

from baselines import config as config_lib
from baselines import registry
from baselines.data import families
from baselines.data.packed import splits
from baselines.features import tile_table
from baselines.runs import prediction
from baselines.runs import tasks
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring

# Slices that are scored before compiling would have been.
_FEW_ITEMS = 16


class Tiles(tasks.Task):
    """Kernels, each with runtimes divided by that of its default tile."""

    config_class = config_lib.TileConfig
    unit = 'kernel'
    models = staticmethod(registry.tile_models)
    model_noun = 'model'
    removed_models = registry.REMOVED_TILE_MODELS
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


class Predictor(Tiles, prediction.Predictor):
    """A run of a tile model, ready to score."""
