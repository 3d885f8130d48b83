"""Scales features to [0, 1] as the published pipeline does.

The rule: minimum and maximum of every column over all training rows; columns
where both are equal are dropped; x becomes (x - min) / (max - min), in float32.
Other splits use the numbers of the training split and may leave [0, 1].  On
request, the columns of a tile configuration's table are added after (`tile_table`).
"""

from collections.abc import Sequence
import dataclasses
import functools
from typing import NamedTuple, Optional

import numpy as np

from baselines.core import text
from baselines.data.packed import splits
from baselines.features import column_sets
from baselines.features import tile_table

_PARTS = ('node', 'config')

_Range = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Normalizer:
    """The columns that a model sees, and their scaling.

    F and K are the numbers of node and configuration features.  A tile configuration
    has one row of features; a layout configuration has one per configurable node.
    """

    # by part, 'node' and 'config': the columns that are kept, bool [F] and [K]
    used: dict[str, np.ndarray]
    # by part: minima and maxima of all columns, float32 [F] and [K] each
    ranges: dict[str, _Range]
    # by column set: minima and maxima of the columns of a tile configuration's table
    # that a model sees, float32 each
    table_ranges: dict[str, _Range] = dataclasses.field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        store: splits.PackedSplit,
        graphs: Sequence[int] | np.ndarray | None = None,
        table: tile_table.TileTable | None = None,
    ) -> 'Normalizer':
        """Fits to graphs of a training split, from their summaries alone.

        Args:
            graphs: indices of the graphs to fit to; None means all.
            table: the split's columns of tile configurations that a model sees.

        Raises:
            ValueError: no kernel is given, or a column's range overflows.
        """
        rows = slice(None) if graphs is None else np.asarray(graphs, np.int64)
        used, ranges = {}, {}
        for part in _PARTS:
            low, high = (
                getattr(store, f'{part}_{end}')[rows] for end in ('min', 'max')
            )
            if not len(low):
                raise ValueError(f'{store.source}: no kernel to fit the normaliser to')
            # [graphs, columns] -> [columns].
            low, high = low.min(axis=0), high.max(axis=0)
            with np.errstate(over='ignore'):
                # The difference of two finite numbers may be infinite in float32.
                endless = np.flatnonzero(~np.isfinite(high - low))
            if len(endless):
                raise ValueError(
                    f'{store.source}: column {endless[0]} of {part}_feat goes '
                    f'from {low[endless[0]]} to {high[endless[0]]}, too far '
                    'for float32'
                )
            used[part], ranges[part] = low != high, (low, high)
        return cls(used, ranges, {} if table is None else table.measure_range(graphs))

    @property
    def num_node_features(self) -> int:
        """Number of node columns that are kept."""
        return len(self.scales['node'][0])

    @property
    def num_config_features(self) -> int:
        """Number of configuration columns that are kept, and columns of the table."""
        return len(self.scales['config'][0]) + len(self._table_scale[0])

    def nodes(self, features: np.ndarray) -> np.ndarray:
        """Scales node features: [..., raw columns] to float32 [..., num_node_features].

        Raises:
            ValueError: the width is another one.
        """
        return self._apply('node', features)

    def configs(self, features: np.ndarray) -> np.ndarray:
        """Scales configuration features, as `nodes` scales node features."""
        return self._apply('config', features)

    def table(self, columns: np.ndarray) -> np.ndarray:
        """Scales rows of the table, constant columns, too: float32 [..., columns]."""
        low, span = self._table_scale
        return (columns - low) / span

    def to_json(self) -> text.JsonObject:
        """Returns plain lists for JSON, from which `from_json` restores every bit."""
        values = {f'{part}_used': self.used[part] for part in _PARTS}
        for name, (low, high) in {**self.ranges, **self.table_ranges}.items():
            values.update({f'{name}_min': low, f'{name}_max': high})
        return {key: array.tolist() for key, array in values.items()}

    @classmethod
    def from_json(cls, described: text.JsonObject) -> 'Normalizer':
        """Makes a normaliser of the lists of `to_json`; raises ValueError."""
        if not isinstance(described, dict):
            raise ValueError('normalizer: it must be an object with six lists')
        used, ranges = {}, {}
        for part in _PARTS:
            used[part] = _read_values(described, f'{part}_used', bool)
            ranges[part] = _read_range(described, part, len(used[part]))
            # A damaged or hostile run file must not make us divide by 0.
            wrong = np.flatnonzero(used[part] & np.equal(*ranges[part]))
            if len(wrong):
                raise ValueError(
                    f'normalizer: column {wrong[0]} of {part}_used is used, but '
                    'its minimum is its maximum'
                )
        # The keys are <part>_used, and <part or set>_min and _max.
        names = (key.rpartition('_')[0] for key in described)
        sets = dict.fromkeys(name for name in names if name not in _PARTS)
        columns = column_sets.find(sets) if sets else {}
        of_table = {
            name: _read_range(described, name, len(columns[name].names))
            for name in columns
        }
        return cls(used, ranges, of_table)

    @functools.cached_property
    def scales(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """'node' and 'config' -> numbers, minima and ranges of the kept columns."""
        scales = {}
        for part, used in self.used.items():
            low, high = (end[used] for end in self.ranges[part])
            scales[part] = np.flatnonzero(used), low, high - low
        return scales

    @functools.cached_property
    def _table_scale(self) -> _Range:
        """Minima and ranges of the table's columns."""
        none = np.empty(0, np.float32)
        # Each column set has its own range; together they are the columns of the table.
        ends = zip((none, none), *self.table_ranges.values())
        low, high = (np.concatenate(parts) for parts in ends)
        # A constant column becomes 0, and keeps its place: models read by position.
        span = high - low
        return low, np.where(span > 0, span, np.float32(1))

    def _apply(self, part: str, features: np.ndarray) -> np.ndarray:
        """Scales the features of a part, 'node' or 'config'; see `nodes`."""
        features = np.asarray(features)
        width = len(self.used[part])
        if features.shape[-1] != width:
            raise ValueError(
                f'{part}_feat has {text.count(features.shape[-1], "column")}, but the '
                f'model was trained on {width}: point --data_root at data of the same '
                'kind, or train a model on this one'
            )
        used, low, span = self.scales[part]
        # `take` copies, so the caller's array stays.
        scaled = np.take(features, used, axis=-1).astype(np.float32, copy=False)
        scaled -= low
        scaled /= span
        return scaled


def count_ops(*max_opcodes: np.ndarray) -> int:
    """Returns 1 + the largest opcode, the size of an embedding table.

    Takes int [graphs] for each split, the largest opcodes of its graphs.
    """
    opcodes = np.concatenate([*max_opcodes, []])
    if not len(opcodes):
        raise ValueError('num_ops: there is no kernel to take opcodes from')
    return 1 + int(opcodes.max())


def _read_range(described: text.JsonObject, name: str, count: int) -> _Range:
    """Reads `count` minima and maxima of a part or a column set from JSON."""
    low, high = (
        _read_values(described, f'{name}_{end}', int, float) for end in ('min', 'max')
    )
    if not len(low) == len(high) == count:
        raise ValueError(
            f'normalizer: {name}_min and {name}_max have {len(low)} and {len(high)} '
            f'entries, not {count}'
        )
    if (low > high).any():
        raise ValueError(f'normalizer: {name}_min is above {name}_max')
    return low, high


def _read_values(described: text.JsonObject, key: str, *kinds: type) -> np.ndarray:
    """Returns one list of a normaliser's JSON as bool or float32 array."""
    values = described.get(key)
    # Not `isinstance`: in Python true and false are integers, too.
    if not isinstance(values, list) or not {*map(type, values)} <= {*kinds}:
        names = 'true and false' if bool in kinds else 'numbers'
        raise ValueError(f'normalizer: {key} must be a list of {names}')
    try:
        with np.errstate(over='ignore'):
            array = np.array(values, bool if bool in kinds else np.float32)
    except OverflowError:  # an integer beyond float64
        array = np.array([np.inf])
    if not np.isfinite(array).all():
        raise ValueError(f'normalizer: {key} has a value that is not finite')
    return array


class Scaling(NamedTuple):
    """How features are scaled, and the opcodes that a model knows: below `num_ops`."""

    normalizer: Normalizer
    num_ops: int

    @classmethod
    def from_json(cls, info: text.JsonObject) -> Optional['Scaling']:
        """Reads the scaling in a run file's object; None for a published one.

        Raises:
            ValueError: it is damaged.
        """
        if 'normalizer' not in info:
            return None
        num_ops = info.get('num_ops')
        if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
            raise ValueError(
                f'num_ops must be a number up to 65536, not {text.quoted(num_ops)}'
            )
        return cls(Normalizer.from_json(info['normalizer']), num_ops)
