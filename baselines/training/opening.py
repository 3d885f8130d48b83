"""Opens the splits of a training, and checks that they fit together."""

from collections.abc import Mapping, Sequence
import itertools
from typing import cast

import numpy as np

from baselines import config as config_lib
from baselines.core import files
from baselines.core import text
from baselines.data import collections
from baselines.data import folds
from baselines.data import hardware
from baselines.data.layout import joint
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.tasks import lookup


def open_splits(settings: config_lib.AnyConfig) -> dict[str, splits.PackedSplit]:
    """Opens the splits of a training, and checks that they match.

    With --fold they are the splits of the fold.  Splits of several collections are
    joined, with a flag column for each collection.

    Args:
        settings: the training's settings.

    Returns:
        The splits by name.

    Raises:
        ValueError: a split is missing or damaged, or does not fit another one; two
            collections are one folder.
        OSError: the cache cannot be written.
    """
    parts = {
        collection.name: _open_collection(settings, collection)
        for collection in settings.collection.parts
    }
    stores, *others = parts.values()
    if not others:
        return stores
    _check_folders({name: stores['train'].source for name, stores in parts.items()})
    # Only layouts have several collections.
    layouts = cast(dict[str, dict[str, layout_store.LayoutStore]], parts)
    return {
        split: joint.JointStore({n: of[split] for n, of in layouts.items()}, [*parts])
        for split in collections.SPLITS
    }


def _check_folders(source_of: Mapping[str, str]) -> None:
    """Raises ValueError where two collections would be the same files."""
    for first, second in itertools.combinations(source_of, 2):
        if source_of[first] == source_of[second]:
            raise ValueError(
                f'--data_root must have a folder each for {first} and {second}, such '
                f'as xla/random and nlp/default, not {source_of[first]} for both'
            )


def _open_collection(
    settings: config_lib.AnyConfig, collection: collections.Collection
) -> dict[str, splits.PackedSplit]:
    """Opens the splits of one collection; see `open_splits`."""
    # A folder of `collect` may be too small to have validation and test splits.
    present: Sequence[str] = collections.SPLITS
    if not settings.sample_data and not settings.fold:
        present = hardware.list_splits(files.expand(settings.data_root), collection)
    open_split = lookup.TASKS[collection.task].store_class.open_collection
    stores = {split: open_split(collection, settings, split) for split in present}
    if len(stores) == 1:
        stores = _add_stand_ins(stores['train'])
    if settings.fold:
        stores = folds.make_fold(settings.fold, stores, settings.cache_dir)
    if settings.extra:
        stores = {split: store.with_extra() for split, store in stores.items()}
    train, test = stores['train'], stores['test']
    # Splits can be extracted with different options; a model reads one kind of
    # columns.
    variant = splits.Variant.from_store(train)
    for store in stores.values():
        variant.check(store, f'is in {train.source}')
    if not train.has_runtimes:
        raise ValueError(f'{train.source}: all runtimes are 0; nothing to learn')
    if len(present) > 1:
        _check_validation_runtimes(stores['valid'])
    if settings.test_mode == 'metrics' and not test.has_runtimes:
        raise ValueError(
            f'--test_mode=metrics: all runtimes in {test.source} are 0, as in the '
            'published test files; use --test_mode=predictions'
        )
    return stores


def _add_stand_ins(train: splits.PackedSplit) -> dict[str, splits.PackedSplit]:
    """Returns a training split, and copies without runtimes as `valid` and `test`.

    Without runtimes, no kernel of the training is validated on.  Prints a note.
    """
    text.note(
        f'{train.source}: there are no valid and no test: nothing is validated, and '
        f'training {train.noun}s are ranked; collect more programs'
    )
    manifest = {**train.manifest, 'has_runtimes': False}
    other = type(train)(train.source, manifest, train.arrays)
    return {**dict.fromkeys(collections.SPLITS, other), 'train': train}


def _check_validation_runtimes(store: splits.PackedSplit) -> None:
    """Prints that nothing can be validated; raises ValueError where only a part can."""
    if not store.has_runtimes:
        text.note(f'{store.source}: all runtimes are 0; there is no validation')
        return
    zeros = np.flatnonzero(np.asarray(store.config_runtime) == 0)
    if len(zeros):
        graph = np.searchsorted(store.config_offsets, zeros[0], 'right') - 1
        raise ValueError(
            f'{store.source}: {store.graph_ids[graph]} has a runtime of 0: leave it out'
        )
