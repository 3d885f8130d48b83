"""The collections: which there are, and what differs between them.

The one table.  Flags, recipes, downloads, submissions and the readers of run
files take from it what they need to know.
"""

from typing import Any, List, Mapping, NamedTuple

from baselines import registry
from baselines.hlo import schema

SPLITS = ('train', 'valid', 'test')


class Collection(NamedTuple):
    """Graphs of one kind, with configurations found in one way.

    Attributes:
        name: such as 'layout:xla:random'; the first word is the task.
        flags: of the training, that choose it.
        subfolder: where it is below --data_root.
        config_columns: published width of its configurations' features.
        toy_files: files of each split that --toy_data takes.
        kaggle_place: rank in Kaggle's template.
    """

    name: str
    flags: Mapping[str, str]
    subfolder: str
    config_columns: int
    toy_files: int
    kaggle_place: int

    @property
    def task(self) -> str:
        """'tile' or 'layout': what its trainings and reports are like."""
        return self.name.partition(':')[0]


def _layout(source: str, search: str, kaggle_place: int) -> Collection:
    return Collection(
        f'layout:{source}:{search}',
        {'source': source, 'search': search},
        f'{source}/{search}',
        config_columns=len(schema.LAYOUT),
        toy_files=5,
        kaggle_place=kaggle_place,
    )


COLLECTIONS = (
    Collection(
        'tile:xla',
        {},
        '',
        config_columns=len(schema.TILE),
        toy_files=100,
        kaggle_place=0,
    ),
    _layout('xla', 'random', kaggle_place=2),
    _layout('xla', 'default', kaggle_place=1),
    _layout('nlp', 'random', kaggle_place=4),
    _layout('nlp', 'default', kaggle_place=3),
)
NAMES = tuple(collection.name for collection in COLLECTIONS)


# In the order of Kaggle's template.
KAGGLE_NAMES = tuple(c.name for c in sorted(COLLECTIONS, key=lambda c: c.kaggle_place))


def of_name(name: str) -> Collection:
    """Returns the collection of a name; raises ValueError where there is none."""
    by_name = {collection.name: collection for collection in COLLECTIONS}
    return registry.resolve(name, by_name, 'collection')


def of_flags(flags: Mapping[str, Any]) -> Collection:
    """Returns the collection that the flags of a training choose.

    Args:
        flags: the training's, by name.  Only layout trainings have `source`
            and `search`.

    Raises:
        ValueError: there is none of that kind; lists those that there are.
    """
    told = [c for c in COLLECTIONS if set(c.flags) <= set(flags)]
    if not told:  # a run from before there were these flags
        return COLLECTIONS[0]
    most = max(len(c.flags) for c in told)
    alike = [c for c in told if len(c.flags) == most]
    for collection in alike:
        if all(flags[name] == value for name, value in collection.flags.items()):
            return collection
    chosen = ' '.join(f'--{name}={flags[name]}' for name in alike[0].flags)
    raise ValueError(
        f'there is no collection {chosen}; there are {", ".join(c.name for c in alike)}'
    )


def choices(flag: str) -> List[str]:
    """Returns the values that a flag has in the collections."""
    return list(dict.fromkeys(c.flags[flag] for c in COLLECTIONS if flag in c.flags))
