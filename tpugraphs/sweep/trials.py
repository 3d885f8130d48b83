"""Searches settings: Optuna draws them, and each trial trains with them.

    trials.run(config.TileConfig(out_dir='~/out/sweep'), trials.SweepOptions(trials=9))

The same call in another process, or on another machine with the same storage, joins.
"""

from __future__ import annotations

from collections.abc import Collection
import contextlib
import dataclasses
import os
import shlex
import statistics
import traceback

import optuna

from baselines import config as config_lib
from baselines import recipes
from baselines.core import files
from baselines.core import text
from baselines.core.settings import setting
from baselines.training import progress
from tpugraphs.sweep import space as space_lib
from tpugraphs.sweep import study as study_lib

# What may differ between machines that share a sweep.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'memory_budget')
_ENOUGH = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
# A sweep whose first so many trials all failed is wrong.
_MOST_FAILED = 3


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep."""

    space: str = setting('', 'What is searched, a TOML file.')
    storage: str = setting('', 'URL of a database; by default, a file in --out_dir.')
    study: str = setting('', "Its name there; by default, the collection's.")
    trials: int = setting(40, 'Trials of the sweep, by all who join.', low=1)
    minutes: float = setting(0.0, 'Begin no trial later; 0: no limit.', low=0)
    no_pruning: bool = setting(False, 'Train every trial to its end.')
    json: bool = setting(False, 'Accepted: `sweep show` always prints JSON.')


class Objective:
    """Trains the models of an Optuna trial and returns their score.

    Args:
        base: the settings that are not drawn.

    Attributes:
        best_file: the path of the recipe with the best settings.
    """

    def __init__(self, space: space_lib.Space, base: config_lib.AnyConfig):
        self._space, self._base = space, base
        self.best_file = os.path.join(files.expand(base.out_dir), 'best.json')

    def __call__(self, trial: optuna.Trial) -> float:
        """Trains an Optuna trial; its attribute REASON says why it failed.

        Raises:
            optuna.TrialPruned: it falls behind.
            KeyboardInterrupt: Ctrl-C was pressed; its settings are queued again.
        """
        # Settings that are tried again stay in the folder of the first attempt.
        attributes = trial.study.trials[trial.number].system_attrs
        number = attributes.get('failed_trial', trial.number)
        folder = os.path.join(os.path.dirname(self.best_file), f'trial_{number:04d}')
        os.makedirs(folder, exist_ok=True)
        with (
            open(os.path.join(folder, 'log.txt'), 'a', encoding='utf-8') as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            try:
                return self._score(trial, folder)
            except optuna.TrialPruned:
                raise
            except KeyboardInterrupt:
                study_lib.retry(trial.study, trial.study.trials[trial.number])
                raise
            except Exception as error:
                traceback.print_exc()
                trial.set_user_attr(study_lib.REASON, text.one_line(error))
                raise

    def _score(self, trial: optuna.Trial, folder: str) -> float:
        """Trains the models of a trial, with seeds of its own; returns the score."""
        from baselines.training import cross_validation

        drawn = self._space.suggest(trial, self._base)
        # As those of a recipe, the settings draw no more --configs than the data have.
        drawn |= {'resume': True, 'recipe': self.best_file, 'out_dir': folder}
        drawn |= {'seed': self._base.seed + trial.number * self._base.seeds}
        name = f'{trial.study.study_name} trial {trial.number}'
        config = config_lib.checked(
            dataclasses.replace(self._base, **drawn, run_id=name)
        )
        best: dict[int, float] = {}  # by the number of the training

        def report(number: int, state: progress.State) -> None:
            best[number] = state.best_score
            # A step is the same epoch of the same training in every trial.
            step = number * config.epochs + state.epochs_done
            trial.report(statistics.fmean(best.values()), step)
            if trial.should_prune():
                raise optuna.TrialPruned

        return cross_validation.train_all(config, after_epoch=report)

    def write_best(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        """Prints a trial that has ended; writes the best settings for --recipe."""
        print(study_lib.describe(trial), flush=True)
        ended = [t.state.name for t in study.trials if t.state.is_finished()]
        if len(ended) >= _MOST_FAILED and {*ended} == {'FAIL'}:
            study.stop()
        if 'COMPLETE' in ended:
            drawn = self._space.settings(study.best_params, self._base)
            settings = {**config_lib.changed(self._base), **drawn}
            best = {'study': study.study_name, 'trial': study.best_trial.number}
            best['score'] = study.best_value
            recipes.write(self.best_file, self._base.collection.name, settings, best)


def run(
    base: config_lib.AnyConfig, options: SweepOptions, given: Collection[str] = ()
) -> None:
    """Runs a sweep, or joins one; prints its trials and the command to train next.

    Args:
        base: a `TileConfig` or `LayoutConfig`: the settings that are not drawn.
        given: names of settings of `base` that are not searched.

    Raises:
        ValueError: the space or the storage cannot be used, or no trial can be trained.
        OSError: the runs cannot be written.
        KeyboardInterrupt: Ctrl-C was pressed; the same call goes on.
    """
    space = space_lib.read(options.space, type(base), given)
    files.check_writable(base.out_dir)
    name = options.study or base.collection.name
    storage = options.storage or study_lib.default_storage(base.out_dir)
    changed = config_lib.changed(base).items()
    definition = {n: value for n, value in changed if n not in _PLACES}
    definition.update(space=space.source)
    epochs = 0 if options.no_pruning else space.fixed.get('epochs', base.epochs)
    objective = Objective(space, base)
    kept = f'kept the trials in {files.shown(base.out_dir)}'
    with study_lib.using(storage), text.interruptible(kept):
        study = study_lib.create(storage, name, definition, epochs)
        if not study.trials:
            study.enqueue_trial(space.defaults(base))
        enough = optuna.study.MaxTrialsCallback(options.trials, states=_ENOUGH)
        study.optimize(
            objective,
            n_trials=max(options.trials - len(study.get_trials(states=_ENOUGH)), 0),
            timeout=60 * options.minutes or None,
            catch=(Exception,),
            callbacks=[objective.write_best, enough],
            gc_after_trial=True,
        )
        if not study.get_trials(states=_ENOUGH[:1]):
            reasons = {t.user_attrs.get(study_lib.REASON, '-') for t in study.trials}
            raise ValueError(f'no trial was complete: {"; ".join(sorted(reasons))}')
        print(f'best: {study_lib.describe(study.best_trial)}')
    flags = [f'--recipe={objective.best_file}', *config_lib.data_flags(base)]
    print(f'next: {shlex.join(["tpugraphs", "train", base.collection.task, *flags])}')
