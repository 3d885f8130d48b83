"""The columns of a tile configuration that trees see (`--model=Trees`, `--trees`).

Where the tiles are those of a CPU and column sets for a CPU are installed, these are
the columns of those sets and nothing else: the columns below added nothing on measured
kernels (docs/findings/experiments.md#trees-of-tiles).  Otherwise they are:

    config_<c>    the configuration's own 24 columns, unchanged
    <name>        the columns of the sets for a TPU; of a CPU's tiles the set `tile`
    mean_<c>      mean over the kernel's nodes of sign(x) log(1 + |x|) of column c
    max_<c>       its maximum
    count_<o>     how many nodes have opcode o; nodes: how many there are
"""

from collections.abc import Sequence

import numpy as np

from baselines.core import extensions
from baselines.core import registry
from baselines.data.tile import store as tile_store
from baselines.features import column_sets
from baselines.features import kernel_nodes
from baselines.features import tile_table
from baselines.hlo import schema

_OPCODES = 128


class TreeTable:
    """The columns of a split's configurations that trees see.

    Attributes:
        names: the names of the columns.

    Args:
        names: the columns to compute; None means all that fit the machine.
        shared: a table of the same split, whose rows are used again.

    Raises:
        ValueError: there is no such column.
    """

    def __init__(
        self,
        store: tile_store.TileStore,
        names: Sequence[str] | None = None,
        shared: tile_table.TileTable | None = None,
    ):
        self._store = store
        width = store.config_feat.shape[1]
        own = [f'config_{name}' for name in _name_columns(schema.TILE, width)]
        kernel_names = _name_kernel_columns(store)
        if names is None:
            # Sets for a TPU read bounds as registers; those for a CPU may be missing.
            fitting = registry.find_column_sets(column_sets.detect_machine(store))
            sets = column_sets.find(fitting or ['tile'])
            names = [name for columns in sets.values() for name in columns.names]
            if 'tile' in sets:
                names = [*own, *names, *kernel_names]
        else:
            found = column_sets.find().items()
            sets = {name: s for name, s in found if not {*names}.isdisjoint(s.names)}
        if shared is None or not {*sets} <= {*shared.sets}:
            shared = tile_table.TileTable(store, list(sets))
        self._table = shared
        blocks = [own, shared.names, kernel_names]
        place = {
            n: (i, c) for i, block in enumerate(blocks) for c, n in enumerate(block)
        }
        self.names: list[str] = list(names)
        for name in self.names:
            if name not in place:
                raise ValueError(
                    f'{store.source}: there is no column {name[:40]!r}, which the '
                    f'trees look at; grow them again{extensions.explain_columns()}'
                )
        # Names may come in any order: `_places` has the places of each block's columns.
        block, column = np.array([place[name] for name in self.names]).reshape(-1, 2).T
        self._places = [np.flatnonzero(block == i) for i in range(len(blocks))]
        self._columns = [column[inside] for inside in self._places]
        of_kernels = self._columns.pop()
        # Means over all nodes take time, and most trees of measured kernels read none.
        self._kernels = np.empty((0, len(store)), np.float32)
        if len(of_kernels):
            self._kernels = _compute_kernel_columns(store).T[of_kernels]

    @property
    def counts(self) -> np.ndarray:
        """int64 [kernels], configurations of each."""
        return self._store.config_counts

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows: float32 [r, len(names)], column by column in memory.

        Args:
            graphs: int64 [r], kernels.
            configs: int64 [r], the configuration of the kernel in the same place.
        """
        rows = self._store.config_offsets[graphs] + configs
        parts = self._store.config_feat[rows], self._table.rows(rows)
        table = np.empty((len(self.names), len(rows)), np.float32)
        for place, columns, part in zip(self._places, self._columns, parts):
            table[place] = part.T[columns]
        table[self._places[-1]] = self._kernels[:, graphs]
        return table.T


def _name_kernel_columns(store: tile_store.TileStore) -> list[str]:
    """Returns the names of the columns of kernels."""
    of_nodes = _name_columns(schema.NODE, _count_node_columns(store))
    names = [f'{how}_{name}' for how in ('mean', 'max') for name in of_nodes]
    return [*names, *(f'count_{number}' for number in range(_OPCODES)), 'nodes']


def _compute_kernel_columns(store: tile_store.TileStore) -> np.ndarray:
    """Computes the columns of kernels: float32 [kernels, columns]."""
    nodes = kernel_nodes.KernelNodes(store)
    raw = nodes.raw[:, : _count_node_columns(store)]
    logs = np.sign(raw) * np.log1p(np.abs(raw))
    first, counts = store.node_offsets[:-1], np.diff(store.node_offsets)
    opcodes = np.zeros((len(counts), _OPCODES))
    # The last column counts all opcodes from it on.
    np.add.at(opcodes, (nodes.kernel, np.minimum(nodes.opcodes, _OPCODES - 1)), 1)
    # No piece of reduceat is empty: every kernel has a node.
    columns = [
        np.add.reduceat(logs, first, axis=0) / counts[:, np.newaxis],
        np.maximum.reduceat(logs, first, axis=0),
        opcodes,
        counts[:, np.newaxis],
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _count_node_columns(store: tile_store.TileStore) -> int:
    """Returns the number of node columns whose means and maxima trees may read.

    Those of `schema.EXTRA` rank programs of other sizes worse.
    """
    width = store.node_feat.shape[1]
    return len(schema.NODE) if width == len(schema.NODE_AND_EXTRA) else width


def _name_columns(columns: schema.Columns, width: int) -> list[str]:
    """Names raw columns, by number where there are more than published."""
    return [*columns.names, *map(str, range(len(columns), width))][:width]
