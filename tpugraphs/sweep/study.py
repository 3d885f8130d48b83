"""A sweep as an Optuna study: its storage, sampler, pruner and trials."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import os
import re
import time
from typing import Any
import urllib.parse
import warnings

import optuna
from optuna.trial import FrozenTrial
import sqlalchemy

from baselines.core import files
from baselines.core import text

# A running trial shows every 10 s that it is alive; after 60 s without, it counts as
# failed, and its settings are tried again.
_HEARTBEAT: dict[str, Any] = {'heartbeat_interval': 10, 'grace_period': 60}
_DEFINITION = 'definition'  # attribute of a study, see `create`
REASON = 'reason'  # attribute of a trial: why it failed
# Of so many trials, one goes on at each rung of successive halving.
_REDUCTION = 3


def retry(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queues the settings of a lost trial, unless they were lost twice before."""
    optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=2)(study, trial)


def default_storage(out_dir: str) -> str:
    """Returns the URL of the SQLite file of a sweep whose runs are in `out_dir`."""
    path = os.path.join(files.expand(out_dir), 'sweep.db')
    return f'sqlite:///{urllib.parse.quote(path)}'


@contextlib.contextmanager
def using(storage: str) -> Iterator[None]:
    """Makes errors of a storage in the block a ValueError, without its password.

    Optuna prints nothing meanwhile.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # about what is experimental
            yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        shown = re.sub(r'://([^:@/]*):[^@]*@', r'://\1:***@', storage)
        why = text.one_line(error.__cause__ or error).replace(storage, shown)
        raise ValueError(f'--storage {shown} cannot be used: {why}') from error


def _open(storage: str, attempts: int = 4) -> optuna.storages.RDBStorage:
    """Opens a database by its URL."""
    # A process waits so many seconds for another one that writes to a SQLite file.
    wait = {'connect_args': {'timeout': 60}} if storage.startswith('sqlite') else {}
    try:
        return optuna.storages.RDBStorage(
            storage, wait, heartbeat_stale_trial_callback=retry, **_HEARTBEAT
        )
    except sqlalchemy.exc.DBAPIError:
        if not attempts:
            raise
    # Processes that start together make the tables of a new database together.
    time.sleep(1)
    return _open(storage, attempts - 1)


def create(
    storage: str, name: str, definition: text.JsonObject, most_epochs: int
) -> optuna.Study:
    """Opens the study of a sweep to join it, or makes it.

    Args:
        definition: collection, space and options, of JSON's types; it is stored in the
            study, and everyone who joins must have the same.
        most_epochs: of a training, for asynchronous successive halving, which ends
            bad trials early; 0 to end none.

    Raises:
        ValueError: the storage has another sweep of that name.
    """
    # Two rungs before the last epoch: at a ninth of the epochs and at a third.
    rung = max(1, most_epochs // _REDUCTION**2)
    halving = optuna.pruners.SuccessiveHalvingPruner(rung, _REDUCTION)
    study = optuna.create_study(
        storage=_open(storage),
        # Without a seed: processes that share a study would draw the same trials.
        sampler=optuna.samplers.TPESampler(
            multivariate=True, group=True, constant_liar=True
        ),
        pruner=halving if most_epochs else optuna.pruners.NopPruner(),
        study_name=name,
        direction='maximize',
        load_if_exists=True,
    )
    if not study.trials:
        study.set_user_attr(_DEFINITION, definition)
    stored = study.user_attrs.get(_DEFINITION, {})
    if stored != definition:
        raise ValueError(
            f'there is another sweep {name}: its settings are {stored}, not '
            f'{definition}; choose another --study or --out_dir'
        )
    return study


def load(storage: str, name: str) -> optuna.Study:
    """Opens the study of a sweep to look at it.

    Args:
        name: of the study; '' for the only one there is.

    Raises:
        ValueError: the storage cannot be used, or has no such study.
    """
    path = urllib.parse.unquote(storage.removeprefix('sqlite:///'))
    if storage.startswith('sqlite:///') and not os.path.isfile(path):
        raise ValueError(f'--storage: there is no file {path}')
    try:
        with using(storage):
            return optuna.load_study(study_name=name or None, storage=_open(storage))
    except KeyError:
        raise ValueError(f'{storage} has no --study {name!r}') from None


def to_json(trial: FrozenTrial) -> text.JsonObject:
    """Describes a trial, as `tpugraphs sweep show --json` does."""
    return {
        'number': trial.number,
        'state': trial.state.name.lower(),
        'score': trial.value,
        'seconds': trial.duration and trial.duration.total_seconds(),
        'settings': trial.params,
        'reason': trial.user_attrs.get(REASON, ''),
    }


def describe(trial: FrozenTrial) -> str:
    """Describes a trial in one line."""
    fields = {**to_json(trial), **trial.params}
    return ' '.join(
        f'{name}={value:.4g}' if isinstance(value, float) else f'{name}={value}'
        for name, value in fields.items()
        if name != 'settings' and value not in ('', None)
    )
