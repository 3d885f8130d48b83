"""The jobs of `tpugraphs sweep`: search, and load the trials of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
import dataclasses
import os
import signal
from typing import Any
import warnings

import optuna

from baselines import config
from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.data import collections
from tpugraphs.sweep import results
from tpugraphs.sweep import space as space_lib
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import training
from tpugraphs.sweep import trials as trials_lib

# What may differ between machines that share a sweep.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'memory_budget')


def settings_of(name: str, given: Mapping[str, Any]) -> config.AnyConfig:
    """Returns the settings that all trials on a collection share, with their recipe.

    Raises:
        ValueError: a setting is not for the collection, or the recipe does not fit.
        OSError: the file of the recipe cannot be read.
    """
    collection = collections.of_name(name)
    config_class = config.CONFIGS[collection.task]
    names = {field.name for field in dataclasses.fields(config_class)}
    for flag, value in given.items():
        if flag not in names:
            meant = registry.suggest(flag, names)
            raise ValueError(f'--{flag} is not for {name}{meant}')
        if collection.flags.get(flag, value) != value:
            raise ValueError(f'--{flag}={value} is not {name}')
    given = {**collection.flags, **given}
    settings = config.with_recipe(config_class(**given), given)
    return dataclasses.replace(settings, recipe='')


def run(
    base: config.AnyConfig,
    options: trials_lib.SweepOptions,
    train: training.Train = training.train_model,
    given: Collection[str] = (),
) -> None:
    """Runs a sweep, or joins one; prints its trials and the command to train next.

    Args:
        base: a `TileConfig` or `LayoutConfig`: the settings that are not drawn.
        train: see `training.train_model`.
        given: names of settings of `base` that are not searched.

    Raises:
        ValueError: the space or the storage cannot be used, or no trial can be
            trained.
        OSError: the runs cannot be written.
        KeyboardInterrupt: Ctrl-C was pressed; the same call goes on.
    """
    collection = base.collection.name
    space_file = options.space or space_lib.shipped(base.collection.task)
    space = space_lib.read(space_file, type(base))
    fixed = [name for name in space.source if name in given]
    if fixed:
        space = space.without(fixed)
        values = ' '.join(f'{name}={getattr(base, name)}' for name in fixed)
        print(f'not searched, as given: {values}')
    name = options.study or collection
    os.makedirs(files.expand(base.out_dir), exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = options.storage or study_lib.default_storage(base.out_dir)
    with warnings.catch_warnings(), study_lib.errors_of(storage, study_lib.FAILURES):
        warnings.simplefilter('ignore')  # what is experimental, and odd defaults
        study = study_lib.create(
            storage,
            name,
            {
                'collection': collection,
                'space': space.source,
                'settings': {
                    name: value
                    for name, value in results.changed_settings(base).items()
                    if name not in _PLACES
                },
                'seeds': options.seeds,
                'folds': options.folds,
                'pruning': options.pruning,
            },
            base.seed,
            space.most_epochs(base) if options.pruning else 0,
        )
        with files.joined(
            files.expand(base.out_dir),
            # Who joins by --storage may have another --out_dir.
            lambda: None if options.storage else study_lib.retry_running(study),
        ):
            _go_on(study, space, base, options, train)
        failure = study_lib.common_failure(study)
        if failure:
            raise ValueError(
                f'all of the first trials failed: {failure}; begin again with another '
                '--study or --out_dir'
            )
        print('\n'.join(results.table(study)))
        if study_lib.best_trial(study):
            print(f'next: {results.training_command(base)}')


def _go_on(
    study: optuna.Study,
    space: space_lib.Space,
    base: config.AnyConfig,
    options: trials_lib.SweepOptions,
    train: training.Train,
) -> None:
    """Runs the trials that are left; arguments are as of `run`."""
    ended = len(study_lib.ended_trials(study))
    if ended:
        done = f'{ended} of {text.count(options.trials, "trial")}'
        print(f'{study.study_name}: done before: {done}; going on')
    elif not study.trials:
        study.enqueue_trial(space.defaults(base))
    if ended < options.trials:
        cores = shared_cores(min(options.workers, options.trials - ended))
        objective = trials_lib.Objective(space, base, options, cores, train)
        with text.interruptible(f'kept the trials in {files.shown(base.out_dir)}'):
            _optimize(study, objective)


def _optimize(study: optuna.Study, objective: trials_lib.Objective) -> None:
    """Runs trials until the sweep has them all, or the first ones fail alike.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; trials that ran are queued again.
        ValueError: a worker has ended without a reason.
    """
    num_trials = objective.options.trials

    def is_enough(study: optuna.Study) -> bool:
        ended = len(study_lib.ended_trials(study))
        return ended >= num_trials or bool(study_lib.common_failure(study))

    def after_trial(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        print(results.line(trial), flush=True)
        results.write_best(study, objective)
        if is_enough(study):
            study.stop()

    # Threads of Optuna, which wait for the processes that train, do not see Ctrl-C.
    before = signal.signal(signal.SIGINT, lambda *_: objective.interrupted.set())
    try:
        study.optimize(
            objective,
            n_trials=num_trials - len(study_lib.ended_trials(study)),
            n_jobs=objective.workers,
            catch=(trials_lib.TrialFailed,),
            callbacks=[after_trial],
        )
    finally:
        signal.signal(signal.SIGINT, before)
    if objective.interrupted.is_set():
        raise KeyboardInterrupt
    if not is_enough(study):  # Optuna keeps errors of its last threads to itself
        raise ValueError('a worker has ended early; the same command goes on')


def load(storage: str, name: str) -> optuna.Study:
    """Loads a sweep, to show its trials; raises ValueError if there is none.

    Args:
        name: of the study; '' for the only one there is.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # what is experimental
        return study_lib.load(storage, name)


def shared_cores(workers: int) -> list[list[int]]:
    """Returns the cores of each worker; workers share cores if there are too few."""
    if not hasattr(os, 'sched_getaffinity'):
        return [[] for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i::workers] or [cores[i % len(cores)]] for i in range(workers)]
