"""Opens the splits that graphs to score come from."""

import dataclasses
import os
from typing import Any

from baselines import config as config_lib
from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.data import collections
from baselines.data import folds
from baselines.data.packed import splits
from baselines.runs import run_files
from baselines.tasks import lookup


@dataclasses.dataclass(frozen=True)
class SourceOptions:
    """Where graphs are, and how a run is made ready to score them.

    Attributes:
        data_root: folder of the data; '' for where the run was trained, if
            that is there, or else the default.
        cache_dir: where packed splits are kept; '' for the default.
        sample_data: use the measured data that ship instead of `data_root`.
        toy_data: only the first few files of each split; None: as the run, if
            neither `data_root` nor `sample_data` is given.
        skip_bad_files: leave damaged files out; None: as the run, likewise.
        memory_budget: megabytes that scoring programs may take.
        models_file: a models.py, or classes, next to ours.  The file that a run file
            names is never run: a run may come from someone else.
        task: of the latest run, or of the estimate; '' for any.
        collection: of the estimate; '' for the first one of `task`, or of all.  Of a
            run of several, the one to score.
        once: the process ends after scoring: compiling for a few small graphs would
            take longer than it saves.
    """

    data_root: str = ''
    cache_dir: str = ''
    sample_data: bool = False
    toy_data: bool | None = None
    skip_bad_files: bool | None = None
    memory_budget: int = config_lib.LayoutConfig.memory_budget
    models_file: registry.Own = ''
    task: str = ''
    collection: str = ''
    once: bool = False

    def __post_init__(self):
        config_lib.check_data(self.data_root, self.sample_data)


class Source:
    """The splits of a collection.

    Attributes:
        collection: the collection.
        task: of the collection.
        options: with the defaults of the task filled in.
        split: name of the one that was opened last; '' before.
    """

    def __init__(self, collection: collections.Collection, options: SourceOptions):
        self.collection, self.task = collection, lookup.of(collection)
        defaults = config_lib.CONFIGS[collection.task]
        default_root = '' if options.sample_data else defaults.data_root
        self.options = dataclasses.replace(
            options,
            data_root=options.data_root or default_root,
            cache_dir=options.cache_dir or defaults.cache_dir,
        )
        self.split = ''

    def open(self, split: str) -> splits.PackedSplit:
        """Opens a split, packing it on first use; see `Task.open_split`."""
        self.split = split
        return self._open(split)

    def _open(self, split: str) -> splits.PackedSplit:
        return self.task.open_split(self.collection, self.options, split)


class RunSource(Source):
    """The splits for a run: by default those that it was trained on.

    Raises:
        ValueError: the run is not of that collection, or of several and none is named.
    """

    def __init__(self, run: run_files.RunFile, options: SourceOptions):
        collection = collection_of(run, options.collection)
        super().__init__(collection, with_training_data(run, options))
        self._run = run
        self._is_own_data = (
            not options.data_root
            and not options.sample_data
            and bool(self.options.toy_data) == bool(run.args.get('toy_data'))
        )

    def open(self, split: str) -> splits.PackedSplit:
        """Opens a split.

        For a run of a --fold, train and valid are the splits of its fold: it was
        trained on a part of the published validation split.  Data that it was not
        trained on are taken as they are.
        """
        if not self.split:
            self._note_toy_data()
        fold = str(self._run.args.get('fold') or '')
        fingerprints = self._run.info.get('data_fingerprint')
        trained_on = fingerprints.get(split) if isinstance(fingerprints, dict) else ''
        if not fold or split == 'test':
            store = super().open(split)
            # Of several collections there are as many, with spaces in between.
            expected = str(trained_on or store.fingerprint).split()
            if self._is_own_data and store.fingerprint not in expected:
                text.note(
                    f'{store.source} is not as it was when {self._run.model_dir} '
                    'was trained'
                )
            return store
        self.split = split
        stores = {name: self._open(name) for name in ('train', 'valid')}
        if trained_on == folds.fingerprint(fold, stores, split):
            cache_dir = self.options.cache_dir
            return folds.with_fold(fold, stores, self.task.program_of, cache_dir)[split]
        text.note(
            f'{self._run.model_dir} is of fold {text.printable(fold)} of other '
            f'data; {stores[split].source} is taken whole'
        )
        return stores[split]

    def _note_toy_data(self) -> None:
        """Prints which part of the data is taken for a run of --toy_data."""
        part = 'whole splits are taken here'
        if self.options.toy_data:
            part = (
                f'the first {self.collection.toy_files} files of each split are taken '
                'here, too (--no-toy_data: all)'
            )
        if self._run.args.get('toy_data'):
            text.note(f'{self._run.model_dir} was trained with --toy_data; {part}')


def collection_of(run: run_files.RunFile, name: str) -> collections.Collection:
    """Returns the collection whose graphs a run is to score.

    Args:
        name: of the collection; '' for the run's, if it was trained on one alone.

    Raises:
        ValueError: the run is not of that collection, or of several and none is named.
    """
    parts = run.collection().parts
    chosen = [part for part in parts if name in ('', part.name)]
    if len(chosen) == 1:
        return chosen[0]
    names = ', '.join(part.name for part in parts)
    if name:
        raise ValueError(
            f'--collection={name} is for --dir estimate, or for runs that were trained '
            f'on it among others: {run.model_dir} is of {names}'
        )
    raise ValueError(
        f'{run.model_dir} was trained on {names}: choose one with --collection'
    )


def with_training_data(run: run_files.RunFile, options: SourceOptions) -> SourceOptions:
    """Returns options with the run's training data, unless they name other data."""
    if options.data_root or options.sample_data:
        return options
    args = run.args
    names = ('toy_data', 'skip_bad_files')
    unset = [name for name in names if getattr(options, name) is None]
    of_run: dict[str, Any] = {name: bool(args.get(name)) for name in unset}
    options = dataclasses.replace(options, **of_run)
    if args.get('sample_data'):
        return dataclasses.replace(options, sample_data=True)
    trained_on = args.get('data_root')
    if isinstance(trained_on, str) and os.path.isdir(files.expand(trained_on)):
        return dataclasses.replace(options, data_root=trained_on)
    return options


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )
