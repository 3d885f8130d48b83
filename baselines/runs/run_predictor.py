"""A run that is read back and ready to score.

predictor = RunPredictor(finding.load('latest'))
"""

import dataclasses
import os
from typing import Any, Dict, Iterator, NamedTuple, Optional

import numpy as np

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines import starting
from baselines import text
from baselines.data import folds
from baselines.data import stores as stores_lib
from baselines.data import variants
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.runs import prediction
from baselines.runs import run_files
from baselines.runs import trees as trees_lib


class Scaling(NamedTuple):
    """The scaling of features, and the opcodes that a model reads: below `num_ops`."""

    normalizer: normalizer_lib.Normalizer
    num_ops: int


def stored_scaling(run: run_files.Run) -> Optional[Scaling]:
    """Returns the scaling of features that a run file holds, or None.

    Raises:
        ValueError: it is damaged.
    """
    info = run.info
    if 'normalizer' not in info:
        return None
    num_ops = info.get('num_ops')
    if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
        raise ValueError(f'num_ops should be a number up to 65536, not {num_ops!r}')
    normalizer = normalizer_lib.Normalizer.from_json(info['normalizer'])
    return Scaling(normalizer, num_ops)


def with_training_data(
    run: run_files.Run, options: prediction.Options
) -> prediction.Options:
    """Returns options with the run's training data, unless they name other data."""
    if options.data_root or options.sample_data:
        return options
    args = run.args
    names = ('toy_data', 'skip_bad_files')
    unset = [name for name in names if getattr(options, name) is None]
    of_run: Dict[str, Any] = {name: bool(args.get(name)) for name in unset}
    options = dataclasses.replace(options, **of_run)
    if args.get('sample_data'):
        if not run.info.get('measured_data'):
            text.note(
                f'{run.model_dir} was trained on samples of an earlier '
                'version; ranked are those that ship now'
            )
        return dataclasses.replace(options, sample_data=True)
    trained_on = args.get('data_root')
    if isinstance(trained_on, str) and os.path.isdir(files.expand(trained_on)):
        return dataclasses.replace(options, data_root=trained_on)
    return options


