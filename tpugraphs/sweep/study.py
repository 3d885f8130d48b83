"""A sweep as an Optuna study: its storage, its sampler and pruner, its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import contextlib
import os
import re
import threading
import time
from typing import Any
import urllib.parse
import warnings

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial
import sqlalchemy

from baselines.core import files
from baselines.core import text

# Seconds between two signs of life of a running trial, and without one until the
# trial counts as lost and its settings are tried again, at most so often.
HEARTBEAT = 10
GRACE = 60
_MOST_RETRIES = 2
# Seconds that a process waits for another one that writes to a SQLite file.
_LOCK_TIMEOUT = 60
# Attempts to open a database whose tables another process is making, and the seconds
# in between.
_ATTEMPTS = 4
_TABLES_TIME = 1
# Of so many trials, one goes on at each rung of successive halving.
_REDUCTION = 3
# Trials at random before the sampler has an opinion.
_STARTUP_TRIALS = 8
# A sweep whose first so many trials all failed for one reason is wrong.
_ALIKE = 3
# Complete trials from which on the importance of settings is told.
FEW_TRIALS = 10
# What a database raises that is full, locked or gone.
FAILURES = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)
# Attribute of a study, see `create`.
_DEFINITION = 'definition'
# Attribute of a trial: why it failed.
REASON = 'reason'


def default_storage(out_dir: str) -> str:
    """Returns the URL of the SQLite file of a sweep whose runs are in `out_dir`.

    Raises:
        ValueError: SQLAlchemy cannot open a file there.
    """
    path = os.path.join(files.expand(out_dir), 'sweep.db')
    # SQLAlchemy 2.1 reads a path as URLs escape it, 2.0 as it is.
    if sqlalchemy.engine.make_url('sqlite:///%20').database == ' ':
        path = urllib.parse.quote(path)
    elif '?' in path:
        raise ValueError(
            f'--out_dir={out_dir}: SQLAlchemy before 2.1 opens no file in a folder '
            'with a "?" in its name; use another folder'
        )
    return f'sqlite:///{path}'


def best_file(out_dir: str) -> str:
    """Returns the path of the recipe with the best settings of a sweep."""
    return os.path.join(files.expand(out_dir), 'best.json')


class _Database(optuna.storages.RDBStorage):
    """A database whose queue gives a trial to one thread, on any disk.

    SQLite locks no rows: threads that start together would all take the first one.  A
    sign of life that a full disk does not take is one that is missing.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._lock = threading.Lock()

    def set_trial_state_values(self, *args: Any, **kwargs: Any) -> bool:
        """Sets the state of a trial; False where another thread runs it."""
        with self._lock:
            return super().set_trial_state_values(*args, **kwargs)

    def record_heartbeat(self, trial_id: int) -> None:
        """Records a sign of life; one that cannot be recorded counts as missing.

        It is called on a thread of Optuna, which would print the error.
        """
        with contextlib.suppress(*FAILURES):
            super().record_heartbeat(trial_id)


