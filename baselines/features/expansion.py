"""Raw columns -> the columns that are scaled: logarithms, sizes modulo 128.

A stage of the normaliser; by default there is none and columns are scaled as
they are, as published.  Minimum and maximum of the new columns follow from
those of the raw ones, so nothing is read twice.
"""

import dataclasses
from typing import Any, Dict, Tuple

import numpy as np

from baselines.hlo import schema

LANES = 128

# Lists of columns that hold sizes of dimensions.  Layout digits are no sizes.
_NODE_LISTS = ('shape_dimensions', 'window_size', 'dynamic_slice_sizes')
_MOST_COLUMNS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Expansion:
    """What becomes of raw columns before they are scaled.

    The raw columns come first, then x mod 128 of all sizes, then x // 128 of
    all sizes, both of max(x, 0).

    Attributes:
        node_signlog: sign(x) log(1 + |x|) takes the place of x; x // 128 too,
            the remainder stays as it is.
        config_signlog: the same of configuration columns.
        node_sizes: columns that are also there as x mod 128 and x // 128.
        config_sizes: the same of configuration columns.
    """

    node_signlog: bool = False
    config_signlog: bool = False
    node_sizes: Tuple[int, ...] = ()
    config_sizes: Tuple[int, ...] = ()

    @classmethod
    def of_tiles(cls, features: str, mod128: bool) -> 'Expansion':
        """Returns what --features and --mod128 ask for, of kernels."""
        signlog = features == 'signlog'
        lists = (schema.NODE, _NODE_LISTS), (schema.TILE, schema.TILE_LISTS)
        sizes = [_positions(*some) for some in lists] if mod128 else []
        return cls(signlog, signlog, *sizes)

    @classmethod
    def of_layouts(cls, features: str, mod128: bool) -> 'Expansion':
        """The same of layout programs, whose configuration digits stay digits."""
        sizes = _positions(schema.NODE, _NODE_LISTS) if mod128 else ()
        return cls(features == 'signlog', False, sizes)

    @property
    def is_published(self) -> bool:
        """Whether columns stay as they are."""
        return self == Expansion()

    def raw_width(self, part: str, width: int) -> int:
        """Number of raw columns, from that of expanded ones."""
        return width - 2 * len(self._sizes(part))

    def columns(self, part: str, raw: np.ndarray) -> np.ndarray:
        """Expands columns of a part, [..., F] to float32 [..., F + 2 sizes]."""
        raw = np.asarray(raw).astype(np.float32, copy=False)
        sizes = np.maximum(raw[..., list(self._sizes(part))], 0)
        # Exact in float32: a division by a power of two, and what is left.
        quotient = np.floor(sizes / LANES)
        remainder = sizes - quotient * LANES
        if getattr(self, f'{part}_signlog'):
            raw, quotient = signlog(raw), np.log1p(quotient)
        return np.concatenate([raw, remainder, quotient], axis=-1)

    def value_range(
        self, part: str, low: np.ndarray, high: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Ranges of expanded columns, from those of the raw ones, float32 [F] each.

        A remainder goes from 0 to 127, whatever it does in the data; that of a
        constant column has no range.

        Raises:
            ValueError: a size's column is not there.
        """
        sizes = list(self._sizes(part))
        if sizes and sizes[-1] >= len(low):
            raise ValueError(
                f'{part}_feat has {len(low)} columns; --mod128 reads the '
                f'published ones, up to column {sizes[-1]}'
            )
        remainders = slice(len(low), len(low) + len(sizes))
        varies = low[sizes] != high[sizes]
        low, high = self.columns(part, low), self.columns(part, high)
        low[remainders] = 0
        high[remainders] = np.where(varies, LANES - 1, 0)
        return low, high

    def to_json(self) -> Dict[str, Any]:
        """Returns what `from_json` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, described: Any) -> 'Expansion':
        """Makes an expansion from what `to_json` returned, once more as JSON.

        Raises:
            ValueError: something is not what it should be.
        """
        if not isinstance(described, dict):
            raise ValueError('normalizer: expansion should be an object')
        fields: Dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            value = described.get(field.name, field.default)
            if isinstance(field.default, bool):
                if not isinstance(value, bool):
                    raise ValueError(
                        f'normalizer: {field.name} should be true or false'
                    )
            elif not _is_ascending(value):
                raise ValueError(
                    f'normalizer: {field.name} should be a list of columns, ascending'
                )
            fields[field.name] = value if isinstance(value, bool) else tuple(value)
        return cls(**fields)

    def _sizes(self, part: str) -> Tuple[int, ...]:
        return getattr(self, f'{part}_sizes')


def _positions(columns: schema.Columns, lists: Tuple[str, ...]) -> Tuple[int, ...]:
    """Positions of the entries of some lists."""
    every = range(len(columns))
    return tuple(place for name in lists for place in every[columns.block(name)])


def signlog(values: np.ndarray) -> np.ndarray:
    """sign(x) log(1 + |x|), the logarithm that keeps 0 and signs."""
    return np.sign(values) * np.log1p(np.abs(values))


def _is_ascending(value: Any) -> bool:
    """Whether these are column numbers, each once."""
    if not isinstance(value, (list, tuple)) or any(type(v) is not int for v in value):
        return False
    return all(0 <= a < b for a, b in zip(value, [*value[1:], _MOST_COLUMNS]))
