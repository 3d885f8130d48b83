"""Trains a model on any collection.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import datetime
import os
import platform
import time
import types
from typing import TYPE_CHECKING, Optional

import numpy as np

import baselines
from baselines import config as config_lib
from baselines.core import arrays
from baselines.core import files
from baselines.core import phases
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.data import folds
from baselines.data import hardware
from baselines.data.packed import splits
from baselines.data.packed import variants
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.runs import code_files
from baselines.runs import run_files
from baselines.runs import saved
from baselines.scoring import scorer as scorer_lib
from baselines.tasks import lookup
from baselines.training import checkpoints
from baselines.training import final_errors
from baselines.training import member_weights
from baselines.training import progress
from baselines.training import task_data
from baselines.trees import booster as trees_lib
from baselines.trees import growing

if TYPE_CHECKING:
    import tensorflow as tf

    from baselines.training import graph_model as graph_model_lib
    from baselines.training import loop

_FEW = 5  # training graphs; of fewer no model learns anything


def train(
    config: config_lib.AnyConfig,
    *,
    models: registry.Own | None = None,
    own_losses: Mapping[str, Callable[..., 'tf.Tensor']] = types.MappingProxyType({}),
    command: str = '',
    after_epoch: progress.AfterEpoch = lambda state: None,
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
    task = config.collection.task
    code = code_files.read(models, config.losses, config.model, task)
    _check(config_lib.checked(config))
    # The user's code first, as packing may take minutes; else data and folders, which
    # are refused before TensorFlow is imported.
    is_own = models or own_losses or config_lib.model_kwargs(config.model_kwargs_json)
    graph_model = _graph_model(config, models, own_losses) if is_own else None
    data = task_data.open_data(config)
    if len(data.chosen) < _FEW:
        graphs = text.count(len(data.chosen), data.stores['train'].noun)
        print(f'note: only {graphs} to train on, too few to learn from; measure more')
    files.check_writable(config.out_dir)
    for path in _csv_paths(config) if config.results_csv else ():
        files.check_file_writable(path, 'results_csv', [submission.HEADER])
    if not is_own:
        graph_model = _graph_model(config, models, own_losses)
    is_chief = graph_model is None or graph_model.is_chief
    config = data.settings
    trainer = None if graph_model is None else graph_model.trainer(data)
    checkpoint = checkpoints.Unfinished(config, data.stores, code, command)
    options = _tree_options(config)
    print(_describe(data, trainer, options))
    # Of several workers the chief writes files, and so holds the lock.
    lock = checkpoint if is_chief else contextlib.nullcontext()
    together = (
        contextlib.nullcontext() if graph_model is None else graph_model.together()
    )
    with together, lock:
        run = checkpoint.finished()
        if run:
            print('note: --resume: the run of these settings is finished already')
        else:
            state = _fit_graph_model(data, trainer, checkpoint, is_chief, after_epoch)
            if is_chief:
                trees, content = _grow_and_measure(data, trainer, options, state)
                content['command'] = command
                run = _save(config, checkpoint, content, trainer, trees)
        if run:
            _write_ranking(run, config)
            checkpoint.move_to(run)
    return run.model_dir if run and is_chief else ''


def _check(config: config_lib.AnyConfig) -> None:
    """Checks settings that need no data."""
    if config.folds or config.seeds > 1:
        raise ValueError(
            '--folds and --seeds are several trainings: `tpugraphs train`, or '
            '`cross_validation.train_all`'
        )
    grows = config.model == registry.TREES or config.trees
    if grows and not starting.has_lightgbm():
        flag = '--trees' if config.trees else f'--model={registry.TREES}'
        raise ValueError(f"{flag} needs LightGBM: pip install -e '.[trees]'")
    parts = config.collection.parts
    if folds.parse(config.fold) and len(parts) > 1:
        raise ValueError(
            f'--fold is for one collection, not for {len(parts)}: one program may be '
            'in several of them'
        )
    if config.strategy and config.model == registry.TREES:
        raise ValueError(f'--strategy is not for --model={registry.TREES}')


def _graph_model(
    config: config_lib.AnyConfig,
    models: registry.Own,
    own_losses: Mapping[str, Callable[..., 'tf.Tensor']],
) -> Optional['graph_model_lib.GraphModel']:
    """Prepares the graph model of a training; None where trees are grown alone."""
    is_alone, defaults = config.model == registry.TREES, type(config)
    unread = models, config.losses, config.averaging
    is_plain = unread == ('', defaults.losses, defaults.averaging)
    if not is_alone or not is_plain:
        starting.start_tensorflow()  # takes seconds, which trees do not wait for
        from baselines.training import graph_model
    if not is_alone:
        return graph_model.GraphModel(config, models, own_losses)
    if not is_plain:
        # Trees do not read them, but a name that does not exist is refused.
        lookup.TASKS[config.collection.task].model_class(config.model, models)
        graph_model.checked_loss(config, own_losses)
    print(starting.describe_cpu())
    return None


def _tree_options(config: config_lib.AnyConfig) -> growing.TreeOptions | None:
    """Returns the options for growing trees, alone or with a graph model, or None."""
    of_tiles = isinstance(config, config_lib.TileConfig)
    if config.model == registry.TREES:
        alone = growing.OF_TILES if of_tiles else growing.TreeOptions()
        return alone.changed(config_lib.model_kwargs(config.model_kwargs_json))
    added = growing.OF_TILES if of_tiles else growing.FEWER
    return added if config.trees else None


def _describe(
    data: task_data.TaskData,
    trainer: Optional['loop.Trainer'],
    options: growing.TreeOptions | None,
) -> str:
    """Describes the models and the graphs of a training, as text to print."""
    parts = []
    if trainer is not None:
        variables = trainer.model.trainable_variables
        count = sum(int(np.prod(v.shape)) for v in variables)
        parts.append(text.count(count, 'weight'))
    if options is not None:
        parts.append(f'at most {text.count(options.trees, "tree")}')
    valid = data.stores['valid']
    fold = f' of fold {data.settings.fold}' if data.settings.fold else ''
    lines = [f'{data.settings.model}: {" and ".join(parts)}']
    lines.append(f'training on {data.describe()}')
    if valid.has_runtimes:
        lines.append(f'validating on {text.count(len(valid), valid.noun)}{fold}')
    return '\n'.join(lines)


def _fit_graph_model(
    data: task_data.TaskData,
    trainer: Optional['loop.Trainer'],
    checkpoint: checkpoints.Unfinished,
    is_chief: bool,
    after_epoch: progress.AfterEpoch,
) -> progress.State | None:
    """Fits the graph model, if there is one, resuming an interrupted training."""
    if trainer is None:
        return None

    def keep_and_report(state: progress.State) -> None:
        if is_chief:
            checkpoint.write_state(state)
        after_epoch(state)

    state = checkpoint.state()
    try:
        return trainer.fit(data, state, keep_and_report)
    except progress.MisfitError as error:
        raise checkpoint.misfit(error) from None


def _grow_and_measure(
    data: task_data.TaskData,
    trainer: Optional['loop.Trainer'],
    options: growing.TreeOptions | None,
    state: progress.State | None,
) -> tuple[trees_lib.Trees | None, text.JsonObject]:
    """Grows the trees, if any; measures validation, and ranks test.

    Returns:
        The trees, and fields of the run file.
    """
    trees = None
    content: text.JsonObject = {}
    if options is not None:
        trees, curve = _grow(data, options)
        best = min(trees.count, len(curve['epoch'])) - 1
        content.update(train_curve=curve, best_epoch=best)
    if state is not None:  # of two curves the graph model's is kept
        content.update(train_curve=state.curve, best_epoch=state.best_epoch)
    scorer = scorer_lib.Scorer(
        data.task,
        variants.Variant.from_store(data.stores['train']),
        graph_model=trainer.scorer if trainer else None,
        trees=trees,
        most_multiply_adds=data.most_multiply_adds,
    )
    return trees, {**content, **_measure(data, scorer)}


def _grow(
    data: task_data.TaskData, options: growing.TreeOptions
) -> tuple[trees_lib.Trees, dict[str, list[float | None]]]:
    """Grows trees.  There is no state to resume, as this takes about a minute.

    Returns:
        The trees, and a training's curve with a row for each; see `progress.State`.
    """
    # Trees have a row of the curve each, so that runs of both kinds look alike.
    settings, stores, started = data.settings, data.stores, time.monotonic()
    trees, losses_by_tree = growing.grow(
        data.task,
        stores['train'],
        data.rankable,
        data.weights_of(data.rankable),
        stores['valid'],
        settings.validation_configs,
        options,
        settings.seed,
        data.graphs,
    )
    grown = len(losses_by_tree['train_loss'])
    seconds = (time.monotonic() - started) / grown
    curve: dict[str, list[float | None]] = {
        name: [None] * grown for name in progress.CURVES
    }
    curve.update({name: [*losses] for name, losses in losses_by_tree.items()})
    curve['epoch'] = list(range(grown))
    curve.update(train_seconds=[seconds] * grown, val_seconds=[0.0] * grown)
    print(f'trees: {trees.count}, looking at {text.count(len(trees.used), "column")}')
    return trees, curve


def _measure(data: task_data.TaskData, scorer: scorer_lib.Scorer) -> text.JsonObject:
    """Measures validation and ranks test; returns fields of the run file."""
    settings, stores = data.settings, data.stores
    collection, task_name = settings.collection, settings.collection.task
    errors: dict[str, final_errors.Errors] = {'val': {}, 'test': {}}
    # Numbers of the releases of jaxlib that measured the training split, if any did.
    releases = np.unique(stores['train'].arrays.get('xla_release', [0]))
    score = None

    def members(split: str, title: str) -> list[tuple[np.ndarray, ...]]:
        store = stores[split]
        scores = scorer.members(store, data.graphs[split])
        return list(phases.each(scores, title, len(store), store.noun))

    if stores['valid'].has_runtimes:
        of_valid = members('valid', 'measuring validation')
        formula = list(data.task.estimates(stores['valid'])) if data.has_prior else None
        scorer = member_weights.chosen(scorer, stores['valid'], of_valid, formula)
        if formula is None or not scorer.is_formula_alone:
            scored = list(map(scorer.mean, of_valid))
        else:
            scored = formula
        results = data.task.results(stores['valid'], scored)
        errors['val'] = final_errors.measure(collection, stores['valid'], results)
        score = _validation_score(data, scored)
        if scorer.trees is not None and score:  # an epoch's is without them
            print(f'val {score["measure"]} of all models: {score["value"]:.3f}')
        _note_random(results)
        if data.task.has_default:
            print(text.wrapped(f'val: {report.format_gain(results)}', indent=2))
    test_scores = map(scorer.mean, members('test', 'ranking test'))
    scored = list(scorer_lib.noting_ties(settings.model, stores['test'], test_scores))
    if settings.test_mode == 'metrics':
        results = data.task.results(stores['test'], scored)
        errors['test'] = final_errors.measure(collection, stores['test'], results)
    by_name = final_errors.by_collection(collection, errors)
    for line in final_errors.describe(collection, by_name):
        print(line)
    rows = _rows(collection, stores['test'], scored)
    return {
        # The data root in full: predictions may be made from another folder.
        'args': {
            **config_lib.to_json(settings),
            'data_root': files.expand(settings.data_root),
        },
        'final_error': by_name.pop(collection.name),
        **({'final_error_by_collection': by_name} if by_name else {}),
        'val_score': score,
        'member_weights': scorer.weights,
        'most_multiply_adds': scorer.most_multiply_adds,
        'test_predictions': {row.id: list(row.configs) for row in rows},
        'seed': settings.seed,
        'data_fingerprint': {k: s.fingerprint for k, s in stores.items()},
        'measured_data': settings.sample_data,
        'measured_on': hardware.measured_on(
            settings.data_root, task_name if settings.sample_data else ''
        ),
        'xla_releases': [int(release) for release in releases if release],
        **scorer.variant.to_json(),
        'versions': versions(),
        'normalizer': data.normalizer.to_json(),
        'num_ops': data.num_ops,
    }


def _validation_score(
    data: task_data.TaskData, scored: Sequence[np.ndarray]
) -> text.JsonObject | None:
    """Measures all models of a run as each epoch is measured; None: not measured.

    Args:
        scored: float [configurations] for each validation graph.
    """
    store = data.stores['valid']
    pairs = [
        (scored[graph][configs], data.task.labels(store, graph)[configs])
        for graph, configs in enumerate(data.validated)
    ]
    measured = data.validation(pairs) if pairs else None
    if measured is None or measured.score is None:
        return None
    return {'measure': measured.measure, 'value': measured.score}


def _rows(
    collection: collections.Collection,
    store: splits.PackedSplit,
    scored: Sequence[np.ndarray],
) -> list[submission.RankingRow]:
    """Ranks the graphs of a split, each in its own collection."""
    names = [part.name for part in collection.parts]
    return [
        submission.make_row(names[part], graph_id, arrays.best_first(scores))
        for part, graph_id, scores in zip(store.collection_of, store.graph_ids, scored)
    ]


def _note_random(results: Sequence[report.GraphResult]) -> None:
    """Prints a note where a model ranks validation graphs no better than at random."""
    taus = [metrics.kendall_tau(result.scores, result.runtimes) for result in results]
    mean = float(np.nan_to_num(taus).mean())
    # Scores that are all equal have a note of their own.
    depends = not all(arrays.are_equal(result.scores) for result in results)
    if mean <= 0 and depends:
        print(
            "note: on validation it ranks no better than random choice (Kendall's tau "
            f'{mean:.3f}):\ntry a lower --lr, more epochs or more data'
        )


def _save(
    config: config_lib.AnyConfig,
    checkpoint: checkpoints.Unfinished,
    content: text.JsonObject,
    trainer: Optional['loop.Trainer'],
    trees: trees_lib.Trees | None,
) -> run_files.RunFile:
    """Saves the run; returns it with the predictions that its file may be without."""
    now = datetime.datetime.now().astimezone()
    content.update(
        training_key=checkpoint.key,
        started=checkpoint.started,
        # Not in seconds: `latest` tells runs of one second apart.
        finished=now.isoformat(timespec='milliseconds'),
        seconds=round(checkpoint.seconds, 1),
    )
    model, code = trainer and trainer.model, checkpoint.code
    content['code'] = code_files.described(code)
    run = saved.save(config.out_dir, checkpoint.run_hash, content, model, trees, code)
    return run_files.RunFile(run.model_dir, content)


def _write_ranking(run: run_files.RunFile, config: config_lib.AnyConfig) -> None:
    """Writes the CSV, and prints where model, run file and CSV are."""
    if not run.info['test_predictions']:
        print(f'note: {run.model_dir} has no predictions: `tpugraphs predict`')
        return
    rows = [
        submission.RankingRow(graph_id, tuple(configs))
        for graph_id, configs in run.info['test_predictions'].items()
    ]
    places = {'model:': [run.model_dir], 'run:': [run.file], 'ranking:': []}
    paths = _csv_paths(config, run.info['started'])
    for path, part in zip(paths, config.collection.parts):
        of_part = [row for row in rows if row.collection == part.name]
        submission.write_predictions(path, of_part)
        places['ranking:'].append(files.expand(path))
    for name, written in places.items():
        for path in written:
            print(f'{name:<8} {files.shown(path)}')


def _csv_paths(config: config_lib.AnyConfig, started: int = 0) -> list[str]:
    """Returns the paths of the rankings of the collections of a training.

    Args:
        started: start time of the training, milliseconds since 1970.
    """
    parts = config.collection.parts
    if config.results_csv and len(parts) == 1:
        return [config.results_csv]
    default = os.path.join(config.out_dir, f'results_{started:d}.csv')
    stem, ending = os.path.splitext(config.results_csv or default)
    return ['_'.join([stem, *part.flags.values()]) + ending for part in parts]


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that results depend on."""
    return {
        'python': platform.python_version(),
        'tensorflow': baselines.version('tensorflow'),
        'tensorflow_gnn': baselines.version('tensorflow_gnn'),
        'numpy': np.__version__,
    }
