"""Searches settings: Optuna draws them, and each trial trains with them.

    trials.run_sweep(config.TileConfig(out_dir='~/out'), trials.SweepOptions(trials=9))

The same call in another process, or on another machine with the same storage, joins.
"""

from collections.abc import Collection, Iterator
import contextlib
import dataclasses
import os
import re
import shlex
import statistics
import sys
import time
import traceback
from typing import Any
import warnings

import optuna
from optuna import samplers
from optuna.trial import FrozenTrial
import sqlalchemy

from baselines import config as config_lib
from baselines import recipes
from baselines.core import files
from baselines.core import text
from baselines.core.settings import setting
from baselines.runs import differences
from baselines.training import progress
from tpugraphs.sweep import space as space_lib

# A running trial shows every 10 s that it is alive; after 60 s without, it counts as
# failed, and its settings are tried again.
_HEARTBEAT: dict[str, Any] = {'heartbeat_interval': 10, 'grace_period': 60}
# What may differ between machines that share a sweep.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'memory_budget')
_ENOUGH = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep."""

    space: str = setting('', 'search what this TOML file says (docs/guide/sweeps.md)')
    storage: str = setting('', 'use the database of this URL (default: in --out_dir)')
    study: str = setting('', "use this name there (default: the collection's)")
    trials: int = setting(40, 'run this many trials, of all processes together', low=1)
    minutes: float = setting(0.0, 'start no trial later; 0: no limit', low=0)
    no_pruning: bool = setting(False, 'train every trial to its end')
    json: bool = setting(False, 'print JSON instead of a table')


def retry_trial(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queues the settings of a lost trial, unless they were lost twice before."""
    # Made here, as its constructor warns on import.
    optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=2)(study, trial)


def make_default_storage(out_dir: str) -> str:
    """Returns the URL of the SQLite file of a sweep whose runs are in `out_dir`."""
    path = os.path.join(files.expand(out_dir), 'sweep.db')
    return sqlalchemy.URL.create('sqlite', database=path).render_as_string()


