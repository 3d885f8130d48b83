"""The table of a tile configuration: columns in addition to the raw ones.

    table = TileTable(store, ('tile_columns', 'estimate'))
    table.names                # of the columns, part by part
    table.rows(rows)           # float32 [rows, len(names)]

There are these parts, each switched on by the flag of its name, but for those of access
and cost, which `--loop_columns` switches on:

    tile_columns    the tile against its arrays (`features.tile_columns`)
    loop_columns    the same in elements, for loops of a CPU (`features.loop_columns`)
    exact_access_columns  how these loops go through operands
                    (`features.access_columns`)
    exact_cost_columns  an additive model of their time (`features.cost_columns`)
    release_columns  which runtime of XLA measured it (`features.release_columns`)
    estimate        an analytical estimate of the time (`features.estimate`)

Graph models get the rows scaled behind a configuration's own columns.  Trees
(`--model=Trees`) get them as they are, in a `TreeTable`.  Where bounds count elements,
these are the parts for a CPU, and nothing else: the columns below
gained nothing on measured kernels (docs/findings/experiments.md#trees-of-tiles).  Else
they are `tile_columns` and `estimate`, and:

    config_<c>    the configuration's own 24 columns, unchanged
    <name>        the table's columns
    mean_<c>      mean over the kernel's nodes of sign(x) log(1 + |x|) of column c
    max_<c>       its maximum
    count_<o>     how many nodes have opcode o; nodes: how many there are
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from baselines.core import arrays
from baselines.core import text
from baselines.data.tile import store as tile_store
from baselines.features import access_columns
from baselines.features import cost_columns
from baselines.features import estimate
from baselines.features import kernel_facts
from baselines.features import kernel_nodes
from baselines.features import loop_columns
from baselines.features import node_groups
from baselines.features import release_columns
from baselines.features import tile_columns
from baselines.hlo import schema

# What parts are computed from: the split, or facts or groups of its nodes.
_SPLIT, _FACTS, _GROUPS = 'split', 'facts', 'groups'
# Begins the names of parts and columns that read `node_feat_extra`.
_EXACT = 'exact_'


class Part(NamedTuple):
    """A part of the table.

    Attributes:
        make: a class; its objects compute [rows, len(names)] of int [rows], the
            kernels, and float64 [rows, >= 24], raw configuration features.
        source: what it is made of.
    """

    make: Any
    source: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self.make.names


# In the order of the columns: some models read the estimated time as the last one.
PARTS = {
    'tile_columns': Part(tile_columns.TileColumns, _FACTS),
    'loop_columns': Part(loop_columns.LoopColumns, _SPLIT),
    'exact_access_columns': Part(access_columns.AccessColumns, _GROUPS),
    'exact_cost_columns': Part(cost_columns.CostColumns, _GROUPS),
    'release_columns': Part(release_columns.ReleaseColumns, _SPLIT),
    'estimate': Part(estimate.Estimate, _FACTS),
}
# The parts that `--loop_columns` switches on.
LOOPS = ('loop_columns', 'exact_access_columns', 'exact_cost_columns')
# Parts that runs of 0.3 may have.
WITHDRAWN = ('access_columns', 'cost_columns')
# What trees see where bounds count elements, and where they count registers.
_OF_ELEMENTS = (*LOOPS, 'release_columns')
_OF_REGISTERS = ('tile_columns', 'estimate')
# Configurations of each kernel that `value_range` looks at.
_DRAWN = 64
_OPCODES = 128
# Rows that are computed at a time: all that is computed of them stays in cache.
_CHUNK = 1 << 11
_KEPT = 1 << 27  # bytes of a table whose rows are kept


def reads_extra(names: Iterable[str]) -> bool:
    """Returns whether any of these columns or parts reads `node_feat_extra`."""
    return any(name.startswith(_EXACT) for name in names)


class TileTable:
    """Columns of a split's configurations, computed as they are asked for.

    Attributes:
        parts: names in `PARTS`, in that order.
        names: of the columns.

    Args:
        parts: names in `PARTS`.

    Raises:
        ValueError: the raw columns are not the published ones.
    """

    def __init__(self, store: tile_store.TileStore, parts: Sequence[str]):
        self._store = store
        self.parts = tuple(name for name in PARTS if name in parts)
        self.names = tuple(n for part in self.parts for n in PARTS[part].names)
        for part in self.parts:
            _require(f'{store.source}: node_feat', store.node_feat, schema.NODE, part)
            _require('config_feat', store.config_feat, schema.TILE, part)
        read = {PARTS[part].source for part in self.parts}
        sources: dict[str, Any] = {_SPLIT: store}
        if _FACTS in read:
            sources[_FACTS] = kernel_facts.KernelFacts(store)
        if _GROUPS in read:
            sources[_GROUPS] = node_groups.NodeGroups(store)
        self._computed = [
            PARTS[part].make(sources[PARTS[part].source]) for part in self.parts
        ]
        self._last: tuple[int, np.ndarray] = 0, np.empty((0, 0))
        # Every epoch reads the rows of a small split again: [C, names], and bool [C].
        self._kept = self._is_kept = np.empty(0)
        count = len(store.config_feat)
        if count * len(self.names) * 4 <= _KEPT:
            self._kept = np.empty((count, len(self.names)), np.float32)
            self._is_kept = np.zeros(count, bool)

    def rows(self, rows: np.ndarray, raw: np.ndarray | None = None) -> np.ndarray:
        """Computes rows: float32 [r, len(names)].

        Args:
            rows: int64 [r], rows of `config_feat`.
            raw: float32 [r, 24], if it was read before.
        """
        if len(self._is_kept):
            missing = rows[~self._is_kept[rows]]
            self._kept[missing] = self._compute(missing)
            self._is_kept[missing] = True
            return self._kept[rows]
        follow = len(rows) > 0 and (np.diff(rows) == 1).all()
        start, last = self._last
        if follow and start <= rows[0] and rows[-1] < start + len(last):
            return last[rows[0] - start : rows[-1] + 1 - start]
        table = self._compute(rows, raw)
        if follow:  # a graph model and then trees ask for the same rows
            self._last = rows[0], table
        return table

    def _compute(self, rows: np.ndarray, raw: np.ndarray | None = None) -> np.ndarray:
        """Computes rows that are not kept; see `rows`."""
        raw = self._store.config_feat[rows] if raw is None else raw
        kernels = np.searchsorted(self._store.config_offsets, rows, 'right') - 1
        table = np.empty((len(rows), len(self.names)), np.float32)
        for first in range(0, len(rows) if self.parts else 0, _CHUNK):
            chunk = slice(first, first + _CHUNK)
            configs = raw[chunk].astype(np.float64)
            columns = [part(kernels[chunk], configs) for part in self._computed]
            np.concatenate(columns, axis=1, out=table[chunk], casting='same_kind')
        return table

    def value_range(
        self, graphs: Sequence[int] | np.ndarray | None = None
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Measures the columns on up to 64 configurations of each kernel.

        They are evenly spaced from the first to the last one: the same every
        time, and the real training split's 11 million are not read.

        Args:
            graphs: int [kernels], the kernels to measure on; None means all.

        Returns:
            The smallest and the largest values by part, float32 each.
        """
        store = self._store
        everything = np.arange(store.num_graphs)
        kernels = everything if graphs is None else np.asarray(graphs)
        counts = store.config_counts[kernels]
        # Ragged: the rows of all kernels, end to end.
        taken = np.minimum(counts, _DRAWN)
        place = arrays.ranges(np.zeros_like(taken), taken)
        step = np.repeat((counts - 1) / np.maximum(taken - 1, 1), taken)
        rows = np.repeat(store.config_offsets[kernels], taken)
        columns = self.rows(rows + (place * step).astype(np.int64))
        ends = np.cumsum([len(PARTS[name].names) for name in self.parts])[:-1]
        return {
            name: (part.min(axis=0), part.max(axis=0))
            for name, part in zip(self.parts, np.split(columns, ends, axis=1))
        }


