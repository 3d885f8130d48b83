"""Several trainings as one: the folds of cross-validation, and several seeds.

    train_all(config.TileConfig(sample_data=True, folds=5, seeds=2))

Each of `folds` models validates on the fold that it was not trained on, so that
together they score all graphs of train and valid: the out-of-fold scores.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import hashlib
import itertools
import os
import shlex
import statistics
from typing import NamedTuple
import zipfile

import numpy as np

from baselines import config as config_lib
from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import measuring
from baselines.scoring import prediction
from baselines.tasks import lookup
from baselines.training import progress
from baselines.training import run_training

# Called after each epoch with the number of the training, from 0, and its state.
AfterEpoch = Callable[[int, progress.State], None]
_CHOSEN = (
    'The epoch of each fold was chosen on the fold that judges it, which flatters a '
    'little;\n--fold_epochs=same takes one number of epochs for all.'
)
_SAME = 'All folds were trained for the same number of epochs, {}, the best on average.'


class _Fold(NamedTuple):
    """A fold, scored by the run that was not trained on it."""

    run: run_files.RunFile
    results: list[report.GraphResult]
    test_ids: Sequence[str]
    test_scores: list[np.ndarray]  # of each test graph [configurations]


def train_all(
    config: config_lib.AnyConfig,
    command: str = '',
    after_epoch: AfterEpoch = lambda number, state: None,
) -> float:
    """Trains a model for each seed and fold; prints tables, and writes the scores.

    Args:
        config: the settings; --resume keeps the trainings that are finished.
        command: the command line that started it.

    Returns:
        The mean over the seeds of the measure that chooses epochs, OPA or Kendall's
        tau: out of fold where there are folds, else on the validation split.

    Raises:
        ValueError: the settings or the data are unusable, or nothing was validated.
        OSError: something cannot be written.
    """
    _check_settings(config)
    numbers = itertools.count()

    def train(settings: config_lib.AnyConfig) -> run_files.RunFile:
        report_epoch = functools.partial(after_epoch, next(numbers))
        return finding.load(
            run_training.train(settings, command=command, after_epoch=report_epoch)
        )

    scores: list[float] = []
    # By collection and seed, the figures of all graphs.
    figures: dict[str, dict[str, text.JsonObject]] = {}
    for seed in range(config.seed, config.seed + config.seeds):
        one = dataclasses.replace(config, seed=seed, folds=0, seeds=1, fold_epochs='')
        if config.folds:
            name = config.collection.name
            whole = _cross_validate(one, config.folds, config.fold_epochs, train)
            measured = {name: whole}
            score = whole[lookup.TASKS[config.collection.task].judged_by]['mean']
            if score is None:
                raise ValueError('nothing to compare: no out-of-fold score is defined')
        else:
            run = train(one)
            if run.validation_score is None:
                raise ValueError('nothing to compare: validation has no runtimes')
            score = run.validation_score[1]
            measured = _measure_validation(run, config) if config.seeds > 1 else {}
        scores.append(score)
        for name, overall in measured.items():
            figures.setdefault(name, {})[str(seed)] = overall
    if config.seeds > 1:
        for name, by_seed in figures.items():
            print(f'{"out of fold" if config.folds else "valid"} of {name}')
            print('\n'.join(_format_table(config.collection.task, 'seed', by_seed)))
        name = config.run_id or config.model
        words = ['evaluate', '--compare', name, 'OTHER', '--out_dir', config.out_dir]
        words += ['--models_file', config.models_file] * bool(config.models_file)
        print(f'compare: {shlex.join(["tpugraphs", *words])}')
    return statistics.fmean(scores)


def _check_settings(config: config_lib.AnyConfig) -> None:
    """Raises ValueError for settings that do not fit several trainings."""
    if config.fold and config.folds:
        raise ValueError('--folds trains all folds: drop --fold')
    if config.fold_epochs and (config.trees or config.model == registry.TREES):
        raise ValueError('--fold_epochs=same: trees have no epochs to share')
    if config.fold_epochs and not config.folds:
        raise ValueError('--fold_epochs needs --folds')
    if config.strategy == 'workers':
        raise ValueError('--strategy=workers is for one training at a time')
    if config.results_csv:
        raise ValueError('--results_csv is for one training: several write one each')


def _cross_validate(
    config: config_lib.AnyConfig,
    count: int,
    epochs: str,
    train: Callable[[config_lib.AnyConfig], run_files.RunFile],
) -> text.JsonObject:
    """Trains all folds with one seed; returns the out-of-fold figures of all graphs.

    Args:
        epochs: 'same', or '' for the best ones of each fold.
    """
    folds = [dataclasses.replace(config, fold=f'{i + 1}/{count}') for i in range(count)]
    runs, last = [train(fold) for fold in folds], _CHOSEN
    if epochs:
        best = _find_best_epochs(runs)
        last = _SAME.format(best)
        # Without validation a training keeps its last epoch.
        same: text.JsonObject = {'epochs': best, 'validate_batches': 0}
        shared = [dataclasses.replace(fold, **same) for fold in folds]
        runs = [finding.load(run_training.train(fold)) for fold in shared]
    scored = [_score_fold(run, config) for run in runs]
    pooled = [result for fold in scored for result in fold.results]
    name = hashlib.sha256(' '.join(run.hash for run in runs).encode()).hexdigest()[:32]
    path = os.path.join(files.expand(config.out_dir), f'folds_{name}')
    _write_scores(f'{path}.npz', pooled)
    # Of each test graph the scores by all folds.
    averaged = map(ensembles.average, zip(*(fold.test_scores for fold in scored)))
    ids, collection = scored[0].test_ids, config.collection
    rows = submission.make_rows(collection.name, ids, averaged)
    submission.write_predictions(f'{path}.csv', rows)
    summarise = functools.partial(report.summarise, collection.task, by_group=False)
    whole = summarise(pooled)['overall']
    of_folds = {f.run.args['fold']: summarise(f.results)['overall'] for f in scored}
    print('\n'.join(_format_table(collection.task, 'fold', of_folds, whole)))
    print(f'out-of-fold scores: {files.format_path(path)}.npz')
    print(f'ranking of test, by the mean of the folds: {files.format_path(path)}.csv')
    print(last)
    return whole


def _find_best_epochs(runs: Sequence[run_files.RunFile]) -> int:
    """Returns the number of epochs with the best validation score, mean over runs."""
    curves = [run.curve.get('val_tau') or run.curve['val_opa'] for run in runs]
    # [epochs that all runs have, runs].
    scores = np.array([*zip(*curves)], np.float64)
    if np.isnan(scores).any():
        raise ValueError('--fold_epochs needs validation: see --validate_batches')
    return int(scores.mean(axis=1).argmax()) + 1


def _make_options(config: config_lib.AnyConfig) -> prediction.Options:
    """Returns the options for scoring the data of a training."""
    return prediction.Options(
        cache_dir=config.cache_dir, models_file=config.models_file
    )


def _measure_validation(
    run: run_files.RunFile, config: config_lib.AnyConfig
) -> dict[str, text.JsonObject]:
    """Measures validation: by collection, the figures of all graphs."""
    measurer = measuring.Measurer('valid', by_group=False)
    predictors = prediction.find_all([run.model_dir], _make_options(config)).values()
    return {
        p.collection.name: measurer.measure(p, measurer.open(p))[0]['overall']
        for p in predictors
    }


def _score_fold(run: run_files.RunFile, config: config_lib.AnyConfig) -> _Fold:
    """Scores the graphs of a run's own fold and of the test split."""
    part = run.collection.select_part('', run.model_dir)
    predictor = prediction.Predictor(part, _make_options(config), run)
    valid, test = predictor.open_split('valid'), predictor.open_split('test')
    results = report.join_results(valid, predictor.score(valid))
    return _Fold(run, results, test.graph_ids, list(predictor.score(test)))


