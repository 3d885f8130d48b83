"""What the columns of some data mean: two splits agree, or do not mix.

Raw files can be extracted in several ways (`--pad`, `--extra`).  A run records
what it was trained on, so that nothing else is handed to it by mistake.
"""

import dataclasses
from typing import Any, Dict, Iterator, Optional, Tuple

from baselines import text
from baselines import untrusted
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
        normalizer = info.get('normalizer')
        scaled = normalizer if isinstance(normalizer, dict) else {}
        fields: Dict[str, Any] = {'pad': info.get('pad', cls.pad)}
        for part, width in zip(_PARTS, (cls.node_features, config_features)):
            used = scaled.get(f'{part}_used')
            width = len(used) if isinstance(used, list) else width
            fields[f'{part}_features'] = info.get(f'{part}_features', width)
        for name in _NAMES:
            names = info.get(name)
            fields[name] = tuple(names) if isinstance(names, list) else names
        with text.located('the run file'):
            untrusted.check(fields, _RULES)
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

    def _differences(self, other: 'Variant') -> Iterator[str]:
        """Yields how another variant differs, ending before '... in what ...'."""
        if other.pad != self.pad:
            yield f'absent entries are {other.pad} (--pad={other.pad}), but {self.pad}'
        for part in _PARTS:
            name = f'{part}_features'
            width, expected = getattr(other, name), getattr(self, name)
            if width != expected:
                yield f'{part}_feat has {width} columns, but {expected}'
        for name in _NAMES:
            names, wanted = getattr(other, name), getattr(self, name)
            if names == wanted:
                continue
            if names is None or wanted is None:
                there, here = ('names', 'none') if names else ('no names', 'names')
                yield f'{name}: the columns have {there}, but {here}'
            elif len(names) != len(wanted):
                yield f'{name}: {len(names)} columns are named, but {len(wanted)}'
            else:
                pairs = enumerate(zip(names, wanted))
                column, (theirs, ours) = next(p for p in pairs if p[1][0] != p[1][1])
                yield f'{name}: column {column} is {theirs!r}, but {ours!r}'


def _are_names(value: Any) -> bool:
    return value is None or (
        isinstance(value, tuple) and all(isinstance(name, str) for name in value)
    )


_WIDTH = lambda value: untrusted.is_int(value, 1), 'a number of columns'
_RULES: Dict[str, untrusted.Rule] = {
    'pad': (lambda value: type(value) is int and value in (0, -1), '0 or -1'),
    **dict.fromkeys((f'{part}_features' for part in _PARTS), _WIDTH),
    **dict.fromkeys(_NAMES, (_are_names, 'a list of names or null')),
}