class TreeTable:
    """The columns of a split's configurations that trees see.

    Attributes:
        names: of the columns.

    Args:
        names: of the columns to compute; None means all.
        shared: a table of the same split, whose rows are used again.

    Raises:
        ValueError: there is no such column.
    """

    def __init__(
        self,
        store: tile_store.TileStore,
        names: Sequence[str] | None = None,
        shared: TileTable | None = None,
    ):
        self._store = store
        own = [f'config_{n}' for n in _names(schema.TILE, store.config_feat.shape[1])]
        are_elements = names is None and loop_columns.fits(store)
        if names is None:
            # Columns that read bounds as registers say nothing of elements.
            parts = list(_OF_ELEMENTS if are_elements else _OF_REGISTERS)
        else:
            parts = [p for p in PARTS if set(PARTS[p].names) & set(names)]
        if shared is None or not set(parts) <= set(shared.parts):
            shared = TileTable(store, parts)
        self._table = shared
        kernel_names = _kernel_names(store)
        blocks = [own, shared.names, kernel_names]
        place = {
            n: (i, c) for i, block in enumerate(blocks) for c, n in enumerate(block)
        }
        if names is None:
            names = [n for part in parts for n in PARTS[part].names]
            if not are_elements:
                names = [*own, *names, *kernel_names]
        self.names: list[str] = list(names)
        for name in self.names:
            if name not in place:
                raise ValueError(
                    f'{store.source}: there is no column {name[:40]!r}, which the '
                    'trees look at; grow them again'
                )
        # Names may come in any order: `_places` says where each block's columns go.
        block, column = np.array([place[name] for name in self.names]).reshape(-1, 2).T
        self._places = [np.flatnonzero(block == i) for i in range(len(blocks))]
        self._columns = [column[inside] for inside in self._places]
        of_kernels = self._columns.pop()
        # Means over all nodes take time, and most trees of measured kernels read none.
        self._kernels = np.empty((0, store.num_graphs), np.float32)
        if len(of_kernels):
            self._kernels = _of_kernels(store).T[of_kernels]

    @property
    def counts(self) -> np.ndarray:
        """int64 [kernels], configurations of each."""
        return self._store.config_counts

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows: float32 [r, len(names)], column by column in memory.

        Args:
            graphs: int64 [r], kernels.
            configs: int64 [r], a configuration of each.
        """
        rows = self._store.config_offsets[graphs] + configs
        raw = self._store.config_feat[rows]
        parts = raw, self._table.rows(rows, raw)
        table = np.empty((len(self.names), len(rows)), np.float32)
        for place, columns, part in zip(self._places, self._columns, parts):
            table[place] = part.T[columns]
        table[self._places[-1]] = self._kernels[:, graphs]
        return table.T


def _kernel_names(store: tile_store.TileStore) -> list[str]:
    """Returns the names of the columns of kernels."""
    of_nodes = _names(schema.NODE, _node_columns(store))
    names = [f'{how}_{name}' for how in ('mean', 'max') for name in of_nodes]
    return [*names, *(f'count_{number}' for number in range(_OPCODES)), 'nodes']


def _of_kernels(store: tile_store.TileStore) -> np.ndarray:
    """Computes the columns of kernels: float32 [kernels, columns]."""
    nodes = kernel_nodes.KernelNodes(store)
    raw = nodes.raw[:, : _node_columns(store)]
    logs = np.sign(raw) * np.log1p(np.abs(raw))
    first, counts = store.node_offsets[:-1], np.diff(store.node_offsets)
    opcodes = np.zeros((len(counts), _OPCODES))
    np.add.at(opcodes, (nodes.kernel, np.minimum(nodes.opcodes, _OPCODES - 1)), 1)
    columns = [
        np.add.reduceat(logs, first, axis=0) / counts[:, np.newaxis],
        np.maximum.reduceat(logs, first, axis=0),
        opcodes,
        counts[:, np.newaxis],
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _node_columns(store: tile_store.TileStore) -> int:
    """Returns the number of node columns whose means and maxima trees may read.

    Those of `schema.EXTRA` rank programs of other sizes worse.
    """
    width = store.node_feat.shape[1]
    return len(schema.NODE) if width == len(schema.NODE_AND_EXTRA) else width


def _names(columns: schema.Columns, width: int) -> list[str]:
    """Names raw columns, by number where there are more than published."""
    return [*columns.names, *map(str, range(len(columns), width))][:width]


def _require(name: str, array: np.ndarray, columns: schema.Columns, part: str) -> None:
    """Raises ValueError unless an array has the published columns."""
    if array.shape[-1] < len(columns):
        raise ValueError(
            f'{name} has {text.count(array.shape[-1], "column")}, but --{part} reads '
            f'the {len(columns)} published ones'
        )
