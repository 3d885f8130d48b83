"""Trains a model of whichever collection.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

import contextlib
import dataclasses
import datetime
import functools
import os
import platform
import types
from typing import Any, Callable, Dict, List, Mapping, Optional

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config as config_lib
from baselines import files
from baselines import phases
from baselines import registry
from baselines import text
from baselines.data import folds
from baselines.data import hardware
from baselines.data import variants
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.runs import prediction
from baselines.runs import run_files
from baselines.runs import saved
from baselines.runs import tasks
from baselines.runs import trees as trees_lib
from baselines.runs import weights
from baselines.training import checkpoints
from baselines.training import devices as devices_lib
from baselines.training import growing
from baselines.training import loop
from baselines.training import losses
from baselines.training import own_code
from baselines.training import steps
from baselines.training import task_data


def train(
    config: config_lib.AnyConfig,
    *,
    models: Optional[registry.Own] = None,
    own_losses: Mapping[str, Callable[..., tf.Tensor]] = types.MappingProxyType({}),
    command: str = '',
    after_epoch: loop.AfterEpoch = lambda state: None,
) -> str:
    """Trains a model and writes the run, and a ranking of the test split.

    Prints its progress; of several workers the chief does.

    Args:
        config: the settings.
        models: a models.py, or classes, which are added to ours; None: the file of
            --models_file.
        own_losses: functions of the user's by the name that --losses says.
        command: the command line, or the call, that started the training.
        after_epoch: called with the state after every epoch, when it is kept; an
            error that it raises ends the training, and --resume goes on from there.

    Returns:
        The model directory; '' in a worker that is not the chief.

    Raises:
        ValueError: the settings or the data are unusable, or the loss or a score is
            not finite; says why.
        OSError: something cannot be written.
    """
    models = config.models_file if models is None else models
    _check(config_lib.checked(config), models)
    devices = devices_lib.of(config.strategy)  # before TensorFlow computes
    if devices.is_chief:
        print(devices_lib.describe_machine())
    temperature = task_data.DATA[config.collection.task].temperature
    loss = losses.CombinedLoss(config.losses, temperature, own_losses)
    _check_own_code(config, models, loss)
    tf.keras.utils.set_random_seed(config.seed)
    data = task_data.open_data(config)
    config, trainer = data.settings, None
    if config.model != registry.TREES:
        trainer = _make_trainer(data, loss, devices, models)
    checkpoint = checkpoints.Unfinished(config, data.stores)
    options = _tree_options(config)
    job = Job(data, trainer, options, devices, checkpoint, command)
    print(job.describe())
    return job.run(after_epoch)


def _check(config: config_lib.AnyConfig, models: registry.Own) -> None:
    """Checks settings that need no data, and that the results can be written."""
    task = tasks.of(config.collection)
    task.model_class(config.model, models)  # is there one?
    if config.model == registry.TREES or config.grows_trees:
        trees_lib.check_installed(
            '--trees' if config.grows_trees else f'--model={registry.TREES}'
        )
    steps.parse_averaging(config.averaging)
    folds.parse(config.fold)
    files.check_writable(config.out_dir)
    if config.results_csv:
        files.check_file_writable(config.results_csv, 'results_csv')
    if config.strategy and config.model == registry.TREES:
        raise ValueError(f'--strategy is not for --model={registry.TREES}')


def _check_own_code(
    config: config_lib.AnyConfig, models: registry.Own, loss: losses.CombinedLoss
) -> None:
    """Tries a model and losses of the user's; raises ValueError if they do not work."""
    for name, function in loss.own.items():
        own_code.check_loss(name, function)
    task = tasks.of(config.collection)
    model_class = task.model_class(config.model, models)
    if model_class not in (trees_lib.Trees, *task.models('').values()):
        own_code.check_model(config, model_class, _model_maker(config, models), loss)


def _model_maker(
    config: config_lib.AnyConfig, models: registry.Own
) -> own_code.MakeModel:
    """Returns a function that makes the model, of num_ops and a normaliser."""
    kwargs = config_lib.model_kwargs(config.model_kwargs_json)
    make = tasks.of(config.collection).make_model
    return functools.partial(make, config.model, kwargs, models, config.configs)


def _tree_options(config: config_lib.AnyConfig) -> Optional[growing.Options]:
    """Returns how trees are grown, alone or beside a graph model; None: none are."""
    if config.model == registry.TREES:
        kwargs = config_lib.model_kwargs(config.model_kwargs_json)
        return growing.Options.of(kwargs)
    return growing.FEWER if config.grows_trees else None