class _Sampler(optuna.samplers.BaseSampler):
    """Draws each trial with a seed of its own.

    So a sweep that was interrupted goes on as if it had not been.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._samplers: dict[int, optuna.samplers.TPESampler] = {}  # by trial

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Makes the trial's sampler."""
        place = sum(earlier.number < trial.number for earlier in trials_of(study))
        self._samplers[trial.number] = optuna.samplers.TPESampler(
            n_startup_trials=_STARTUP_TRIALS,
            multivariate=True,
            group=True,
            constant_liar=True,
            seed=(self._seed + 1000 * place) % 2**32,
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Returns the settings that are drawn together."""
        sampler = self._samplers[trial.number]
        return sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Draws settings together."""
        sampler = self._samplers[trial.number]
        return sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draws one setting."""
        sampler = self._samplers[trial.number]
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Drops the trial's sampler."""
        self._samplers.pop(trial.number, None)


def open_storage(storage: str) -> optuna.storages.BaseStorage:
    """Opens a database by its URL.

    A running trial has a heartbeat; a trial whose heartbeat stops has failed, and its
    settings are tried again.

    Raises:
        ValueError: the storage cannot be used.
    """
    with errors_of(storage):
        is_sqlite = storage.startswith('sqlite')
        arguments = {'timeout': _LOCK_TIMEOUT} if is_sqlite else {}
        template = storage.replace('{', '{{').replace('}', '}}')  # Optuna formats it
        make = lambda: _Database(
            template,
            engine_kwargs={'connect_args': arguments},
            heartbeat_interval=HEARTBEAT,
            grace_period=GRACE,
            heartbeat_stale_trial_callback=_queue_again,
        )
        for _ in range(_ATTEMPTS - 1):
            try:
                return make()
            except FAILURES as error:
                if not _is_made_now(error):
                    raise
                time.sleep(_TABLES_TIME)
        return make()


def _is_made_now(error: BaseException | None) -> bool:
    """Returns whether an error says that another process has just made the tables."""
    while error is not None:
        is_there_already = 'already exists' in str(error)
        if is_there_already or isinstance(error, sqlalchemy.exc.IntegrityError):
            return True
        error = error.__cause__
    return False


def _queue_again(study: optuna.Study, trial: FrozenTrial) -> None:
    """Puts the settings of a lost trial into the queue, unless they were often lost."""
    optuna.storages.RetryHeartbeatStaleTrialCallback(_MOST_RETRIES)(study, trial)


def retry_running(study: optuna.Study) -> None:
    """Queues the settings of all running trials, whose processes were killed."""
    for trial in trials_of(study, 'RUNNING'):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        _queue_again(study, study.trials[trial.number])


def create(
    storage: str, name: str, definition: text.JsonObject, seed: int, most_epochs: int
) -> optuna.Study:
    """Opens the study of a sweep to go on with it, or makes it.

    Args:
        definition: collection, space and options, of JSON's types; it is stored in the
            study, and everyone who joins must have the same.
        seed: of the sampler, together with the number of the trial.
        most_epochs: of a training, for asynchronous successive halving, which ends
            bad trials early; 0 to end none.

    Raises:
        ValueError: the storage cannot be used, or has another sweep of that name.
    """
    opened = open_storage(storage)
    with errors_of(storage):
        study = optuna.create_study(
            storage=opened, study_name=name, direction='maximize', load_if_exists=True
        )
        trials = len(study.get_trials(deepcopy=False))
        if not trials and _DEFINITION not in study.user_attrs:
            study.set_user_attr(_DEFINITION, dict(definition))
        stored = study.user_attrs.get(_DEFINITION)
    if not isinstance(stored, dict):
        raise ValueError(f'--study {name} is no sweep of ours; choose another name')
    for key, value in definition.items():
        if stored.get(key) != value:
            theirs, ours = (
                text.shortened(str(v), 60) for v in (stored.get(key), value)
            )
            raise ValueError(
                f'there is another sweep {name}: its {key} is {theirs}, not {ours}; '
                'choose another --study or --out_dir'
            )
    _check(study, storage)
    study.sampler = _Sampler(seed)
    study.pruner = optuna.pruners.NopPruner()
    if most_epochs:
        # Two rungs before the last epoch: at a ninth of the epochs and at a third.
        first = max(1, most_epochs // _REDUCTION**2)
        study.pruner = optuna.pruners.SuccessiveHalvingPruner(first, _REDUCTION)
    return study


def load(storage: str, name: str) -> optuna.Study:
    """Opens the study of a sweep to look at it.

    Args:
        name: of the study; '' for the only one there is.

    Raises:
        ValueError: the storage cannot be used, or has no such study.
    """
    if storage.startswith('sqlite:///'):
        path = sqlalchemy.engine.make_url(storage).database or ''
        if not os.path.isfile(files.expand(path)):
            raise ValueError(f'--storage: there is no file {path}')
    opened = open_storage(storage)
    with errors_of(storage):
        names = optuna.get_all_study_names(opened)
        if not all(isinstance(found, str) for found in names):
            raise ValueError('the name of a study is no text')
        names.sort()
    name = names[0] if len(names) == 1 and not name else name
    if name not in names:
        there = ', '.join(names) or 'none'
        raise ValueError(f'there is no --study {name!r}; there are: {there}')
    with errors_of(storage):
        study = optuna.load_study(study_name=name, storage=opened)
    _check(study, storage)
    return study


def _check(study: optuna.Study, storage: str) -> None:
    """Raises ValueError where a study in a damaged database lacks a part."""
    with errors_of(storage):
        if study.directions != [optuna.study.StudyDirection.MAXIMIZE]:
            raise ValueError('the direction of its study is not ours')
        for number, trial in enumerate(study.get_trials(deepcopy=False)):
            has_score = trial.state.name != 'COMPLETE' or bool(trial.values)
            scores_fit = all(isinstance(v, (int, float)) for v in trial.values or ())
            settings_fit = all(
                isinstance(name, str)
                and (isinstance(value, (int, float)) or _is_choice(trial, name))
                for name, value in trial.params.items()
            )
            is_whole = has_score and scores_fit and settings_fit
            if trial.number != number or not is_whole:
                raise ValueError(f'trial {number} is damaged')


def _is_choice(trial: FrozenTrial, name: str) -> bool:
    """Returns whether a setting of a trial is one of several choices of any type."""
    kind = optuna.distributions.CategoricalDistribution
    return isinstance(trial.distributions.get(name), kind)


def trials_of(study: optuna.Study, *states: str) -> list[FrozenTrial]:
    """Returns the trials in order, without lost ones that were queued again.

    Args:
        *states: of the trials, such as 'COMPLETE' and 'PRUNED'; none means any.
    """
    trials = study.get_trials(deepcopy=False)
    # A queued trial names the lost ones that it repeats.
    histories = [trial.system_attrs.get('retry_history') for trial in trials]
    lost = [number for h in histories if isinstance(h, list) for number in h]
    return [
        trial
        for trial in trials
        if trial.number not in lost and (not states or trial.state.name in states)
    ]


def ended_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials that are complete, were ended early, or failed."""
    return trials_of(study, 'COMPLETE', 'PRUNED', 'FAIL')


def best_trial(study: optuna.Study) -> FrozenTrial | None:
    """Returns the trial with the highest score; None before one is complete."""
    complete = trials_of(study, 'COMPLETE')
    return max(complete, key=lambda trial: trial.values[0], default=None)


def importances(study: optuna.Study) -> dict[str, float]:
    """Returns the share of each setting in how the scores differ, largest first.

    Empty if fewer than `FEW_TRIALS` are complete: of two trials, one setting would
    appear to decide.  Settings that only some trials have are left out.  (Watanabe et
    al., 2023: PED-ANOVA.)
    """
    if len(trials_of(study, 'COMPLETE')) < FEW_TRIALS:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # what is experimental
        warnings.simplefilter('error', UserWarning)
        try:
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
        except (ValueError, RuntimeError, UserWarning):  # Optuna's: nothing to compare
            return {}
    # Optuna orders equal shares differently in each process.
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def folder_of(trial: FrozenTrial) -> str:
    """Returns the folder of a trial's runs below --out_dir.

    Settings that are tried again stay in the folder of the first attempt.
    """
    return f'trial_{trial.system_attrs.get("failed_trial", trial.number):04d}'


def common_failure(study: optuna.Study) -> str:
    """Returns why the first trials failed, if all did for one reason; else ''."""
    ended = ended_trials(study)
    reasons = {trial.user_attrs.get(REASON, '') for trial in ended}
    return reasons.pop() if len(ended) >= _ALIKE and len(reasons) == 1 else ''


@contextlib.contextmanager
def errors_of(
    storage: str, kinds: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Turns errors in the block into a ValueError: the storage and the cause.

    The password in the storage's URL is left out.

    Args:
        storage: its URL.
        kinds: of the errors.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        # Optuna fails its own assertions as it handles errors of the storage.
        while cause is not None and not isinstance(cause, kinds):
            cause = cause.__context__
        if cause is None:
            raise
        shown = re.sub(r'://([^:@/]*):[^@]*@', r'://\1:***@', storage)
        # Optuna's own message is general; the driver's is what helps.
        while cause.__cause__ is not None:
            cause = cause.__cause__
        first = str(cause).strip().partition('\n')[0].replace(storage, shown)
        why = first or type(cause).__name__
        raise ValueError(f'--storage {shown} cannot be used: {why}') from error
