"""Opens the Optuna storage of a sweep: a database, a journal file, or Redis."""

import contextlib
import importlib
import os
import re
from typing import Any, Iterator, Optional, Type
import urllib.parse
import warnings

from baselines import files
from baselines import text

# Seconds between two signs of life of a running trial, and without one until the
# trial counts as lost and is tried again.
HEARTBEAT = 10
GRACE = 60
# How often the settings of a lost trial are tried again.
MOST_RETRIES = 2
# Seconds that a process waits for another one that writes to a SQLite file.
_LOCK_TIMEOUT = 60
_JOURNAL = 'sweep.journal'


def optuna() -> Any:
    """Imports Optuna, without its log lines.

    Raises:
        ValueError: it is not installed.
    """
    try:
        module = importlib.import_module('optuna')
    except ImportError:
        raise ValueError(
            "a sweep needs Optuna: pip install 'tpugraphs[sweep]'"
        ) from None
    module.logging.set_verbosity(module.logging.ERROR)
    return module


def default_storage(out_dir: str) -> str:
    """Returns the storage of a sweep whose runs are in `out_dir`.

    That is a SQLite file, or the journal file of an earlier version.
    """
    folder = files.expand(out_dir)
    journal = os.path.join(folder, _JOURNAL)
    if os.path.isfile(journal):
        return journal
    return f'sqlite:///{urllib.parse.quote(os.path.join(folder, "sweep.db"))}'


def exists(storage: str) -> bool:
    """Tells whether a storage is there; of a server that is not asked."""
    if '://' not in storage:
        return os.path.isfile(files.expand(storage))
    scheme, _, path = storage.partition(':///')
    return not scheme.startswith('sqlite') or os.path.isfile(urllib.parse.unquote(path))


def has_heartbeat(storage: str) -> bool:
    """Tells whether running trials of a storage give signs of life: databases do."""
    return '://' in storage and not storage.startswith('redis')


def open_storage(storage: str) -> Any:
    """Opens a database by its URL, or a journal file by its path.

    A trial in a database gives signs of life while it runs; one that has ended
    without a word is failed, and its settings are tried again.  Journal files and
    Redis have no such signs.

    Raises:
        ValueError: it cannot be reached, or is of another version of Optuna.
    """
    storages = optuna().storages
    with naming(storage), warnings.catch_warnings():
        warnings.simplefilter('ignore')  # heartbeats and Redis are experimental
        if storage.startswith('redis'):
            backend = storages.journal.JournalRedisBackend(storage)
            return storages.JournalStorage(backend)
        if has_heartbeat(storage):
            is_sqlite = storage.startswith('sqlite')
            if is_sqlite:
                path = urllib.parse.unquote(storage.partition(':///')[2])
                os.makedirs(os.path.dirname(files.expand(path)), exist_ok=True)
            arguments = {'timeout': _LOCK_TIMEOUT} if is_sqlite else {}
            return storages.RDBStorage(
                storage,
                engine_kwargs={'connect_args': arguments},
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=retry_callback(MOST_RETRIES),
            )
        path = files.expand(storage)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            _cut_unfinished_line(path)
        backend = storages.journal.JournalFileBackend(path)
        return storages.JournalStorage(backend)


def retry_callback(most: Optional[int]) -> Any:
    """Returns what puts the settings of a trial in the queue again.

    Args:
        most: how often; None for any number.
    """
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # experimental
        return optuna().storages.RetryHeartbeatStaleTrialCallback(most)


def _cut_unfinished_line(path: str) -> None:
    """Removes a last line without an end from a journal file.

    A full disk or a crash leaves one; Optuna would append to it, and could read
    nothing that stands after it.
    """
    lock = optuna().storages.journal.JournalFileSymlinkLock(path)
    lock.acquire()
    try:
        with open(path, 'r+b') as stream:
            whole = 0
            for line in stream:
                whole += len(line) if line.endswith(b'\n') else 0
            stream.truncate(whole)
    finally:
        lock.release()


@contextlib.contextmanager
def naming(storage: str, kind: Type[Exception] = Exception) -> Iterator[None]:
    """Makes errors of a storage one line that names it, without its password.

    Args:
        storage: see `open_storage`.
        kind: of the errors.
    """
    try:
        yield
    except kind as error:
        shown = re.sub(r'://([^:@/]*):[^@]*@', r'://\1:***@', storage)
        # Optuna's own message is general; the driver's is what helps.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        first = str(cause).strip().partition('\n')[0] or type(cause).__name__
        why = text.one_line(ValueError(first.replace(storage, shown)))
        raise ValueError(f'--storage {shown} cannot be used: {why}') from error
