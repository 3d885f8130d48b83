"""What the predictions of both collections share: where data comes from, and
a run that is read back and ready to score."""

import dataclasses
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines import text
from baselines.data import collections
from baselines.data import folds
from baselines.data import variants
from baselines.data.layout import records as layout_records
from baselines.data.packed import splits
from baselines.data.tile import records as tile_records
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import reading
from baselines.runs import opening
from baselines.runs import saved
from baselines.runs import spread
from baselines.runs import tasks
from baselines.runs import trees as trees_lib
from baselines.runs import weights

# Of a graph in memory, by task.
RECORDS = {
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
        toy_data: only the first few files of each split.
        skip_bad_files: leave damaged files out.
        memory_budget: megabytes that scoring programs may take.
        runner: of Apache Beam, to score with; '' for this process.
        beam_options: its command-line options.
    """

    data_root: str = ''
    cache_dir: str = ''
    sample_data: bool = False
    toy_data: bool = False
    skip_bad_files: bool = False
    memory_budget: int = config_lib.LayoutConfig.memory_budget
    runner: str = ''
    beam_options: str = ''

    def resolved(self, run: saved.Run, defaults: Any) -> 'DataOptions':
        """Fills in what was left to the run, or to its config class, the defaults."""
        changes: Dict[str, Any] = {}
        trained_on = run.args.get('data_root')
        if not self.data_root and not self.sample_data:
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


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )


class Predictor(tasks.Task):
    """A run, ready to score.

    Attributes:
        variant: what the columns meant that it was trained on.
        num_ops: it knows the opcodes below this number.
        split: the one that was opened last.

    Args:
        run: the run; also an attribute.
        data: where graphs come from.
        models_file: likewise; a models.py, or classes, beside ours.  The one that
            the run file names is not run: the file may come from a stranger.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """

    def __init__(self, run: saved.Run, data: DataOptions, models_file: registry.Own):
        args = run.args
        if args.get('models_file') and not models_file:
            print(
                f'note: {run.model_dir} was trained with --models_file='
                f'{text.printable(str(args["models_file"]))}; pass it '
                'here too if it is not ours',
                file=sys.stderr,
            )
        self.run = run
        self.collection = collection_of(run)
        self.options = data.resolved(run, self.config_class)
        self.models_file = models_file
        self.split = ''
        self._configs = args.get('configs', self.config_class.configs)
        with text.located(saved.run_file(run.model_dir)):
            self.variant = variants.Variant.from_json(
                run.info, self.collection.config_columns
            )
            stored = stored_scaling(run)
        self.normalizer, self.num_ops = stored or self._fitted_scaling()
        kwargs = config_lib.model_kwargs(args.get('model_kwargs_json') or '{}')
        if saved.has_trees(run):
            trees_lib.check_installed(run.model_dir)
            self.trees = saved.read_trees(run)
        if not saved.has_model(run):
            return
        with weights.limited(run.model_dir, kwargs):
            self.model = self.make_model(
                args['model'],
                kwargs,
                models_file,
                self._configs,
                self.num_ops,
                self.normalizer,
            )
        saved.read_weights(run, self.model)

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split of the data to predict.

        For a run of a --fold, train and valid are those of its fold: of the
        published validation split it was trained on a part.  Other data than it
        was trained on is taken as it is.
        """
        self.split = split
        fold = self.run.args.get('fold')
        if not fold or split == 'test':
            return self.open_whole(split)
        stores = {name: self.open_whole(name) for name in ('train', 'valid')}
        known = self.run.info.get('data_fingerprint')
        if isinstance(known, dict) and known.get(split) == folds.fingerprint(
            str(fold), stores, split
        ):
            return folds.with_fold(str(fold), stores, self.program_of)[split]
        print(
            f'note: {self.run.model_dir} is of fold '
            f'{text.printable(str(fold))} of other data; {stores[split].source} '
            'is taken whole',
            file=sys.stderr,
        )
        return stores[split]

    def describe(self, store: splits.PackedSplit) -> Dict[str, Any]:
        """What a summary says of the run, and of the data: the split opened last."""
        return {
            'model': self.run.args['model'],
            'collection': self.collection.name,
            'fold': self.run.args.get('fold', ''),
            'split': self.split,
            'data': store.source,
        }

    def measure(self, split: str) -> Tuple[Dict[str, Any], List[report.GraphResult]]:
        """Measures the run on a split whose runtimes are known.

        Returns:
            What `report` makes of it, with `model`, `collection`, `fold`, `split` and
            `data` added; and each graph with its scores and runtimes.

        Raises:
            ValueError: the data are unusable, or no runtime is known.
        """
        store = self.open_split(split)
        check_runtimes(store)
        results = self.results(store, self.score(store))
        summary = report.summarise(self.collection.task, results)
        return {**self.describe(store), **summary}, results

    def write(
        self, path: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> None:
        """Writes the ranking of a split as CSV, and says so; raises OSError."""
        path, rows = files.expand(path), self.rows(store, scored)
        submission.write_predictions(path, rows)
        print(f'{path}: {len(rows)} rows')

    def score(self, store: splits.PackedSplit) -> Iterator[np.ndarray]:
        """Yields the scores of each graph's configurations; lower is faster.

        Raises:
            ValueError: the data is of another kind than the training data.
        """
        self.check(store)
        if getattr(self.options, 'runner', ''):
            yield from spread.scores(self, store)
            return
        scored = self.scores(self.scaled(store))
        title = f'ranking {os.path.basename(store.source)}'
        with self.checked(store):
            yield from tasks.with_bar(scored, store.num_graphs, title, self.unit)

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
            normalizer_lib.num_ops(train, *stores[1:]),
        )
