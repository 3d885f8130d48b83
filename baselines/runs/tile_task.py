"""Tiles: rank the tile sizes of a kernel."""

from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np

from baselines import config as config_lib
from baselines import registry
from baselines.data import families
from baselines.data.tile import store as tile_store
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.runs import tasks


class TileTask(tasks.Task[tile_store.TileStore]):
    """Kernels, each with runtimes divided by that of its default tile."""

    config_class = config_lib.TileConfig
    unit = 'kernel'
    model_noun = 'model'
    removed_models = registry.REMOVED_TILE_MODELS
    configs_at_once = 1 << 16

    def models(self, own: registry.Own) -> Dict[str, type]:
        """Returns the models of tiles/models.py, and a user's."""
        return registry.tile_models(own)

    def example_graph(self, normalizer: normalizer_lib.Normalizer) -> Any:
        """Returns a kernel of two nodes."""
        from baselines.tiles import graphs as graphs_lib

        return graphs_lib.example_graph(normalizer)

    def program_of(self, graph_id: str) -> str:
        """Returns the name of the program that a kernel is of."""
        return families.program_of_kernel(graph_id)

    def graphs(
        self,
        store: tile_store.TileStore,
        normalizer: normalizer_lib.Normalizer,
        training: bool = False,
    ) -> Any:
        """Returns the `tiles.graphs.TileGraphs` of a split, with scaled features."""
        from baselines.tiles import graphs as graphs_lib

        return graphs_lib.TileGraphs(store, normalizer)

    def table(
        self,
        store: tile_store.TileStore,
        names: Optional[Sequence[str]] = None,
        graphs: Optional[Any] = None,
    ) -> tile_table.FlatTable:
        """Returns the columns that trees see; shares those of the graph model."""
        shared = None if graphs is None else graphs.table
        return tile_table.FlatTable(store, names, shared)

    def model_scorer(
        self, model: Any, memory_budget: int = 0, once: bool = False
    ) -> tasks.ModelScorer:
        """Returns what scores kernels with a model, in memory that is small."""
        from baselines.tiles import scoring

        return scoring.TileScorer(model, once)

    def estimates(self, store: tile_store.TileStore) -> Iterator[np.ndarray]:
        """Yields logarithms of the times that `features.estimate` gives tiles."""
        table = tile_table.TileTable(store, ['estimate'])
        time = table.names.index('log_time')
        for first, end in zip(store.config_offsets, store.config_offsets[1:]):
            yield table.rows(np.arange(first, end))[:, time]

    def labels(self, store: tile_store.TileStore, number: int) -> np.ndarray:
        """Returns runtimes divided by their normalisers, float64."""
        runtimes = store.part('config_runtime', number)
        return runtimes / store.part('config_runtime_normalizers', number)


TASK = TileTask()
