"""The task of ranking the tile sizes of a kernel."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.tasks import protocol

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    from baselines.features import tree_table


class Tile(protocol.Task[tile_store.TileStore]):
    """Tile sizes of kernels; see `protocol.Task`."""

    name = reading.TILE
    store_class = tile_store.TileStore
    configs_at_once = 1 << 16
    judged_by = 'opa'
    has_default = True
    temperature = 10.0  # as published
    prior = ''

    def make_example_graph(
        self, normalizer: normalizer_lib.Normalizer
    ) -> 'tfgnn.GraphTensor':
        from baselines.tiles import graphs

        return graphs.make_example_graph(normalizer)

    def make_example_record(
        self, rng: np.random.Generator, configs: int
    ) -> records.TileRecord:
        return records.TileRecord(
            config_feat=rng.integers(0, 9, (configs, len(schema.TILE))).astype('f4'),
            config_runtime_normalizers=np.full(configs, 100),
            **self.make_example_fields(rng, configs),
        )

    def graphs(
        self,
        store: tile_store.TileStore,
        normalizer: normalizer_lib.Normalizer,
        training: bool,
        begin_with_estimate: bool,
        table: tile_table.TileTable | None = None,
    ) -> protocol.Graphs:
        from baselines.tiles import graphs

        return graphs.TileGraphs(store, normalizer, table)

    def table(
        self,
        store: tile_store.TileStore,
        names: Sequence[str] | None,
        graphs: protocol.Graphs,
    ) -> 'tree_table.TreeTable':
        from baselines.features import tree_table

        shared = None if graphs is None else graphs.table
        return tree_table.TreeTable(store, names, shared)

    def scorer(
        self, model: 'tf.keras.Model', memory_budget: int, once: bool
    ) -> protocol.Scorer:
        """Returns what scores kernels; it takes little memory in any case."""
        from baselines.tiles import scoring

        return scoring.TileScorer(model, once)

    def estimates(
        self, store: tile_store.TileStore, numbers: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Yields logarithms of the times that column set `estimate` gives tiles."""
        table = tile_table.TileTable(store, ['estimate'])
        time = table.names.index('log_time')
        for number in range(len(store)) if numbers is None else numbers:
            first, end = store.config_offsets[number : number + 2]
            yield table.rows(np.arange(first, end))[:, time]


TASK = Tile()