def _make_trainer(
    data: task_data.TaskData,
    loss: losses.CombinedLoss,
    devices: devices_lib.Devices,
    models: registry.Own,
) -> loop.Trainer:
    """Makes the model of a training, and the trainer that fits it."""
    config, task = data.settings, data.task
    if data.batch < config.batch:
        print(
            f'note: only {text.count(data.batch, f"training {task.unit}")} with at '
            f'least {config.configs} configurations,\nfewer than '
            f'--batch={config.batch}; training on batches of {data.batch}'
        )
    devices.batch(data.batch)  # refuses a size that cannot be divided
    make = _model_maker(config, models)
    model, replica = make(data.num_ops, data.normalizer), None
    if data.start is not None:
        weights.read(data.start, model)
    if devices.is_distributed:
        with devices.scope():
            replica = make(data.num_ops, data.normalizer)
            # Before averages of the weights begin.
            replica.set_weights(model.get_weights())
    budget = getattr(config, 'memory_budget', 0)  # kernels need none
    scorer = task.model_scorer(model, budget, False)
    is_known = data.start is not None
    return loop.Trainer(model, loss, config, scorer, devices, replica, is_known)


@dataclasses.dataclass(frozen=True)
class Job:
    """Trains, measures and saves; leaves a run and a ranking of the test split.

    Attributes:
        data: the graphs to train on, to validate on, and to rank.
        trainer: of a graph model; None where trees score alone.
        tree_options: how trees are grown, alone or beside a graph model; None: none.
        devices: where the replicas are.
        checkpoint: keeps the state of an epoch.
        command: the command that started the training.
    """

    data: task_data.TaskData
    trainer: Optional[loop.Trainer]
    tree_options: Optional[growing.Options]
    devices: devices_lib.Devices
    checkpoint: checkpoints.Unfinished
    command: str

    def describe(self) -> str:
        """Describes the models and the graphs of the training, for people."""
        parts = []
        if self.trainer is not None:
            variables = self.trainer.model.trainable_variables
            count = sum(int(np.prod(v.shape)) for v in variables)
            parts.append(text.count(count, 'weight'))
        if self.tree_options is not None:
            parts.append(f'at most {text.count(self.tree_options.trees, "tree")}')
        valid, unit = self.data.stores['valid'], self.data.task.unit
        fold = f' of fold {self.data.settings.fold}' if self.data.settings.fold else ''
        return (
            f'{self.data.settings.model}: {" and ".join(parts)}\n'
            f'training on {self.data.describe()}\n'
            f'validating on {text.count(valid.num_graphs, unit)}{fold}'
        )

    def run(self, after_epoch: loop.AfterEpoch = lambda state: None) -> str:
        """Trains, measures and ranks; see `train`."""
        checkpoint, chief = self.checkpoint, self.devices.is_chief
        held = checkpoint if chief else contextlib.nullcontext()
        with self.devices.watched(), held:
            run = checkpoint.finished()
            if run:
                print('note: --resume: the run of these settings is finished already')
            else:
                run = self._fit(after_epoch)
            if run:
                self._write_ranking(run)
                checkpoint.remove()
            self.devices.agree([0.0])  # none leaves while another one works
        return run.model_dir if run and chief else ''

    def _fit(self, after_epoch: loop.AfterEpoch) -> Optional[run_files.Run]:
        """Trains; the chief measures, ranks and saves the run."""
        checkpoint, chief = self.checkpoint, self.devices.is_chief

        def ended(state: loop.State) -> None:
            if chief:
                checkpoint.keep(state)
            after_epoch(state)

        trees, curve, best_epoch = None, None, -1
        with tasks.verifying(*self.data.stores.values()):
            if self.trainer is not None:
                state = self._descend(self.trainer, ended)
                curve, best_epoch = state.curve, state.best_epoch
            if not chief:
                return None
            if self.tree_options is not None:
                trees, losses_by_tree = growing.grow(self.data, self.tree_options)
                if curve is None:  # of two the graph model's is kept
                    curve = losses_by_tree
                    best_epoch = min(trees.count, len(curve['epoch'])) - 1
            info = {
                'train_curve': curve,
                'best_epoch': best_epoch,
                **self._measured(trees),
            }
        now = datetime.datetime.now().astimezone()
        info.update(
            training_key=checkpoint.key,
            started=checkpoint.started,
            # Not in seconds: `latest` tells runs of one second apart.
            finished=now.isoformat(timespec='milliseconds'),
            seconds=round(checkpoint.seconds, 1),
            command=self.command,
        )
        model = self.trainer and self.trainer.model
        out_dir = self.data.settings.out_dir
        run = saved.save(out_dir, checkpoint.run_hash, info, model, trees)
        # The file may be without the predictions, of which the CSV is still to come.
        return run_files.Run(run.model_dir, info)

    def _descend(
        self, trainer: loop.Trainer, after_epoch: loop.AfterEpoch
    ) -> loop.State:
        """Fits the graph model, from where it was interrupted."""
        state = self.checkpoint.state()
        try:
            return trainer.fit(self.data, state, after_epoch)
        except loop.MisfitError as error:
            raise self.checkpoint.misfit(error) from None

    def _measured(self, trees: Optional[trees_lib.Trees]) -> Dict[str, Any]:
        """Measures validation and ranks test; returns fields of the run file."""
        data, settings = self.data, self.data.settings
        final_error: Dict[str, Any] = {'val': None, 'test': None}
        if data.stores['valid'].has_runtimes:
            scored = self._scored(trees, 'valid', 'measuring validation')
            final_error['val'] = self._final_error('valid', scored)
            if settings.collection.task == 'tile':
                results = data.task.results(data.stores['valid'], scored)
                print(text.wrapped(f'val: {report.format_gain(results)}', indent=2))
        scored = self._scored(trees, 'test', 'ranking test')
        if settings.test_mode == 'metrics':
            final_error['test'] = self._final_error('test', scored)
        task_name = settings.collection.task
        for split, errors in final_error.items():
            if errors:
                print(f'{split} {report.format_final_error(task_name, errors)}')
        rows = tasks.rows(settings.collection, data.stores['test'], scored)
        return {
            # The data root in full: predictions may be made from another folder.
            'args': {
                **config_lib.to_json(settings),
                'data_root': files.expand(settings.data_root),
            },
            'final_error': final_error,
            'test_predictions': {row.id: list(row.configs) for row in rows},
            'seed': settings.seed,
            'data_fingerprint': {k: s.fingerprint for k, s in data.stores.items()},
            'measured_data': settings.sample_data,
            'measured_on': hardware.measured_on(
                settings.data_root, task_name if settings.sample_data else ''
            ),
            **variants.Variant.of(data.stores['train']).to_json(),
            'versions': versions(),
            'normalizer': data.normalizer.to_json(),
            'num_ops': data.num_ops,
        }

    def _scored(
        self, trees: Optional[trees_lib.Trees], split: str, title: str
    ) -> List[np.ndarray]:
        """Scores a split with the graph model, the trees, or both."""
        store, task = self.data.stores[split], self.data.task
        model = self.trainer.scorer if self.trainer else None
        graphs = self.data.graphs[split]
        scores = prediction.Scorer(task, model, trees).scores(store, graphs)
        return list(phases.each(scores, title, store.num_graphs, task.unit))

    def _final_error(self, split: str, scored: List[np.ndarray]) -> Dict[str, float]:
        """Measures the errors of a scored split that the run file keeps."""
        results = self.data.task.results(self.data.stores[split], scored)
        return report.final_error(self.data.settings.collection.task, results)

    def _write_ranking(self, run: run_files.Run) -> None:
        """Writes the CSV, and prints where model, run file and CSV are."""
        if not run.info['test_predictions']:
            print(f'note: {run.model_dir} has no predictions: `tpugraphs predict`')
            return
        rows = [
            submission.Row(graph_id, tuple(configs))
            for graph_id, configs in run.info['test_predictions'].items()
        ]
        parts = ['results', str(run.info['started'])]
        name = '_'.join([*parts, *self.data.settings.collection.flags.values()])
        path = self.data.settings.results_csv or os.path.join(
            self.data.settings.out_dir, f'{name}.csv'
        )
        submission.write_predictions(path, rows)
        paths = (run.model_dir, run.file, files.expand(path))
        for name, place in zip(('model:', 'run:', 'ranking:'), paths):
            print(f'{name:<8} {files.shown(place)}')


def versions() -> Dict[str, str]:
    """Returns the versions of Python and of the packages that results depend on."""
    return {
        'python': platform.python_version(),
        'tensorflow': tf.__version__,
        'tensorflow_gnn': tfgnn.__version__,
        'numpy': np.__version__,
    }
