"""The table of the collections and of the differences between them."""

from collections.abc import Mapping
import itertools
import os
from typing import Any, NamedTuple

from baselines.core import registry
from baselines.hlo import schema

SPLITS = ('train', 'valid', 'test')
# The name of a graph, which a row of a ranking has to hold: no space, no separator, and
# nothing that UTF-8 cannot write.
GRAPH_ID = r'[^\s,:;"\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}'


class Collection(NamedTuple):
    """Graphs of one kind, with configurations found in one way.

    A training on several of them has a joint one, 'layout:xla,nlp:random', whose
    graphs are those of its `parts`; it has no folder.
    """

    name: str  # such as 'layout:xla:random'; the first word is the task
    flags: Mapping[str, str]  # of the training, that choose it
    subfolder: str  # where it is below --data_root
    config_columns: int  # published width of its configurations' features
    toy_files: int  # files of each split that --toy_data takes

    @property
    def task(self) -> str:
        """The task whose trainings and reports it has: 'tile' or 'layout'."""
        return self.name.partition(':')[0]

    @property
    def parts(self) -> list['Collection']:
        """The collections that a joint one joins; any other has only itself."""
        if ',' not in self.name:
            return [self]
        values = [value.split(',') for value in self.flags.values()]
        names = (
            ':'.join([self.task, *choice]) for choice in itertools.product(*values)
        )
        by_name = {collection.name: collection for collection in COLLECTIONS}
        return [by_name[name] for name in names if name in by_name]

    def select_part(self, name: str, model_dir: str) -> 'Collection':
        """Returns the collection that a run of this one scores.

        Args:
            name: its name; '' where the run was trained on one collection.
            model_dir: the run, for messages.

        Raises:
            ValueError: the run is not of that collection, or it is of several and
                `name` is ''.
        """
        chosen = [part for part in self.parts if name in ('', part.name)]
        if len(chosen) == 1:
            return chosen[0]
        names = ', '.join(part.name for part in self.parts)
        if name:
            raise ValueError(
                f'--collection={name} is for --dir estimate, or for runs that were '
                f'trained on it among others: {model_dir} is of {names}'
            )
        raise ValueError(
            f'{model_dir} was trained on {names}: choose one with --collection'
        )

    def locate_split(self, root: str, split: str) -> str:
        """Returns the folder of a split at or below a root; it need not exist.

        The root may be any folder of the published path npz/layout/xla/random/train.
        """
        usual = os.path.join(root, self.subfolder)
        ways = ['npz', *self.name.split(':')]
        places = [usual, *(os.path.join(root, *ways[n:]) for n in range(len(ways)))]
        # The root itself has the splits, unless it is another collection's folder.
        others = {c.subfolder for c in COLLECTIONS} - {self.subfolder, ''}
        if not root.endswith(tuple(others)):
            places.append(root)
        folders = [os.path.join(place, split) for place in places]
        return next(filter(os.path.isdir, folders), folders[0])


def _make_layout(source: str, search: str) -> Collection:
    """Returns a layout collection, whose flags are --source and --search."""
    return Collection(
        f'layout:{source}:{search}',
        {'source': source, 'search': search},
        f'{source}/{search}',
        config_columns=len(schema.LAYOUT),
        toy_files=5,
    )


COLLECTIONS = (
    Collection('tile:xla', {}, '', config_columns=len(schema.TILE), toy_files=100),
    _make_layout('xla', 'random'),
    _make_layout('xla', 'default'),
    _make_layout('nlp', 'random'),
    _make_layout('nlp', 'default'),
)
NAMES = tuple(collection.name for collection in COLLECTIONS)
# In the order of Kaggle's template.
KAGGLE_NAMES = (
    *('tile:xla', 'layout:xla:default', 'layout:xla:random'),
    *('layout:nlp:default', 'layout:nlp:random'),
)


def find_collection(name: str) -> Collection:
    """Returns the collection with a name; raises ValueError for an unknown name."""
    by_name = {collection.name: collection for collection in COLLECTIONS}
    return registry.resolve(name, by_name, 'collection')


def select_collection(flags: Mapping[str, object]) -> Collection:
    """Returns the collection that the flags of a training choose.

    Args:
        flags: the training's, by name.  Only layout trainings have `source`
            and `search`; with several values, 'xla,nlp', they choose a joint
            collection.

    Raises:
        ValueError: no collection has these values; lists those of such flags.
    """
    possible = [c for c in COLLECTIONS if set(c.flags) <= set(flags)]
    if not possible:  # a run from before there were these flags
        return COLLECTIONS[0]
    most = max(len(c.flags) for c in possible)
    alike = [c for c in possible if len(c.flags) == most]
    for collection in alike:
        if all(flags[name] == value for name, value in collection.flags.items()):
            return collection
    joint = _join_collections({name: flags[name] for name in alike[0].flags})
    if joint is not None:
        return joint
    chosen = ' '.join(f'--{name}={flags[name]}' for name in alike[0].flags)
    raise ValueError(
        f'there is no collection {chosen}; there are {", ".join(c.name for c in alike)}'
    )


def _join_collections(flags: Mapping[str, Any]) -> Collection | None:
    """Returns the joint collection of several values; None where one is unknown."""
    for name, value in flags.items():
        values = value.split(',') if isinstance(value, str) else ['']
        if len({*values}) < len(values) or not {*values} <= {*list_choices(name)}:
            return None
    of_all = ':'.join(flags.values())
    return _make_layout('', '')._replace(name=f'layout:{of_all}', flags=dict(flags))


def list_choices(flag: str) -> list[str]:
    """Returns the values that a flag has in the collections."""
    return list(dict.fromkeys(c.flags[flag] for c in COLLECTIONS if flag in c.flags))
