"""Trains a model on any collection.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

import contextlib
import datetime
import itertools
import os
import types
from typing import TYPE_CHECKING, NamedTuple, Optional

from baselines import config as config_lib
from baselines.core import extensions
from baselines.core import files
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.data import folds
from baselines.data.packed import splits
from baselines.evaluation import submission
from baselines.runs import code_files
from baselines.runs import run_files
from baselines.runs import saved
from baselines.scoring import scorer as scorer_lib
from baselines.training import checkpoints
from baselines.training import final_errors
from baselines.training import progress
from baselines.training import task_data
from baselines.training import tree_model
from baselines.trees import growing

if TYPE_CHECKING:
    from baselines.training import graph_model as graph_model_lib
    from baselines.training import loop

_FEW = 5  # training graphs; of fewer no model learns anything


class _Training(NamedTuple):
    """A training whose settings are checked, data opened and models made."""

    data: task_data.TaskData  # with the settings
    trainer: Optional['loop.Trainer']  # of the graph model; None for trees alone
    trees: growing.TreeOptions | None  # None where no trees are grown
    checkpoint: checkpoints.Unfinished  # its state on disk
    together: contextlib.AbstractContextManager  # waits for the other processes


def train(
    config: config_lib.AnyConfig,
    *,
    models: registry.Own | None = None,
    own_losses: registry.OwnLosses = types.MappingProxyType({}),
    command: str = '',
    after_epoch: progress.AfterEpoch | None = None,
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
            not finite; says why.  Where the trained model cannot score a graph, the
            run is saved first, without errors and predictions.
        OSError: something cannot be written.
    """
    models = config.models_file if models is None else models
    training = _prepare_training(config, models, own_losses, command)
    checkpoint, failure = training.checkpoint, None
    with training.together, checkpoint:
        run = checkpoint.find_finished()
        if run is not None:
            print('note: --resume: the run of these settings is finished already')
        else:
            scorer, learned = _fit_models(training, after_epoch)
            if not checkpoint.is_chief:
                return ''
            try:
                measured = final_errors.measure_run(training.data, scorer)
            except final_errors.MeasuringError as error:
                measured, failure = final_errors.UNMEASURED, error
            content = {**learned, **measured, 'command': command}
            run = _save_run(training, scorer, content)
        _write_ranking(run, config)
        checkpoint.move_state(run)
    if failure is not None:
        raise ValueError(f'{failure}; {run.model_dir} is saved without predictions')
    return run.model_dir


def _prepare_training(
    config: config_lib.AnyConfig,
    models: registry.Own,
    own_losses: registry.OwnLosses,
    command: str,
) -> _Training:
    """Checks the settings, opens the data and makes the graph model; see `train`."""
    _check_settings(config)
    grows = config.model == registry.TREES or config.trees
    trees = tree_model.choose_options(config) if grows else None
    task = config.collection.task
    code = code_files.read(models, config.losses, config.model, task)
    # The user's code first, as packing may take minutes; else data and folders, which
    # are refused before TensorFlow is imported.
    tries_first = bool(models or own_losses) or config.model_kwargs_json != '{}'
    if tries_first:
        graph_model = _make_graph_model(config, models, own_losses)
    data = task_data.open_data(config)
    if len(data.chosen) < _FEW:
        graphs = text.count(len(data.chosen), data.stores['train'].noun)
        print(f'note: only {graphs} to train on, too few to learn from; measure more')
    files.check_writable(config.out_dir)
    for path in _list_csv_paths(config).values() if config.results_csv else ():
        files.check_file_writable(path, 'results_csv', [submission.HEADER])
    if not tries_first:
        graph_model = _make_graph_model(config, models, own_losses)
    together: contextlib.AbstractContextManager = contextlib.nullcontext()
    trainer, is_chief, parts = None, True, []
    if graph_model is not None:
        trainer, devices = graph_model.make_trainer(data), graph_model.devices
        is_chief, together = devices.is_chief, devices.wait_for_workers()
        parts.append(text.count(trainer.count_weights(), 'weight'))
    if trees is not None:
        parts.append(f'at most {text.count(trees.trees, "tree")}')
    print(f'{config.model}: {" and ".join(parts)}\n{data.describe_graphs()}')
    checkpoint = checkpoints.Unfinished(
        data.settings, data.stores, code, command, is_chief
    )
    return _Training(data, trainer, trees, checkpoint, together)


def _check_settings(config: config_lib.AnyConfig) -> None:
    """Raises ValueError for settings that are wrong whatever the data are."""
    config_lib.check_config(config)
    if config.folds or config.seeds > 1:
        raise ValueError(
            '--folds and --seeds are several trainings: use `tpugraphs train`'
        )
    grows = config.model == registry.TREES or config.trees
    if grows and not starting.has_lightgbm():
        flag = '--trees' if config.trees else f'--model={registry.TREES}'
        raise ValueError(f"{flag} needs LightGBM: pip install -e '.[trees]'")
    if config.fold and folds.parse_fold(config.fold):
        number = len(config.collection.parts)
        if number > 1:  # one program may be in several of them
            raise ValueError(f'--fold: data must be of one collection, not {number}')
    if config.strategy and config.model == registry.TREES:
        raise ValueError(f'--strategy is not for --model={registry.TREES}')


