"""The table of a tile configuration: columns in addition to the raw ones.

    table = TileTable(store, ['tile', 'estimate'])
    table.names                # the names of the columns, set by set
    table.rows(rows)           # float32 [rows, len(names)]

Graph models get the rows scaled behind a configuration's own columns; trees get them
unscaled (`tree_table`).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from baselines.core import arrays
from baselines.core import text
from baselines.data.tile import store as tile_store
from baselines.features import column_sets
from baselines.features import kernel_nodes
from baselines.hlo import schema

# Configurations of each kernel that `measure_range` looks at.
_DRAWN = 64
# Rows that are computed at a time: intermediate results stay in the cache.
_CHUNK = 1 << 11
# Bytes of the largest table that is kept; rows take memory once they are written.
_KEPT = 1 << 29


class TileTable:
    """Columns of a split's configurations, computed as they are asked for.

    Attributes:
        sets: the names of the column sets, in the order of `column_sets.find`.
        names: the names of the columns.

    Args:
        sets: names of column sets.

    Raises:
        ValueError: there is no such set, or the raw columns are not the published ones.
    """

    def __init__(self, store: tile_store.TileStore, sets: Sequence[str]):
        self._store = store
        chosen = column_sets.find(sets) if sets else {}
        self.sets = tuple(chosen)
        self.names = tuple(
            name for columns in chosen.values() for name in columns.names
        )
        self._computed: list[column_sets.ColumnSet] = []
        if chosen:
            _require(f'{store.source}: node_feat', store.node_feat, schema.NODE, chosen)
            _require('config_feat', store.config_feat, schema.TILE, chosen)
            nodes = kernel_nodes.KernelNodes(store)
            self._computed = [columns(nodes) for columns in chosen.values()]
        # Every epoch reads the rows of a split again, and trees read a graph model's:
        # [C, names], and bool [C], whether a row is computed.
        self._kept = self._is_kept = np.empty(0)
        count = len(store.config_feat)
        if count * len(self.names) * 4 <= _KEPT:
            self._kept = np.empty((count, len(self.names)), np.float32)
            self._is_kept = np.zeros(count, bool)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """Computes rows: float32 [r, len(names)].

        Args:
            rows: int64 [r], rows of `config_feat`.
        """
        if not len(self._is_kept):
            return self._compute_rows(rows)
        missing = rows[~self._is_kept[rows]]
        self._kept[missing] = self._compute_rows(missing)
        self._is_kept[missing] = True
        return self._kept[rows]

    def _compute_rows(self, rows: np.ndarray) -> np.ndarray:
        """Computes rows that are not kept; see `rows`."""
        # int64 [r]: the kernel between whose offsets each row is.
        kernels = np.searchsorted(self._store.config_offsets, rows, 'right') - 1
        table = np.empty((len(rows), len(self.names)), np.float32)
        for first in range(0, len(rows) if self.sets else 0, _CHUNK):
            chunk = slice(first, first + _CHUNK)
            configs = self._store.config_feat[rows[chunk]].astype(np.float64)
            columns = [part(kernels[chunk], configs) for part in self._computed]
            np.concatenate(columns, axis=1, out=table[chunk], casting='same_kind')
        return table

    def measure_range(
        self, graphs: Sequence[int] | np.ndarray | None = None
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Measures the columns on up to 64 configurations of each kernel.

        They are evenly spaced from the first to the last one: the same every
        time, and the real training split's 11 million are not read.

        Args:
            graphs: int [kernels], the kernels to measure on; None means all.

        Returns:
            The smallest and the largest values by column set, float32 each.
        """
        store = self._store
        everything = np.arange(len(store))
        kernels = everything if graphs is None else np.asarray(graphs)
        counts = store.config_counts[kernels]
        # Ragged: the rows of all kernels, end to end.
        taken = np.minimum(counts, _DRAWN)
        place = arrays.concatenate_ranges(np.zeros_like(taken), taken)
        # place * step goes from 0 to the last configuration.
        step = np.repeat((counts - 1) / np.maximum(taken - 1, 1), taken)
        rows = np.repeat(store.config_offsets[kernels], taken)
        columns = self.rows(rows + (place * step).astype(np.int64))
        ends = np.cumsum([len(part.names) for part in self._computed])[:-1]
        return {
            name: (part.min(axis=0), part.max(axis=0))
            for name, part in zip(self.sets, np.split(columns, ends, axis=1))
        }


def _require(
    name: str, array: np.ndarray, columns: schema.Columns, sets: Iterable[str]
) -> None:
    """Raises ValueError unless an array has the published columns."""
    if array.shape[-1] < len(columns):
        raise ValueError(
            f'{name} has {text.count(array.shape[-1], "column")}, but '
            f'--columns={",".join(sets)} reads the {len(columns)} published ones'
        )
