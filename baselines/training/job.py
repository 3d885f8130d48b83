"""A training from the settings to the run that it leaves."""

import abc
import contextlib
import dataclasses
import datetime
import functools
import math
import os
import platform
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines import text
from baselines.data import collections
from baselines.data import folds
from baselines.data import variants
from baselines.data.packed import splits
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import saved
from baselines.runs import tasks
from baselines.runs import trees as trees_lib
from baselines.training import boosting
from baselines.training import checkpoints
from baselines.training import descent
from baselines.training import devices as devices_lib
from baselines.training import events as events_lib
from baselines.training import init_from
from baselines.training import loop
from baselines.training import losses
from baselines.training import optimisation
from baselines.training import own_code

AfterEpoch = Callable[[loop.State], None]


class Extras(NamedTuple):
    """What a training takes beside its settings.

    Attributes:
        models: a models.py, or classes, which are added to ours.
        losses: functions by the name that --losses says, likewise.
        command: the command line, or the call, that began the training.
    """

    models: registry.Own = ''
    losses: Mapping[str, Callable[..., tf.Tensor]] = types.MappingProxyType({})
    command: str = ''


class Training(tasks.Task):
    """Opens the data and makes the model; `run` trains it.

    Attributes:
        stores: the splits, by name.
        graphs: the same, scaled.
        packer: packs batches of training graphs.
        chosen: int64, numbers of the graphs to train on.
        num_ops: more than the largest opcode.
        start: the run of --init_from, or None.
        temperature: what the ranking losses divide scores by.
        label_scale: what runtimes are divided by for the loss.
        chosen_by_tau: Kendall's tau chooses the best epoch, not OPA.
        unpack: (packed, step, batch, configs) -> (graph, labels).

    Args:
        config: the settings; also an attribute.
        extras: models and losses of the user's; likewise.

    Raises:
        ValueError: the settings or the data are unusable; says why.
    """

    temperature: float
    label_scale = 1.0
    chosen_by_tau = False
    unpack: Callable[..., Any]

    def __init__(self, config: Any, extras: Optional[Extras] = None):
        self.config = self.options = config_lib.checked(config)
        self.extras = extras or Extras(models=config.models_file)
        self.collection = config.collection
        self.model_class(config.model, self.extras.models)  # is there one
        grows_too = getattr(config, 'trees', False)
        if config.model == trees_lib.NAME or grows_too:
            trees_lib.check_installed(
                '--trees' if grows_too else f'--model={trees_lib.NAME}'
            )
        _check_settings(config)
        if config.strategy and config.model == trees_lib.NAME:
            raise ValueError(f'--strategy is not for --model={trees_lib.NAME}')
        self.devices = devices_lib.of(config.strategy)  # before TensorFlow computes
        self._check_own_code()
        tf.keras.utils.set_random_seed(config.seed)
        whole = {split: self.open_whole(split) for split in collections.SPLITS}
        self.stores = folds.with_fold(config.fold, whole, self.program_of)
        _check_splits(config, self.stores)
        train = self.stores['train']
        drawable = self.drawable(train)
        if config.recipe:
            config = self.config = self.options = _fitted(config, drawable)
        self.chosen = np.flatnonzero(drawable >= config.configs)
        if not len(self.chosen):
            raise ValueError(
                f'{train.source}: nothing has --configs={config.configs} '
                f'configurations to draw; the most is {drawable.max()}'
            )
        self.normalizer = normalizer_lib.Normalizer.fit(
            train, self.chosen, **self.feature_options()
        )
        self.num_ops = normalizer_lib.num_ops(
            (train, self.chosen), self.stores['valid'], self.stores['test']
        )
        self.start: Optional[init_from.Start] = None
        if config.init_from:
            self.start = init_from.read(config, train, self.num_ops)
            self.normalizer, self.num_ops = self.start.normalizer, self.start.num_ops
        self.graphs = {
            split: self.scaled(store, split == 'train')
            for split, store in self.stores.items()
        }
        kwargs = config_lib.model_kwargs(config.model_kwargs_json)
        self.learners: List[Any] = []
        self._trainer: Optional[loop.Trainer] = None
        if config.model == trees_lib.NAME:
            self.learners.append(boosting.Boosting(self, trees_lib.Options.of(kwargs)))
        else:
            self.learners.append(descent.Descent(self, kwargs))
            self._trainer = self.learners[0].trainer
            if grows_too:
                self.learners.append(boosting.Boosting(self, trees_lib.FEWER))
        words = self.words(len(self.chosen), drawable[self.chosen].sum())
        print(
            f'{config.model}: {" and ".join(each.words() for each in self.learners)}\n'
            f'training on {words}\nvalidating on '
            f'{text.count(self.stores["valid"].num_graphs, self.unit)}'
        )

    def _check_own_code(self) -> None:
        """Tries a model and losses of the user's, before data are read.

        Raises:
            ValueError: a loss is unknown, or something of theirs does not work.
        """
        config, own = self.config, self.extras.models
        loss = losses.CombinedLoss(
            config.losses, self.temperature, own=self.extras.losses
        )
        for name, function in loss.own.items():
            own_code.check_loss(name, function)
        model_class = self.model_class(config.model, own)
        if model_class in (trees_lib.Trees, *self.models('').values()):
            return
        kwargs = config_lib.model_kwargs(config.model_kwargs_json)

        def make(num_ops: int, normalizer: normalizer_lib.Normalizer) -> tf.keras.Model:
            return self.make_model(
                config.model, kwargs, own, config.configs, num_ops, normalizer
            )

        own_code.check_model(
            self.collection.task, model_class, make, config.batch, config.configs, loss
        )

    def run(self, after_epoch: AfterEpoch = lambda state: None) -> str:
        """Trains, measures and ranks; returns the model directory.

        Of several workers the chief does; the others train, and return ''.

        Args:
            after_epoch: see `jobs.train`.

        Raises:
            ValueError: the loss or a score is not finite.
            OSError: something cannot be written.
        """
        unfinished = checkpoints.Unfinished(self.config, self.stores, self._trainer)
        chief = self.devices.is_chief
        with self.devices.watched(), unfinished if chief else contextlib.nullcontext():
            run = unfinished.finished()
            if run:
                print('note: --resume: the run of these settings is finished already')
            else:
                run = self._fit(unfinished, after_epoch)
            if chief:
                self._write_ranking(run)
                unfinished.remove()
            self.devices.agree([0.0])  # none leaves while another one works
        return run.model_dir if run else ''

    def _fit(
        self, unfinished: checkpoints.Unfinished, after_epoch: AfterEpoch
    ) -> Optional[saved.Run]:
        """Trains; the chief measures, ranks and saves the run."""
        chief = self.devices.is_chief

        events = None
        if self.config.tensorboard and chief:
            folder = os.path.join(self.config.out_dir, 'tensorboard')
            events = events_lib.Events(os.path.join(folder, unfinished.run_hash))

        def ended(state: loop.State) -> None:
            if chief:
                unfinished.keep(state)
            if events:
                events.after_epoch(state)
            after_epoch(state)

        with self.checked(*self.stores.values()):
            found: Dict[str, Any] = {}
            for learner in self.learners if chief else self.learners[:1]:
                # Of two the first one's curve is kept.
                found = {**learner.fit(unfinished, ended), **found}
            if not chief:
                return None
            info = {**found, **self._finish()}
        if events:
            settings = config_lib.to_json(self.config)
            events.finish(unfinished.run_hash, settings, info['final_error'])
        info.update(
            training_key=unfinished.key,
            started=unfinished.started,
            finished=datetime.datetime.now().astimezone().isoformat(timespec='seconds'),
            seconds=round(unfinished.seconds, 1),
            command=self.extras.command,
        )
        model_dir = saved.save(
            self.config.out_dir, unfinished.run_hash, self.model, info, self.trees
        )
        return saved.Run(model_dir, info)

    # What differs between tiles and layouts.

    @abc.abstractmethod
    def feature_options(self) -> Dict[str, Any]:
        """What the flags ask of `Normalizer.fit`."""

    def drawable(self, store: splits.PackedSplit) -> np.ndarray:
        """How many configurations can be drawn of each graph: int64 [graphs]."""
        return store.config_counts

    def inputs(self, graphs: Any) -> Any:
        """What packs batches of scaled graphs; has `signature(batch)`."""
        return graphs

    @abc.abstractmethod
    def steps_of(self, count: int, batch: int) -> int:
        """How many batches make an epoch of so many graphs."""

    @abc.abstractmethod
    def chunks(
        self, rng: np.random.Generator, batches: np.ndarray
    ) -> Iterator[loop.Chunk]:
        """Draws configurations: an epoch of the graphs int64 [steps, batch]."""

    @abc.abstractmethod
    def chosen_scores(
        self, chosen: List[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """Scores the chosen configurations of the first validation graphs."""

    @abc.abstractmethod
    def words(self, count: int, configs: int) -> str:
        """What is trained on, for people."""

    @abc.abstractmethod
    def error_words(self, errors: Dict[str, float]) -> str:
        """The final errors of a split, for people."""

    def relative_noise(self) -> float:
        """Standard deviation of repeated measurements over their mean; NaN: unknown."""
        return math.nan

    # What does not.

    @functools.cached_property
    def validated(self) -> List[np.ndarray]:
        """Configurations of the first graphs to validate on, drawn once for all."""
        store, config = self.stores['valid'], self.config
        count = store.num_graphs if store.has_runtimes else 0
        if config.validate_batches >= 0:
            batch = min(config.batch, len(self.chosen))
            count = min(count, config.validate_batches * batch)
        rng = np.random.default_rng([config.seed, 2**32 - 1])
        return [
            rng.permutation(configs)[: config.validation_configs]
            for configs in store.config_counts[:count]
        ]

    @functools.cached_property
    def validation_error(self) -> float:
        """Standard error by chance of the mean tau of `validated`; 0: of no tau."""
        if not self.chosen_by_tau or not self.validated:
            return 0.0
        kinds = [
            np.unique(self.configurations(self.stores['valid'], graph)[some])
            for graph, some in enumerate(self.validated)
        ]
        errors = [metrics.tau_error(len(kind)) for kind in kinds]
        return float(np.linalg.norm(errors) / len(errors))

    def _finish(self) -> Dict[str, Any]:
        """Measures validation and ranks test; returns what the run file says."""
        final_error: Dict[str, Any] = {'val': None, 'test': None}
        if self.stores['valid'].has_runtimes:
            scored = self._scored('valid', 'measuring validation')
            final_error['val'] = self._final_error('valid', scored)
        scored = self._scored('test', 'ranking test')
        if self.config.test_mode == 'metrics':
            final_error['test'] = self._final_error('test', scored)
        for split, errors in final_error.items():
            if errors:
                print(f'{split} {self.error_words(errors)}')
        rows = self.rows(self.stores['test'], scored)
        config, stores = self.config, self.stores
        return {
            # The data root in full: predictions may be made from another folder.
            'args': {
                **config_lib.to_json(config),
                'data_root': files.expand(config.data_root),
            },
            'final_error': final_error,
            'test_predictions': {row.id: list(row.configs) for row in rows},
            'seed': config.seed,
            'data_fingerprint': {k: s.fingerprint for k, s in stores.items()},
            'measured_data': config.sample_data,
            **variants.Variant.of(stores['train']).to_json(),
            'versions': versions(),
            'normalizer': self.normalizer.to_json(),
            'num_ops': self.num_ops,
        }

    def _scored(self, split: str, title: str) -> List[np.ndarray]:
        scores = self.scores(self.graphs[split])
        count = self.stores[split].num_graphs
        return list(tasks.with_bar(scores, count, title, self.unit))

    def _final_error(self, split: str, scored: List[np.ndarray]) -> Dict[str, float]:
        results = self.results(self.stores[split], scored)
        return report.final_error(self.collection.task, results)

    def _write_ranking(self, run: saved.Run) -> None:
        """Writes the CSV, and says where everything is; the same once more."""
        rows = [
            submission.Row(graph_id, tuple(configs))
            for graph_id, configs in run.info['test_predictions'].items()
        ]
        words = ['results', str(run.info['started'])]
        name = '_'.join([*words, *self.collection.flags.values()])
        path = self.config.results_csv or os.path.join(
            self.config.out_dir, f'{name}.csv'
        )
        submission.write_predictions(path, rows)
        paths = (run.model_dir, saved.run_file(run.model_dir), files.expand(path))
        for name, place in zip(('model:', 'run:', 'ranking:'), paths):
            print(f'{name:<8} {files.shown(place)}')


def _fitted(config: Any, drawable: np.ndarray) -> Any:
    """Returns a recipe's settings for graphs that may have few configurations.

    Where fewer than half have --configs of them, it is the largest power of two
    that three quarters have.
    """
    if np.mean(drawable >= config.configs) >= 0.5:
        return config
    most = max(2, int(np.sort(drawable)[len(drawable) // 4]))
    configs = 1 << (most.bit_length() - 1)
    print(
        f'note: --recipe={config.recipe}: few have {config.configs} configurations to '
        f'draw; drawing --configs={configs}'
    )
    return dataclasses.replace(config, configs=configs)


def _check_settings(config: Any) -> None:
    """Checks what needs no data, and that there is a place for the results."""
    optimisation.parse_averaging(config.averaging)
    folds.parse(config.fold)
    saved.check_writable(config.out_dir)
    if config.results_csv:
        saved.check_file_writable(config.results_csv, 'results_csv')


def _check_splits(config: Any, stores: Dict[str, splits.PackedSplit]) -> None:
    """Checks that splits belong together and hold what the settings ask for."""
    train, test = stores['train'], stores['test']
    variant = variants.Variant.of(train)
    for store in stores.values():
        variant.check(store, f'is in {train.source}')
    if not train.has_runtimes:
        raise ValueError(f'{train.source}: all runtimes are 0; nothing to learn')
    if config.test_mode == 'metrics' and not test.has_runtimes:
        raise ValueError(
            f'--test_mode=metrics: all runtimes in {test.source} are 0, as they '
            'are in the published test files; use --test_mode=predictions'
        )


def versions() -> Dict[str, str]:
    """Versions of what a result depends on."""
    return {
        'python': platform.python_version(),
        'tensorflow': tf.__version__,
        'tensorflow_gnn': tfgnn.__version__,
        'numpy': np.__version__,
    }