def _make_graph_model(
    config: config_lib.AnyConfig, models: registry.Own, own_losses: registry.OwnLosses
) -> Optional['graph_model_lib.GraphModel']:
    """Prepares the graph model of a training; None where trees are grown alone."""
    is_alone, defaults = config.model == registry.TREES, type(config)
    unread = models, config.losses, config.averaging
    is_plain = unread == ('', defaults.losses, defaults.averaging)
    if not is_alone or not is_plain:
        starting.start_tensorflow()  # takes seconds, which trees do not wait for
        from baselines.training import graph_model

        task = config.collection.task
        model_class = registry.find_model_class(config.model, task, models)
        if not is_alone:
            is_own = bool(models) or not registry.is_shipped(task)
            return graph_model.GraphModel(config, model_class, own_losses, is_own)
        # Trees do not read them, but a name that does not exist is refused.
        graph_model.check_own_losses(graph_model.make_loss(config, own_losses))
    print(starting.describe_cpu())
    return None


def _fit_models(
    training: _Training, after_epoch: progress.AfterEpoch | None
) -> tuple[scorer_lib.Scorer, text.JsonObject]:
    """Fits the graph model, from where it was interrupted, and grows the trees.

    Returns:
        A scorer with the trained models, and fields of the run file.
    """
    data, trainer, checkpoint = training.data, training.trainer, training.checkpoint
    trees, learned = None, {}
    if trainer is not None:
        state = checkpoint.find_state()

        def end_epoch(state: progress.State) -> None:
            with checkpoint.delay_interrupts():
                checkpoint.write_state(state)
                if after_epoch is not None:
                    after_epoch(state)

        try:
            state = trainer.fit(data, state, end_epoch)
        except progress.MisfitError as error:
            raise checkpoint.make_misfit_error(error) from None
        learned = {'train_curve': state.curve, 'best_epoch': state.best_epoch}
    if training.trees is not None and checkpoint.is_chief:
        trees, grown = tree_model.grow_trees(data, training.trees)
        learned = learned or grown  # of two curves the graph model's is kept
    scorer = scorer_lib.Scorer(
        data.task,
        splits.Variant.from_store(data.stores['train']),
        graph_model=trainer.scorer if trainer else None,
        trees=trees,
        most_multiply_adds=data.most_multiply_adds,
        keras_model=trainer.model if trainer else None,
    )
    return scorer, learned


def _save_run(
    training: _Training, scorer: scorer_lib.Scorer, content: text.JsonObject
) -> run_files.RunFile:
    """Saves the run; returns it with the predictions that its file may be without.

    Args:
        content: fields of the run file that came of fitting and measuring.
    """
    settings, checkpoint = training.data.settings, training.checkpoint
    now = datetime.datetime.now().astimezone()
    content = {
        # The data root in full: predictions may be made from another folder.
        'args': {
            **config_lib.to_json(settings),
            'data_root': files.expand(settings.data_root),
        },
        **training.data.to_json(),
        **content,
        'most_multiply_adds': scorer.most_multiply_adds,
        'seed': settings.seed,
        'versions': extensions.list_versions(),
        'training_key': checkpoint.key,
        'started': checkpoint.started,
        # Not in seconds: `latest` tells runs of one second apart.
        'finished': now.isoformat(timespec='milliseconds'),
        'seconds': round(checkpoint.seconds, 1),
        'code': code_files.describe_code(checkpoint.code),
    }
    run = saved.save_run(
        settings.out_dir,
        checkpoint.run_hash,
        content,
        scorer.keras_model,
        scorer.trees,
        checkpoint.code,
    )
    return run_files.RunFile(run.model_dir, content)


def _write_ranking(run: run_files.RunFile, config: config_lib.AnyConfig) -> None:
    """Writes the CSVs, and prints where model, run file and CSVs are."""
    predictions, paths = run.info['test_predictions'], {}
    if predictions:
        paths = _list_csv_paths(config, run.info['started'])
    else:
        print(f'note: {run.model_dir} has no predictions: `tpugraphs predict`')
    for collection, path in paths.items():
        submission.write_rankings(path, collection, predictions)
    places = [('model:', run.model_dir), ('run:', run.file)]
    for name, path in [*places, *zip(itertools.repeat('ranking:'), paths.values())]:
        print(f'{name:<8} {files.format_path(files.expand(path))}')


def _list_csv_paths(config: config_lib.AnyConfig, started: int = 0) -> dict[str, str]:
    """Returns the paths of the rankings of a training, by name of the collection.

    Args:
        started: start time of the training, milliseconds since 1970.
    """
    first, *others = config.collection.parts
    if config.results_csv and not others:
        return {first.name: config.results_csv}
    default = os.path.join(config.out_dir, f'results_{started:d}.csv')
    stem, ending = os.path.splitext(config.results_csv or default)
    return {
        part.name: '_'.join([stem, *part.flags.values()]) + ending
        for part in [first, *others]
    }
