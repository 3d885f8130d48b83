"""The numbers of columns and the padding of a split, by which data sets can differ.

Raw files can be extracted in several ways (`--pad`, `--extra`).  A run records the
columns that it was trained on, so that others are refused.
"""

import dataclasses

from baselines.core import text
from baselines.core import untrusted
from baselines.data.packed import splits
from baselines.hlo import schema

_WITH_EXTRA = len(schema.NODE_AND_EXTRA)


@dataclasses.dataclass(frozen=True)
class Variant:
    """The columns of a split; the defaults are the published ones, of tiles."""

    pad: int = 0  # the value of absent list entries, 0 or -1
    # columns of node_feat, with those of node_feat_extra for a run that was trained
    # with --extra
    node_features: int = len(schema.NODE)
    config_features: int = len(schema.TILE)  # columns of config_feat

    @property
    def extra(self) -> bool:
        """Whether the columns of node_feat_extra are among the nodes'."""
        return self.node_features == _WITH_EXTRA

    @classmethod
    def from_store(cls, store: splits.PackedSplit) -> 'Variant':
        """Returns the variant of a split, which flags of collections do not change."""
        node_features = store.node_min.shape[1] - len(store.flags)
        return cls(store.pad, node_features, store.config_min.shape[1])

    @classmethod
    def from_json(
        cls, info: text.JsonObject, config_features: int = config_features
    ) -> 'Variant':
        """Reads the variant that a run was trained on.

        Args:
            info: the run file's object.  Runs without these keys were trained
                on published columns, as many as their normaliser has.
            config_features: number of published columns; 18 for layouts.

        Raises:
            ValueError: a value is not a number of columns, or not 0 or -1.
        """
        normalizer = info.get('normalizer')
        scaled = normalizer if isinstance(normalizer, dict) else {}
        fields: text.JsonObject = {'pad': info.get('pad', cls.pad)}
        widths = {'node': cls.node_features, 'config': config_features}
        for part, width in widths.items():
            used = scaled.get(f'{part}_used')
            width = len(used) if isinstance(used, list) else width
            fields[f'{part}_features'] = info.get(f'{part}_features', width)
        with text.located('the run file'):
            untrusted.check(fields, _RULES)
        return cls(**fields)

    def to_json(self) -> text.JsonObject:
        """Returns the entries of a run file that `from_json` reads."""
        return dataclasses.asdict(self)

    def check(self, store: splits.PackedSplit, than: str) -> splits.PackedSplit:
        """Returns a split in this variant; raises ValueError for one in another.

        Args:
            than: ends the message 'but 140 in what ...': 'the model was trained on'.
        """
        if self.extra:
            store = store.with_extra()
        # The first difference is named; one is enough to know that the data do not fit.
        for name, actual in Variant.from_store(store).to_json().items():
            expected = getattr(self, name)
            if actual != expected:
                difference = f'absent entries are {actual} (--pad={actual})'
                if name != 'pad':
                    array = name.replace('features', 'feat')
                    difference = f'{array} has {text.count(actual, "column")}'
                raise ValueError(
                    f'{store.source}: {difference}, but {expected} in what {than}; use '
                    'data extracted in the same way, or train a model on this one'
                )
        return store


_WIDTH = lambda value: untrusted.is_int(value, 1), 'a number of columns'
_RULES: dict[str, untrusted.Rule] = {
    'pad': (lambda value: type(value) is int and value in (0, -1), '0 or -1'),
    'node_features': _WIDTH,
    'config_features': _WIDTH,
}
