"""What the columns of some data mean: two splits agree, or do not mix.

Raw files can be extracted in several ways (`--pad`, `--extra`).  A run records
what it was trained on, so that nothing else is handed to it by mistake.
"""

import dataclasses
from typing import Any, Dict, Iterator, Optional, Tuple

from baselines.data.packed import splits
from baselines.hlo import schema

_PARTS = ('node', 'config')
_NAMES = ('feature_names', 'config_feature_names')
# What prediction on data of another kind needs.
_ADVICE = 'use data extracted in the same way, or train a model on this one'


@dataclasses.dataclass(frozen=True)
class Variant:
    """The columns of a split; the defaults are the published ones, of tiles.

    Attributes:
        pad: what absent list entries hold, 0 or -1.
        node_features: columns of node_feat.
        config_features: columns of config_feat.
        feature_names: of the columns of node_feat; None if the data has none.
        config_feature_names: of those of config_feat.
    """

    pad: int = 0
    node_features: int = len(schema.NODE)
    config_features: int = len(schema.TILE)
    feature_names: Optional[Tuple[str, ...]] = None
    config_feature_names: Optional[Tuple[str, ...]] = None

    @classmethod
    def of(cls, store: splits.PackedSplit) -> 'Variant':
        """Returns what a split, of either collection, holds."""
        return cls(
            store.pad,
            store.node_min.shape[1],
            store.config_min.shape[1],
            store.feature_names,
            store.config_feature_names,
        )

    @classmethod
    def from_json(
        cls, info: Dict[str, Any], config_features: int = config_features
    ) -> 'Variant':
        """Reads what a run was trained on.

        Args:
            info: the run file's object.  Runs without these keys were trained
                on published columns, as many as their normaliser has.
            config_features: how many are published; 18 for layouts.

        Raises:
            ValueError: a value is not what it should be.
        """
        fields: Dict[str, Any] = {}
        normalizer = info.get('normalizer')
        for part, width in zip(_PARTS, (cls.node_features, config_features)):
            name = f'{part}_features'
            if isinstance(normalizer, dict):
                used = normalizer.get(f'{part}_used')
                width = len(used) if isinstance(used, list) else width
            found = fields[name] = info.get(name, width)
            counts = type(found) is int and found >= 1
            _require(name, counts, f'a number of columns, not {found!r}')
        pad = fields['pad'] = info.get('pad', cls.pad)
        known = type(pad) is int and pad in (0, -1)
        _require('pad', known, f'0 or -1, not {pad!r}')
        for name in _NAMES:
            names = info.get(name)
            listed = isinstance(names, list) and all(isinstance(n, str) for n in names)
            _require(name, listed or names is None, 'a list of names or null')
            fields[name] = names and tuple(names)
        return cls(**fields)

    def to_json(self) -> Dict[str, Any]:
        """Returns what a run file keeps; `from_json` reads it."""
        return dataclasses.asdict(self)

    def check(self, store: splits.PackedSplit, than: str) -> None:
        """Refuses a split whose columns mean something else.

        Args:
            store: the split.
            than: what this variant is, for the message: 'the model was trained
                on'.

        Raises:
            ValueError: they differ; says in what.
        """
        for difference in self._differences(Variant.of(store)):
            raise ValueError(f'{store.source}: {difference} in what {than}; {_ADVICE}')

    def _differences(self, found: 'Variant') -> Iterator[str]:
        if found.pad != self.pad:
            yield f'absent entries are {found.pad} (--pad={found.pad}), but {self.pad}'
        for part in _PARTS:
            name = f'{part}_features'
            width, expected = getattr(found, name), getattr(self, name)
            if width != expected:
                yield f'{part}_feat has {width} columns, but {expected}'
        for name in _NAMES:
            difference = _difference(getattr(found, name), getattr(self, name))
            if difference:
                yield f'{name}: {difference}'


def _require(name: str, fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(f"the run file's {name} should be {what}")


def _difference(
    found: Optional[Tuple[str, ...]], expected: Optional[Tuple[str, ...]]
) -> str:
    """Says how names differ, ending before '... in what it was trained on'."""
    if found == expected:
        return ''
    if found is None:
        return 'the columns have no names, but they have'
    if expected is None:
        return 'the columns have names, but they have none'
    for i, (name, other) in enumerate(zip(found, expected)):
        if name != other:
            return f'column {i} is {name!r}, but {other!r}'
    return f'{len(found)} columns are named, but {len(expected)}'