class RunPredictor(prediction.Predictor):
    """Scores graphs with a run.

    Attributes:
        model: the graph model; None where trees score alone.
        trees: None where the graph model scores alone.
        scorer: scores graphs of a checked split with both.
        normalizer: scales features as the run was trained on them.

    Args:
        run: the run.
        options: the place of graphs, and a models.py.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """

    run: run_files.Run
    model: Optional[Any] = None
    trees: Optional[trees_lib.Trees] = None

    def __init__(
        self, run: run_files.Run, options: prediction.Options = prediction.Options()
    ):
        filled = with_training_data(run, options)
        super().__init__(run.model_dir, run.args['model'], run.collection(), filled)
        self.run = run
        self._is_own_data = (
            not options.data_root
            and not options.sample_data
            and bool(filled.toy_data) == bool(run.args.get('toy_data'))
        )
        _note_unused(run, options.models_file)
        with text.located(run.file):
            self.variant = variants.Variant.from_json(
                run.info, self.collection.config_columns
            )
            stored = stored_scaling(run)
        self.normalizer, self.num_ops = stored or self._fitted_scaling()
        if run.has_trees:
            trees_lib.check_installed(run.model_dir)
            self.trees = trees_lib.Trees.read(run.model_dir)
            run.check_digest('trees', self.trees.digest())
        model_scorer = None
        if run.has_model:
            self.model = self._read_model()
            budget, once = self.options.memory_budget, self.options.once
            model_scorer = self.task.model_scorer(self.model, budget, once)
        self.scorer = prediction.Scorer(self.task, model_scorer, self.trees)

    @property
    def _configs(self) -> int:
        """Number of configurations of a graph in each step of the training."""
        defaults = config_lib.CONFIGS[self.collection.task]
        return int(self.run.args.get('configs', defaults.configs))

    def _read_model(self) -> Any:
        """Makes the graph model and reads its weights."""
        starting.start_tensorflow()
        from baselines.runs import weights

        args, model_dir = self.run.args, self.run.model_dir
        kwargs = config_lib.model_kwargs(args.get('model_kwargs_json') or '{}')
        with weights.limited(model_dir, kwargs):
            model = self.task.make_model(
                args['model'],
                kwargs,
                self.options.models_file,
                self._configs,
                self.num_ops,
                self.normalizer,
            )
        weights.read(self.run, model)
        return model

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split of the data to predict.

        For a run of a --fold, train and valid are the splits of its fold: it was
        trained on a part of the published validation split.  Data that it was not
        trained on are taken as they are.
        """
        if not self.split:
            self._note_toy_data()
        self.split = split
        fold = str(self.run.args.get('fold') or '')
        fingerprints = self.run.info.get('data_fingerprint')
        trained_on = fingerprints.get(split) if isinstance(fingerprints, dict) else ''
        if not fold or split == 'test':
            store = super().open_split(split)
            if self._is_own_data and trained_on not in ('', None, store.fingerprint):
                text.note(
                    f'{store.source} is not as it was when {self.run.model_dir} '
                    'was trained'
                )
            return store
        stores = {
            name: stores_lib.open_split(self.collection, self.options, name)
            for name in ('train', 'valid')
        }
        if trained_on == folds.fingerprint(fold, stores, split):
            cache_dir = self.options.cache_dir
            return folds.with_fold(fold, stores, self.task.program_of, cache_dir)[split]
        text.note(
            f'{self.run.model_dir} is of fold {text.printable(fold)} of other '
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
        if self.run.args.get('toy_data'):
            text.note(f'{self.run.model_dir} was trained with --toy_data; {part}')

    def graphs(self, store: splits.PackedSplit) -> Any:
        """Returns the graphs of a split with features scaled as in the training.

        Opcodes that the graph model has no row for become the unknown one.  None
        where trees score alone: they look at the split itself.
        """
        if not self.run.has_model:
            return None
        store = store.with_opcodes_below(self.num_ops)
        return self.task.graphs(store, self.normalizer, False)

    def check(self, store: splits.PackedSplit) -> None:
        """Raises ValueError unless columns mean what they did in the training."""
        self.variant.check(store, 'the model was trained on')

    def score(self, store: splits.PackedSplit) -> Iterator[np.ndarray]:
        """Yields the scores of each graph; workers score, if there are any."""
        self._note_unknown_opcodes(store)
        if self.options.workers is None:
            yield from super().score(store)
        else:
            self.check(store)
            yield from self.options.workers.scores(self, store)

    def _note_unknown_opcodes(self, store: splits.PackedSplit) -> None:
        """Prints how many graphs have opcodes that the graph model has no row for."""
        count = int((store.max_opcode >= self.num_ops).sum())
        if self.run.has_model and count:
            text.note(
                f'{store.source}: opcodes of {self.num_ops} or more, in {count:,} of '
                f'{text.count(store.num_graphs, store.noun)}, are new to '
                f'{self.run.model_dir}; it takes them for the unknown opcode'
            )

    def _member_scores(self, store: splits.PackedSplit) -> Iterator[prediction.Members]:
        return self.scorer.members(store, self.graphs(store))

    def _fitted_scaling(self) -> Scaling:
        """Fits the scaling to the training data anew, as the published code does."""
        text.note(
            'this run does not hold its normaliser; fitting it to '
            f'{self.options.data_root or "the measured data"}'
        )
        stores = [self.open_split(s) for s in ('train', 'valid', 'test')]
        self.variant.check(stores[0], 'the model was trained on')
        train, *others = stores
        chosen = np.flatnonzero(train.config_counts >= self._configs)
        opcodes = [train.max_opcode[chosen], *(store.max_opcode for store in others)]
        normalizer = normalizer_lib.Normalizer.fit(train, chosen)
        return Scaling(normalizer, normalizer_lib.num_ops(*opcodes))


def _note_unused(run: run_files.Run, models_file: registry.Own) -> None:
    """Prints the trees and the models.py of a training that are not used here."""
    if run.has_trees_of_programs:
        text.note(
            f'{run.model_dir}: its trees are of its training programs alone and '
            'no longer used; its graph model scores'
        )
    if run.args.get('models_file') and not models_file:
        text.note(
            f'{run.model_dir} was trained with --models_file='
            f'{text.printable(str(run.args["models_file"]))}; pass it '
            'here too if it is not ours'
        )
