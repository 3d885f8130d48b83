"""A run that is read back and ready to score, and where the graphs come from.

predictor = Predictor(saved.Run.load('latest'))
for scores in predictor.score(predictor.open_split('test')):  # a graph's
    print(scores.argmin())
"""

import dataclasses
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Protocol, Tuple, cast

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines import text
from baselines.data import collections
from baselines.data import folds
from baselines.data import published
from baselines.data import variants
from baselines.data.layout import records as layout_records
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.data.tile import records as tile_records
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import reading
from baselines.runs import opening
from baselines.runs import saved
from baselines.runs import scorer as scorer_lib
from baselines.runs import tasks
from baselines.runs import trees as trees_lib
from baselines.runs import weights

# Of a graph in memory, by task.
RECORDS: Dict[str, Any] = {
    reading.TILE: tile_records.TileRecord,
    reading.LAYOUT: layout_records.LayoutRecord,
}

_Scaling = Tuple[normalizer_lib.Normalizer, int]  # and num_ops


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Where graphs come from; the settings of a training serve as well.

    Attributes:
        data_root: folder of the data; '' for where the run was trained, if
            that is there, or else the default.
        cache_dir: where packed splits are kept; '' for the default.
        sample_data: the measured data that ship, in place of `data_root`.
        toy_data: only the first few files of each split; None: as the run, if
            neither `data_root` nor `sample_data` is given.
        skip_bad_files: leave damaged files out; None: likewise.
        memory_budget: megabytes that scoring programs may take.
        runner: of Apache Beam, to score with; '' for this process.
        beam_options: its command-line options.
    """

    data_root: str = ''
    cache_dir: str = ''
    sample_data: bool = False
    toy_data: Optional[bool] = None
    skip_bad_files: Optional[bool] = None
    memory_budget: int = config_lib.LayoutConfig.memory_budget
    runner: str = ''
    beam_options: str = ''

    def resolved(self, run: saved.Run, defaults: Any) -> 'DataOptions':
        """Fills in what was left to the run, or to its config class, the defaults."""
        changes: Dict[str, Any] = {}
        trained_on = run.args.get('data_root')
        if not self.data_root and not self.sample_data:
            for name in ('toy_data', 'skip_bad_files'):
                if getattr(self, name) is None:
                    changes[name] = bool(run.args.get(name))
            if run.args.get('sample_data'):
                changes['sample_data'] = True
                if not run.info.get('measured_data'):
                    print(
                        f'note: {run.model_dir} was trained on samples of an earlier '
                        'version; ranked are those that ship now',
                        file=sys.stderr,
                    )
            elif isinstance(trained_on, str) and os.path.isdir(
                files.expand(trained_on)
            ):
                changes['data_root'] = trained_on
            else:
                changes['data_root'] = defaults.data_root
        if not self.cache_dir:
            changes['cache_dir'] = defaults.cache_dir
        return dataclasses.replace(self, **changes)


def collection_of(run: saved.Run) -> collections.Collection:
    """Returns what a run was trained on.

    Raises:
        ValueError: there is no such collection.
    """
    with text.located(saved.run_file(run.model_dir)):
        return collections.of_flags(run.args)


def stored_scaling(run: saved.Run) -> Optional[_Scaling]:
    """Returns the normaliser that a run holds, and num_ops; None if it does not.

    Raises:
        ValueError: they are not what they should be.
    """
    info = run.info
    if 'normalizer' not in info:
        return None
    num_ops = info.get('num_ops')
    if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
        raise ValueError(f'num_ops should be a number up to 65536, not {num_ops!r}')
    return normalizer_lib.Normalizer.from_json(info['normalizer']), num_ops


class Workers(Protocol):
    """Scores splits with other processes than this one."""

    def scores(
        self, predictor: 'Predictor', store: splits.PackedSplit
    ) -> List[np.ndarray]:
        """Returns float32 [configurations] of each graph of a split.

        Args:
            predictor: the run, and what it has opened last: `store`.
            store: the split.
        """


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )


class Predictor:
    """Scores graphs with a run.

    Attributes:
        run: the run.
        collection: what it was trained on.
        task: of the collection.
        options: where graphs come from.
        models_file: as below.
        variant: what the columns meant that it was trained on.
        normalizer: scales features as the run was trained on them.
        num_ops: it knows the opcodes below this number.
        model: the graph model; None where trees score alone.
        trees: None where the graph model scores alone.
        split: the one that was opened last.

    Args:
        run: the run.
        data: where graphs come from.
        models_file: a models.py, or classes, beside ours.  The one that the run file
            names is not run: the file may come from a stranger.
        workers: what scores whole splits in place of this process.
        once: whether the process ends when it has scored, so that a few small graphs
            are not worth compiling for.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """

    model: Optional[tf.keras.Model] = None
    trees: Optional[trees_lib.Trees] = None

    def __init__(
        self,
        run: saved.Run,
        data: DataOptions = DataOptions(),
        models_file: registry.Own = '',
        workers: Optional[Workers] = None,
        once: bool = False,
    ):
        self.run = run
        self.collection = collection_of(run)
        self.task = tasks.of(self.collection)
        self.options = data.resolved(run, self.task.config_class)
        self.models_file = models_file
        self.split = ''
        self._is_own_data = (
            not data.data_root
            and not data.sample_data
            and bool(self.options.toy_data) == bool(run.args.get('toy_data'))
        )
        self._workers = workers
        _note_what_is_missing(run, models_file)
        with text.located(saved.run_file(run.model_dir)):
            self.variant = variants.Variant.from_json(
                run.info, self.collection.config_columns
            )
            stored = stored_scaling(run)
        self.normalizer, self.num_ops = stored or self._fitted_scaling()
        if run.has_trees:
            trees_lib.check_installed(run.model_dir)
            self.trees = run.read_trees()
        model_scorer = None
        if run.has_model:
            self.model = self._read_model()
            budget = self.options.memory_budget
            model_scorer = self.task.model_scorer(self.model, budget, once)
        self.scorer = scorer_lib.Scorer(self.task, model_scorer, self.trees)

    @property
    def _configs(self) -> int:
        """Configurations of a graph in each step of the training."""
        return int(self.run.args.get('configs', self.task.config_class.configs))

    def _read_model(self) -> tf.keras.Model:
        """Makes the graph model and reads its weights."""
        args, model_dir = self.run.args, self.run.model_dir
        kwargs = config_lib.model_kwargs(args.get('model_kwargs_json') or '{}')
        with weights.limited(model_dir, kwargs):
            model = self.task.make_model(
                args['model'],
                kwargs,
                self.models_file,
                self._configs,
                self.num_ops,
                self.normalizer,
            )
        self.run.read_weights(model)
        return model

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split of the data to predict.

        For a run of a --fold, train and valid are those of its fold: of the
        published validation split it was trained on a part.  Other data than it
        was trained on is taken as it is.
        """
        if not self.split:
            self._note_toy_data()
        self.split = split
        fold = self.run.args.get('fold')
        known = self.run.info.get('data_fingerprint')
        known = known if isinstance(known, dict) else {}
        if not fold or split == 'test':
            store = opening.open_split(self.collection, self.options, split)
            if self._is_own_data and known.get(split, '') not in (
                '',
                store.fingerprint,
            ):
                print(
                    f'note: {store.source} is not as it was when {self.run.model_dir} '
                    'was trained',
                    file=sys.stderr,
                )
            return store
        stores = {
            name: opening.open_split(self.collection, self.options, name)
            for name in ('train', 'valid')
        }
        if known.get(split) == folds.fingerprint(str(fold), stores, split):
            return folds.with_fold(str(fold), stores, self.task.program_of)[split]
        print(
            f'note: {self.run.model_dir} is of fold '
            f'{text.printable(str(fold))} of other data; {stores[split].source} '
            'is taken whole',
            file=sys.stderr,
        )
        return stores[split]

    def _note_toy_data(self) -> None:
        """Says which part of the data is taken, of a run of a part."""
        if not self.run.args.get('toy_data'):
            return
        part = 'whole splits are taken here'
        if self.options.toy_data:
            files_taken = f'the first {self.collection.toy_files} files of each split'
            part = f'{files_taken} are taken here, too (--no-toy_data: all)'
        print(
            f'note: {self.run.model_dir} was trained with --toy_data; {part}',
            file=sys.stderr,
        )

    def describe(self, store: splits.PackedSplit) -> Dict[str, Any]:
        """What a summary says of the run, and of the data: the split opened last."""
        return {
            'model': self.run.args['model'],
            'collection': self.collection.name,
            'fold': self.run.args.get('fold', ''),
            'split': self.split,
            'protocol': report.ALL,
            'data': store.source,
        }

    def measure(
        self, split: str, protocol: str = ''
    ) -> Tuple[Dict[str, Any], List[report.GraphResult]]:
        """Measures the run on a split whose runtimes are known.

        Args:
            split: 'train', 'valid' or 'test'.
            protocol: of `report.PROTOCOLS`; '': published where the graphs are those
                of the published validation split of layouts, else all.

        Returns:
            What `report` makes of it, with `model`, `collection`, `fold`, `split`,
            `protocol` and `data` added; and each graph with its scores and runtimes.

        Raises:
            ValueError: the data are unusable, no runtime is known, or a graph is none
                of those of the published protocol.
        """
        store = self.open_split(split)
        check_runtimes(store)
        described = self.describe(store)
        lists = self._published_lists(store, protocol)
        if lists:
            store = cast(layout_store.LayoutStore, store).with_configurations(lists)
            described['protocol'] = report.PUBLISHED
        results = self.task.results(store, self.score(store))
        if lists:  # what is listed twice was not measured twice
            results = [result._replace(configurations=None) for result in results]
        summary = report.summarise(self.collection.task, results)
        return {**described, **summary}, results

    def _published_lists(
        self, store: splits.PackedSplit, protocol: str
    ) -> List[np.ndarray]:
        """Returns numbers of configurations of each graph; none for all of them."""
        lists = published.validation_lists(self.collection.name)
        in_full = self.split == 'valid' and {*store.graph_ids} == {*lists}
        if protocol == report.ALL or not (protocol or in_full and not self._workers):
            return []
        if self._workers:
            raise ValueError(
                '--protocol=published scores little, and that here: leave --runner out'
            )
        for graph_id, count in zip(store.graph_ids, store.config_counts):
            if graph_id not in lists:
                raise ValueError(
                    f'--protocol=published: there is no list for {graph_id}; there are '
                    'lists for the published validation graphs of layouts'
                )
            if lists[graph_id].max() >= count:
                raise ValueError(
                    f'--protocol=published: {graph_id} has {count:,} configurations, '
                    f'and its list has number {lists[graph_id].max():,}: these are '
                    'not the published files; measure with --protocol=all'
                )
        return [lists[graph_id] for graph_id in store.graph_ids]

    def write(
        self, path: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> None:
        """Writes the ranking of a split as CSV, and says so; raises OSError."""
        path = files.expand(path)
        rows = tasks.rows(self.collection, store, scored)
        submission.write_predictions(path, rows)
        print(f'{path}: {len(rows)} rows')

    def score(self, store: splits.PackedSplit) -> Iterator[np.ndarray]:
        """Yields the scores of each graph's configurations; lower is faster.

        Raises:
            ValueError: the data is of another kind than the training data.
        """
        self.check(store)
        if self._workers is not None:
            yield from self._workers.scores(self, store)
            return
        scored = self.scorer.scores(self.graphs(store))
        title = f'ranking {os.path.basename(store.source)}'
        with tasks.verifying(store):
            yield from tasks.with_bar(scored, store.num_graphs, title, self.task.unit)

    def graphs(self, store: splits.PackedSplit) -> Any:
        """Returns the graphs of a split with features scaled as in the training."""
        return self.task.graphs(store, self.normalizer)

    def check(self, store: splits.PackedSplit) -> None:
        """Raises ValueError unless the model can score the graphs of a split."""
        self.variant.check(store, 'the model was trained on')
        graph = int(np.argmax(store.max_opcode))
        opcode = store.max_opcode[graph]
        if opcode >= self.num_ops:
            raise ValueError(
                f'{store.source}: {store.graph_ids[graph]} has opcode {opcode}, but '
                f'the model knows those below {self.num_ops}; train a model on data '
                'that has it'
            )

    def score_record(self, record: Any) -> np.ndarray:
        """Scores a graph that is in memory.

        Args:
            record: a `TileRecord` or `LayoutRecord`, whichever the run is of.

        Returns:
            float32 [configurations]; lower is faster.

        Raises:
            ValueError: it is of another kind than the training data, or one of its
                arrays is not what it should be.
        """
        wanted = RECORDS[self.collection.task]
        if not isinstance(record, wanted):
            raise ValueError(
                f'the run ranks {wanted.__name__}s, not {type(record).__name__}'
            )
        record = record.checked()
        kind = opening.STORES[self.collection.task]
        return next(self.score(kind.of_records(record.graph_id, [record])))

    def _fitted_scaling(self) -> _Scaling:
        # Made by the published code, which keeps neither: it fits them to the
        # training data each time, and so do we.
        print(
            'note: this run does not hold its normaliser; fitting it to '
            f'{self.options.data_root or "the measured data"}',
            file=sys.stderr,
        )
        stores = [self.open_split(s) for s in ('train', 'valid', 'test')]
        self.variant.check(stores[0], 'the model was trained on')
        train = (stores[0], stores[0].with_at_least(self._configs))
        return (
            normalizer_lib.Normalizer.fit(*train),
            normalizer_lib.num_ops(train, stores[1], stores[2]),
        )


def _note_what_is_missing(run: saved.Run, models_file: registry.Own) -> None:
    """Says what a run was trained with that is not used here."""
    if run.has_trees_of_programs:
        print(
            f'note: {run.model_dir}: its trees are of its training programs alone and '
            'no longer used; its graph model scores',
            file=sys.stderr,
        )
    if run.args.get('models_file') and not models_file:
        print(
            f'note: {run.model_dir} was trained with --models_file='
            f'{text.printable(str(run.args["models_file"]))}; pass it '
            'here too if it is not ours',
            file=sys.stderr,
        )
