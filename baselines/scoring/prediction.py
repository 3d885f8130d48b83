"""Ranks graphs with a run, or with the untrained estimate.

predictor = load('latest', Options())
for scores in predictor.score(predictor.open_split('test')):  # of a graph
    print(scores.argmin())
write_predictions(['latest'], Options(), 'test.csv')
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines import config as config_lib
from baselines.core import files
from baselines.core import phases
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import collections
from baselines.data import graph_files
from baselines.data.packed import splits
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import code_files
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import weights
from baselines.scoring import scorer as scorer_lib
from baselines.tasks import lookup

if TYPE_CHECKING:
    import tensorflow as tf

_Opened = dict[tuple, splits.PackedSplit]


@dataclasses.dataclass(frozen=True)
class Options:
    """Where graphs are, and how a run is made ready to score them.

    Attributes:
        data_root: folder of the data; '' for where the run was trained, if
            that is there, or else the default.
        cache_dir: folder of packed splits; '' for the default.
        sample_data: use the measured data that ship instead of `data_root`.
        toy_data: only the first few files of each split; None: as the run, if
            neither `data_root` nor `sample_data` is given.
        skip_bad_files: leave damaged files out; None: as the run, likewise.
        memory_budget: megabytes that scoring programs may take.
        models_file: a models.py, or classes, next to ours.  The file that a run file
            names is never run: a run may come from someone else.
        task: task of the latest run, or of the estimate; '' for any.
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
        settings_lib.check_data(self.data_root, self.sample_data)
        if self.models_file and isinstance(self.models_file, str):
            registry.check_code_file(self.models_file)