def _write_scores(path: str, results: Sequence[report.GraphResult]) -> None:
    """Writes scores as npz: graph ID -> float [configurations]; raises OSError."""
    with files.write_atomically(path, 'wb') as stream:
        with zipfile.ZipFile(stream, 'w') as archive:
            # Not `savez`, which cannot name an array "file".
            for result in results:
                with archive.open(f'{result.graph_id}.npy', 'w') as member:
                    np.lib.format.write_array(member, np.asarray(result.scores))


def _format_table(
    task: str,
    noun: str,
    figures: Mapping[str, text.JsonObject],
    whole: text.JsonObject | None = None,
) -> list[str]:
    """Lays out the figures of each fold or seed, and their mean and deviation.

    Args:
        noun: 'fold' or 'seed'.
        figures: of all graphs together, by the name of a row.
        whole: the figures of all graphs, each scored out of its fold.
    """
    measures = metrics.MEASURES[task]
    # [folds or seeds, measures]; NaN where a measure is not defined.
    values = np.array(
        [[f[m.key]['mean'] for m in measures] for f in figures.values()], float
    )
    rows = dict(zip(figures, values))
    rows['mean'], rows['deviation'] = values.mean(axis=0), values.std(axis=0, ddof=1)
    rules = [1, 1 + len(figures)]
    if whole:
        rules.append(1 + len(rows))
        fields = {'out of fold': 'mean', '95 % from': 'low', 'to': 'high'}
        for name, key in fields.items():
            rows[name] = np.array([whole[m.key][key] for m in measures], float)
    table = [[noun, *(measure.title for measure in measures)]]
    for name, row in rows.items():
        table.append([name, *('-' if np.isnan(x) else f'{x:.3f}' for x in row)])
    return text.format_table(table, '<>', rules=rules)