@contextlib.contextmanager
def translate_errors(storage: str) -> Iterator[None]:
    """Makes errors of a storage in the block a ValueError, without its password.

    Optuna prints nothing meanwhile.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # about experimental features
            yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        # user:password@host: the password stays out of messages.
        shown = re.sub(r'://([^:@/]*):[^@]*@', r'://\1:***@', storage)
        why = text.one_line(error.__cause__ or error).replace(storage, shown)
        raise ValueError(f'--storage {shown} cannot be used: {why}') from error


def _open_storage(storage: str, attempts: int = 4) -> optuna.storages.RDBStorage:
    """Opens a database by its URL."""
    # Seconds to wait for another process that writes to a SQLite file.
    wait = {'connect_args': {'timeout': 60}} if storage.startswith('sqlite') else {}
    try:
        return optuna.storages.RDBStorage(
            storage, wait, heartbeat_stale_trial_callback=retry_trial, **_HEARTBEAT
        )
    except sqlalchemy.exc.DBAPIError:
        if not attempts:
            raise
    # Processes that start together make the tables of a new database together.
    time.sleep(1)
    return _open_storage(storage, attempts - 1)


def create_study(
    storage: str, name: str, definition: text.JsonObject, most_epochs: int
) -> optuna.Study:
    """Opens the study of a sweep to join it, or makes it.

    Args:
        definition: collection, space and options, of JSON's types; it is stored in the
            study, and everyone who joins must have the same.
        most_epochs: epochs of a training, for asynchronous successive halving, which
            ends bad trials early; 0 to end none.

    Raises:
        ValueError: the storage has another sweep of that name.
    """
    # One trial of three goes on at each rung: at a ninth of the epochs and at a third.
    halving = optuna.pruners.SuccessiveHalvingPruner(max(1, most_epochs // 9), 3)
    study = optuna.create_study(
        storage=_open_storage(storage),
        # Without a seed: processes that share a study would draw the same trials.
        # constant_liar: trials that run elsewhere count as bad, so others are drawn.
        sampler=samplers.TPESampler(multivariate=True, group=True, constant_liar=True),
        pruner=halving if most_epochs else optuna.pruners.NopPruner(),
        study_name=name,
        direction='maximize',
        load_if_exists=True,
    )
    if not study.trials:
        study.set_user_attr('definition', definition)
    stored = study.user_attrs.get('definition', {})
    if stored != definition:
        raise ValueError(
            f'there is another sweep {name}: its settings are {stored}, not '
            f'{definition}; choose another --study or --out_dir'
        )
    return study


def load_study(storage: str, name: str) -> optuna.Study:
    """Opens the study of a sweep to look at it.

    Args:
        name: name of the study; '' for the only one there is.

    Raises:
        ValueError: the storage cannot be used, or has no such study.
    """
    try:
        with translate_errors(storage):
            url = sqlalchemy.make_url(storage)
            if url.drivername == 'sqlite' and not os.path.isfile(url.database or ''):
                raise ValueError(f'--storage: there is no file {url.database}')
            opened = _open_storage(storage)
            return optuna.load_study(study_name=name or None, storage=opened)
    except KeyError:
        raise ValueError(f'{storage} has no --study {name!r}') from None


def show_trials(study: optuna.Study, as_json: bool) -> None:
    """Prints the trials of a sweep: a table, or a list of objects as JSON."""
    if as_json:
        print(text.to_json([_describe_trial(trial) for trial in study.trials]))
        return
    rows = [['trial', 'state', 'score', 'seconds', 'settings']]
    rows += map(_format_row, study.trials)
    print(*text.format_table(rows, '><>><', rules=[1]), _format_best(study), sep='\n')


def _format_row(trial: FrozenTrial) -> list[str]:
    """Returns the cells of a trial in the table of all."""
    number, state, score, seconds, settings, reason = _describe_trial(trial).values()
    figures = text.format_value(score, '.3f'), text.format_value(seconds, '.1f')
    shown = f'{differences.format_settings(settings)}; {reason}'.rstrip('; ')
    return [str(number), state, *figures, shown]


def _format_best(study: optuna.Study) -> str:
    """Names the best trial of a sweep and its score; '' if none is complete."""
    if not study.get_trials(states=_ENOUGH[:1]):
        return ''
    return f'best: {study.best_value:.3f}, trial {study.best_trial.number}'


def _describe_trial(trial: FrozenTrial) -> text.JsonObject:
    """Describes a trial, as `--json` has it."""
    return {
        'number': trial.number,
        'state': trial.state.name.lower(),
        'score': trial.value,
        'seconds': trial.duration and trial.duration.total_seconds(),
        'settings': trial.params,
        'reason': trial.user_attrs.get('reason', ''),
    }


def _run_trial(trial: optuna.Trial, space: space_lib.Space, best_file: str) -> float:
    """Trains the models of an Optuna trial, with seeds of their own.

    Args:
        best_file: path of the recipe with the best settings; runs are next to it.

    Raises:
        optuna.TrialPruned: it falls behind.
        KeyboardInterrupt: Ctrl-C was pressed; its settings are queued again.
    """
    base, study = space.base, trial.study
    # Settings that are tried again stay in the folder of the first attempt.
    attributes = study.trials[trial.number].system_attrs
    number = attributes.get('failed_trial', trial.number)
    folder = os.path.join(os.path.dirname(best_file), f'trial_{number:04d}')
    best: dict[int, float] = {}  # by the number of the training

    def report(number: int, state: progress.State) -> None:
        best[number] = state.best_score
        # A step is the same epoch of the same training in every trial.
        step = number * config.epochs + state.epochs_done
        trial.report(statistics.fmean(best.values()), step)
        if trial.should_prune():
            raise optuna.TrialPruned

    os.makedirs(folder, exist_ok=True)
    output = sys.stdout
    with (
        open(os.path.join(folder, 'log.txt'), 'a', encoding='utf-8') as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            drawn = space.suggest_settings(trial)
            shown = differences.format_settings(trial.params)
            print(f'trial {trial.number}: {shown}: starts', file=output, flush=True)
            # With a recipe, --configs is lowered to the number that the data have.
            drawn |= {'resume': True, 'recipe': best_file, 'out_dir': folder}
            drawn |= {'run_id': f'{study.study_name} trial {trial.number}'}
            drawn['seed'] = base.seed + trial.number * base.seeds
            config = config_lib.check_config(dataclasses.replace(base, **drawn))
            from baselines.training import cross_validation

            return cross_validation.train_all(config, after_epoch=report)
        except KeyboardInterrupt:
            retry_trial(study, study.trials[trial.number])
            raise
        except Exception as error:
            if not isinstance(error, optuna.TrialPruned):
                traceback.print_exc()
                trial.set_user_attr('reason', text.one_line(error))
            raise


def run_sweep(
    base: config_lib.AnyConfig, options: SweepOptions, given: Collection[str] = ()
) -> None:
    """Runs a sweep, or joins one; prints its trials and the command to train next.

    With --json, output of the trials goes to stderr.

    Args:
        base: a `TileConfig` or `LayoutConfig`: the settings that are not drawn.
        given: names of settings of `base` that are not searched.

    Raises:
        ValueError: the space or the storage cannot be used, or no trial can be trained.
        OSError: the runs cannot be written.
        KeyboardInterrupt: Ctrl-C was pressed; the same call goes on.
    """
    space = space_lib.read_space(options.space, base, given)
    files.check_writable(base.out_dir)
    name = options.study or base.collection.name
    storage = options.storage or make_default_storage(base.out_dir)
    changed = config_lib.list_changed(base)
    definition = {n: value for n, value in changed.items() if n not in _PLACES}
    definition['space'] = space.source
    epochs = 0 if options.no_pruning else space.fixed.get('epochs', base.epochs)
    best_file = os.path.join(files.expand(base.out_dir), 'best.json')

    def write_best(study: optuna.Study, trial: FrozenTrial) -> None:
        ended = [t.state.name for t in study.trials if t.state.is_finished()]
        number, state, score, seconds, shown = _format_row(trial)
        line = f'trial {number}: {shown}: {state}, {score} after {seconds} s'
        print(f'{line}; {_format_best(study)}'.rstrip('; '), flush=True)
        if len(ended) >= 3 and {*ended} == {'FAIL'}:  # the sweep itself is wrong
            study.stop()
        if 'COMPLETE' in ended:
            settings = {**changed, **space.join_settings(study.best_params)}
            best = {'study': name, 'trial': study.best_trial.number}
            best['score'] = study.best_value
            recipes.write_recipe(best_file, base.collection.name, settings, best)

    kept = f'kept the trials in {files.format_path(base.out_dir)}'
    output = sys.stderr if options.json else sys.stdout
    with translate_errors(storage):
        study = create_study(storage, name, definition, epochs)
        if not study.trials:
            study.enqueue_trial(space.find_defaults())
        enough = optuna.study.MaxTrialsCallback(options.trials, _ENOUGH)
        with text.mark_interrupts(kept), contextlib.redirect_stdout(output):
            study.optimize(
                lambda trial: _run_trial(trial, space, best_file),
                max(options.trials - len(study.get_trials(states=_ENOUGH)), 0),
                timeout=60 * options.minutes or None,
                catch=(Exception,),
                callbacks=[write_best, enough],
                # A model has cycles, which keep its memory.
                gc_after_trial=True,
            )
        if not study.get_trials(states=_ENOUGH[:1]):
            reasons = {t.user_attrs.get('reason', '-') for t in study.trials}
            raise ValueError(f'no trial was complete: {"; ".join(sorted(reasons))}')
        show_trials(study, options.json)
    flags = [f'--recipe={best_file}', *config_lib.format_data_flags(base)]
    train = shlex.join(['tpugraphs', 'train', base.collection.task, *flags])
    print(f'next: {train}', file=output)
