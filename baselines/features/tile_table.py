"""The table of a tile configuration: what every model may see beside raw columns.

    table = TileTable(store, ('tile_columns', 'estimate'))
    table.names                # of the columns, part by part
    table.rows(rows)           # float32 [rows, len(names)]

There are two parts, each switched on by the flag of its name:

    tile_columns   the tile against its arrays (`features.tile_columns`)
    estimate       an analytical estimate of the time (`features.estimate`)

Graph models get the rows scaled behind a configuration's own columns; trees get
them as they are, with `kernel_columns` for the kernel.
"""

from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from baselines.data import ragged
from baselines.data.packed import splits
from baselines.features import estimate as estimate_lib
from baselines.features import kernel_facts
from baselines.features import tile_columns as tile_columns_lib

# Configurations of each kernel that `value_range` looks at.
_DRAWN = 64
_OPCODES = 128

# Rows and their kernels' numbers -> columns.
_Rows = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Part(NamedTuple):
    """Columns that go together.

    Attributes:
        names: of the columns.
        make: facts of kernels -> (kernel of each row, raw rows) -> columns.
    """

    names: Tuple[str, ...]
    make: Callable[[kernel_facts.KernelFacts], _Rows]


# In the order of the columns: some models read the estimated time as the last one.
PARTS: Dict[str, Part] = {
    'tile_columns': Part(tile_columns_lib.NAMES, tile_columns_lib.TileColumns),
    'estimate': Part(
        estimate_lib.NAMES,
        lambda facts: (
            lambda kernels, configs: estimate_lib.estimate(facts, kernels, configs)
        ),
    ),
}


class TileTable:
    """Columns of a split's configurations, computed as they are asked for.

    Args:
        store: a split of kernels.
        parts: names in `PARTS`; the columns come in the order of `PARTS`.

    Raises:
        ValueError: the raw columns are not the published ones.
    """

    def __init__(self, store: splits.PackedSplit, parts: Sequence[str]):
        self._store = store
        self.parts = tuple(name for name in PARTS if name in parts)
        facts = kernel_facts.KernelFacts.of(store) if self.parts else None
        self._made = [PARTS[name].make(facts) for name in self.parts]

    @property
    def names(self) -> Tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for part in self.parts for name in PARTS[part].names)

    def rows(self, rows: np.ndarray, raw: Optional[np.ndarray] = None) -> np.ndarray:
        """Computes rows.

        Args:
            rows: int64 [r], rows of `config_feat`.
            raw: float32 [r, 24], if it was read before.

        Returns:
            float32 [r, len(names)].
        """
        raw = self._store.config_feat[rows] if raw is None else raw
        kernels = np.searchsorted(self._store.config_offsets, rows, 'right') - 1
        columns = [made(kernels, raw) for made in self._made]
        return np.concatenate(columns or [np.empty((len(rows), 0), np.float32)], axis=1)

    def value_range(
        self, graphs: Optional[Sequence[int]] = None
    ) -> Dict[str, Tuple[np.ndarray, np.ndarray]]:
        """Measures the columns on up to 64 configurations of each kernel.

        They are evenly spaced from the first to the last one: the same every
        time, and the real training split's 11 million are not read.

        Args:
            graphs: int [kernels], those that count; None means all.

        Returns:
            The smallest and the largest values by part, float32 each.
        """
        store = self._store
        graphs = np.arange(store.num_graphs) if graphs is None else np.asarray(graphs)
        counts = store.config_counts[graphs]
        taken = np.minimum(counts, _DRAWN)
        place = ragged.ranges(np.zeros_like(taken), taken)
        step = np.repeat((counts - 1) / np.maximum(taken - 1, 1), taken)
        rows = np.repeat(store.config_offsets[graphs], taken)
        columns = self.rows(rows + (place * step).astype(np.int64))
        ends = np.cumsum([len(PARTS[name].names) for name in self.parts])[:-1]
        return {
            name: (part.min(axis=0), part.max(axis=0))
            for name, part in zip(self.parts, np.split(columns, ends, axis=1))
        }


def kernel_columns(store: splits.PackedSplit) -> np.ndarray:
    """What a model without message passing sees of a kernel.

    Means and maxima over nodes of sign(x) log(1 + |x|) of the raw node columns,
    then how often each opcode occurs, then the number of nodes.

    Args:
        store: a split of kernels.

    Returns:
        float32 [kernels, 2 x node columns + 129].
    """
    raw = np.asarray(store.node_feat)
    logs = np.sign(raw) * np.log1p(np.abs(raw))
    first, nodes = store.node_offsets[:-1], np.diff(store.node_offsets)
    kernel = np.repeat(np.arange(len(nodes)), nodes)
    opcodes = np.zeros((len(nodes), _OPCODES))
    np.add.at(opcodes, (kernel, np.minimum(store.node_opcode, _OPCODES - 1)), 1)
    columns = [
        np.add.reduceat(logs, first, axis=0) / nodes[:, np.newaxis],
        np.maximum.reduceat(logs, first, axis=0),
        opcodes,
        nodes[:, np.newaxis],
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)