class Predictor:
    """Opens the splits of a collection, scores them with a run, and ranks them.

    Attributes:
        run: the run; None for the estimate.
        name: the run's model directory; else 'estimate', or a file of scores.
        model_name: name of the run's model, or the last part of `name`.
        collection: the graphs that it is for.
        task: the collection's task.
        options: places of graphs, with the defaults of the task and of the run.
        split: name of the split that was opened last; '' before.

    Args:
        run: None for the estimate.
        name: name of the source of scores, without a run.
        opened: whole splits that are open, which the predictors of a command share;
            None to open them each time, as their files may change.
    """

    def __init__(
        self,
        collection: collections.Collection,
        options: Options,
        run: run_files.RunFile | None = None,
        name: str = finding.ESTIMATE,
        opened: _Opened | None = None,
    ):
        self.run, self.collection, self.split = run, collection, ''
        self.name = run.model_dir if run else name
        self.model_name = run.args['model'] if run else os.path.basename(name)
        self.task = lookup.TASKS[collection.task]
        self.options = resolve(options, collection, run)
        toy_data = bool(self.options.toy_data)
        self._is_own_data = (
            run is not None
            and not (options.data_root or options.sample_data)
            and toy_data == bool(run.args.get('toy_data'))
        )
        self._opened = opened

    @functools.cached_property
    def scorer(self) -> scorer_lib.Scorer:
        """What scores graphs; the models of the run are read on first use.

        Raises:
            ValueError: the run is incomplete or does not fit the model's code.
        """
        run, columns = self.run, self.collection.config_columns
        if run is None:
            return scorer_lib.Scorer(self.task, splits.Variant(config_features=columns))
        with text.locate_errors(run.file):
            variant = splits.Variant.from_json(run.info, columns)
            scaling = normalizer_lib.Scaling.from_json(run.info)
        scaling = scaling or self._fit_scaling(run, variant)
        # Trees alone need no TensorFlow.
        trees = graph_model = keras_model = None
        if run.has_trees:
            from baselines.trees import booster

            trees = booster.Trees.read(run.trees_file)
            run.check_digest('trees', trees.digest())
        if run.has_model:
            keras_model = self._read_model(run, scaling)
            options = self.options
            graph_model = self.task.scorer(
                keras_model, options.memory_budget, options.once
            )
        # A run of several collections reads a flag column for each of them.
        names = [part.name for part in run.collection.parts]
        flag = scorer_lib.Flag(self.collection.name, names) if len(names) > 1 else None
        return scorer_lib.Scorer(
            self.task,
            variant,
            graph_model,
            trees,
            run.member_weights,
            run.most_multiply_adds,
            scaling,
            keras_model,
            adds_to_formula=bool(run.args.get('estimate')),
            flag=flag,
        )

    def _read_model(
        self, run: run_files.RunFile, scaling: normalizer_lib.Scaling
    ) -> 'tf.keras.Model':
        """Makes the graph model of a run and reads its weights; raises ValueError."""
        own, args = self.options.models_file, run.args
        code_files.note_difference(run, own)
        kwargs = settings_lib.parse_model_kwargs(args.get('model_kwargs_json') or '{}')
        # A run file may come from someone else: its options could ask for a huge model.
        most = weights.compute_size_limit(run.model_dir, kwargs)
        model_class = registry.find_model_class(args['model'], run.task, own)
        arguments = kwargs, run.configs, scaling.num_ops, scaling.normalizer
        with registry.limit_size(most):
            model = scorer_lib.make_model(self.task, model_class, *arguments)
        weights.read_weights(run, model)
        return model

    def read(self) -> 'Predictor':
        """Reads the models of the run now, not on first use; see `scorer`."""
        _ = self.scorer
        return self

    def _fit_scaling(
        self, run: run_files.RunFile, variant: splits.Variant
    ) -> normalizer_lib.Scaling:
        """Fits the scaling to the training data again, as the published code does."""
        train = self.open_split('train')
        text.note(
            f'this run does not hold its normaliser; fitting it to {train.source}'
        )
        others = map(self.open_split, ('valid', 'test'))
        train = variant.check(train, 'the model was trained on')
        chosen = np.flatnonzero(train.config_counts >= run.configs)
        opcodes = [train.max_opcode[chosen], *(store.max_opcode for store in others)]
        normalizer = normalizer_lib.Normalizer.fit(train, chosen)
        return normalizer_lib.Scaling(normalizer, normalizer_lib.count_ops(*opcodes))

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split, packing it on first use; see `Task.open_split`.

        For a run of a --fold, train and valid are the splits of its fold: it was
        trained on a part of the published validation split.  Data that it was not
        trained on are taken as they are.
        """
        run, is_first, self.split = self.run, not self.split, split
        if run is None:
            return self._open_whole(split)
        if is_first and run.args.get('toy_data'):
            self._note_toy_data(run)
        fold = str(run.args.get('fold') or '')
        fingerprints = run.info.get('data_fingerprint')
        trained_on = fingerprints.get(split) if isinstance(fingerprints, dict) else ''
        if not fold or split == 'test':
            store = self._open_whole(split)
            # Of several collections there are as many, with spaces in between.
            expected = str(trained_on or store.fingerprint).split()
            if self._is_own_data and store.fingerprint not in expected:
                text.note(
                    f'{store.source} is not as it was when {run.model_dir} was trained'
                )
            return store
        from baselines.data import folds

        stores = {name: self._open_whole(name) for name in ('train', 'valid')}
        if trained_on == folds.hash_fold(fold, stores, split):
            cache_dir = self.options.cache_dir
            return folds.make_fold(fold, stores, cache_dir)[split]
        text.note(
            f'{run.model_dir} is of fold {text.printable(fold)} of other '
            f'data; {stores[split].source} is taken whole'
        )
        return stores[split]

    def _open_whole(self, split: str) -> splits.PackedSplit:
        """Opens a whole split, or takes it from those that predictors share."""
        options, open_split = self.options, self.task.store_class.open_collection
        # Classes cannot be a part of a key, and models do not change the data.
        key = split, *dataclasses.astuple(dataclasses.replace(options, models_file=''))
        opened = {} if self._opened is None else self._opened
        if key not in opened:
            opened[key] = open_split(self.collection, options, split)
        return opened[key]

    def _note_toy_data(self, run: run_files.RunFile) -> None:
        """Prints which part of the data is taken for a run of --toy_data."""
        part = 'whole splits are taken here'
        if self.options.toy_data:
            part = (
                f'the first {self.collection.toy_files} files of each split are taken '
                'here, too (--no-toy_data: all)'
            )
        text.note(f'{run.model_dir} was trained with --toy_data; {part}')

    def score(
        self, store: splits.PackedSplit, scored: Iterable[np.ndarray] | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the scores of each graph's configurations; lower is faster.

        Prints a note if no score depends on the configuration.

        Args:
            scored: the scores, where other processes make them; None to score here.

        Raises:
            ValueError: the graphs cannot be scored; says why.
        """
        self._note_unknown_opcodes(store)
        if scored is None:
            scored = map(self.scorer.mean, self.score_members(store))
        return scorer_lib.note_ties(self.name, store, scored)

    def _note_unknown_opcodes(self, store: splits.PackedSplit) -> None:
        """Prints how many graphs have opcodes that the graph model does not know."""
        num_ops = self.scorer.num_ops
        count = int((store.max_opcode >= num_ops).sum())
        if self.scorer.graph_model and count:
            text.note(
                f'{store.source}: opcodes of {num_ops} or more, in {count:,} of '
                f'{text.count(len(store), store.noun)}, are new to '
                f'{self.name}; it takes them for the unknown opcode'
            )

    def score_members(
        self, store: splits.PackedSplit
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the members' scores of each graph, whose mean `score` yields."""
        # Refuses other columns than those of the training, adds those of --extra.
        store = self.scorer.check(store)
        title = f'ranking {os.path.basename(store.source)}'
        scored = self.scorer.members(store, self.scorer.graphs(store))
        yield from phases.each(scored, title, len(store), store.noun)

    def score_record(self, record: graph_files.GraphRecord) -> np.ndarray:
        """Scores a graph that is in memory.

        Args:
            record: a `TileRecord` or `LayoutRecord`, whichever the run is of.

        Returns:
            float32 [configurations]; lower is faster.

        Raises:
            ValueError: it cannot be scored, or one of its arrays is of a wrong
                type or shape.
        """
        return self.scorer.mean(self.score_record_members(record))

    def score_record_members(
        self, record: graph_files.GraphRecord
    ) -> tuple[np.ndarray, ...]:
        """Returns the members' scores of a graph in memory; see `score_record`."""
        store_class = self.task.store_class
        if not isinstance(record, store_class.record_class):
            wanted, given = store_class.record_class.__name__, type(record).__name__
            raise ValueError(f'the run ranks {wanted}s, not {given}')
        store = store_class.from_records(str(record.graph_id), [record.checked()])
        return next(self.score_members(store))

    def write(
        self, path: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> None:
        """Writes the ranking of a split as CSV, and prints its path; raises OSError."""
        path, scored = files.expand(path), list(scored)
        rows = submission.make_rows(self.collection.name, store.graph_ids, scored)
        submission.write_predictions(path, rows)
        print(f'{text.printable(path)}: {text.count(len(rows), "row")}')


def resolve(
    options: Options, collection: collections.Collection, run: run_files.RunFile | None
) -> Options:
    """Returns options with the run's training data, unless they name other data.

    What neither says is the default of the task.
    """
    changes: dict[str, Any] = {}
    if run is not None and not (options.data_root or options.sample_data):
        for name in ('toy_data', 'skip_bad_files'):
            if getattr(options, name) is None:
                changes[name] = bool(run.args.get(name))
        trained_on = run.args.get('data_root')
        if run.args.get('sample_data'):
            changes['sample_data'] = True
        elif isinstance(trained_on, str) and os.path.isdir(files.expand(trained_on)):
            changes['data_root'] = trained_on
    options = dataclasses.replace(options, **changes)
    defaults = config_lib.CONFIGS[collection.task]
    default_root = '' if options.sample_data else defaults.data_root
    return dataclasses.replace(
        options,
        data_root=options.data_root or default_root,
        cache_dir=options.cache_dir or defaults.cache_dir,
        collection=collection.name,
    )


def load(name: str, options: Options = Options()) -> Predictor:
    """Makes a run, or the estimate, ready to score.

    Args:
        name: the run, as `finding.find` takes it; or 'estimate'.
        options: places of graphs, a models.py, and the task of 'latest'.

    Raises:
        ValueError: a run is incomplete or does not fit the model's code; there is no
            such collection, or the run is of others; it is of several, and none is
            named.
    """
    if name != finding.ESTIMATE:
        run = finding.load(name, options.task)
        part = run.collection.select_part(options.collection, run.model_dir)
        return Predictor(part, options, run).read()
    return _make_estimate(options, {})


def _make_estimate(options: Options, opened: _Opened) -> Predictor:
    """Makes the predictor of the untrained estimate."""
    of_task = [c.name for c in collections.COLLECTIONS if options.task in ('', c.task)]
    collection = collections.find_collection(options.collection or of_task[0])
    return Predictor(collection, options, opened=opened)


def find_all(names: Sequence[str], options: Options) -> dict[str, Predictor]:
    """Finds runs, and the estimate, which are then to open splits and to be read.

    A run of several collections has a predictor for each, unless one is named.

    Returns:
        By name of the predictor, the model directory, with the collection if there are
        several; the estimate comes last.

    Raises:
        ValueError: as `load`, but no model is read yet.
    """
    trained = [name for name in names if name != finding.ESTIMATE]
    has_estimate = len(trained) < len(names)
    predictors: dict[str, Predictor] = {}
    opened: _Opened = {}
    for model_dir, run in finding.load_all(trained, options.task).items():
        parts = run.collection.parts
        if has_estimate and len(parts) == 1:  # --collection is of the estimate
            parts = [run.collection.select_part('', run.model_dir)]
        elif options.collection or len(parts) == 1:
            parts = [run.collection.select_part(options.collection, run.model_dir)]
        for part in parts:
            name = model_dir if len(parts) == 1 else f'{model_dir} {part.name}'
            predictors[name] = Predictor(part, options, run, opened=opened)
    if has_estimate:
        predictors[finding.ESTIMATE] = _make_estimate(options, opened)
    return predictors


def write_predictions(
    names: Sequence[str],
    options: Options,
    output: str,
    split: str = 'test',
    score: Callable[..., Iterable[np.ndarray]] | None = None,
) -> list[str]:
    """Ranks a split with each run and writes a CSV for each; returns their paths.

    Args:
        options: places of graphs, a models.py, and the task of 'latest'.
        output: the CSV; with several runs `_<hash>`, or `_estimate`, goes into its
            name, and of a run of several collections `_<source>_<search>`.
        score: a function of a predictor and a split, which it has opened, that yields
            the scores of each graph; None to score in this process.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    start, ending = os.path.splitext(files.expand(output))
    predictors = find_all(names, options)
    several = len({predictor.name for predictor in predictors.values()}) > 1
    paths = {}
    for name, predictor in predictors.items():
        stem = start
        if several:
            stem += f'_{predictor.run.hash if predictor.run else predictor.name}'
        if name != predictor.name:
            stem = '_'.join([stem, *predictor.collection.flags.values()])
        paths[name] = stem + ending
        files.check_file_writable(paths[name], 'output', [submission.HEADER])
    # All splits before a model is read, which imports TensorFlow.
    stores = {name: p.open_split(split) for name, p in predictors.items()}
    for predictor in predictors.values():
        predictor.read()
    for name, predictor in predictors.items():
        store = stores[name]
        scored = score and score(predictor, store)
        predictor.write(paths[name], store, predictor.score(store, scored))
    return list(paths.values())
