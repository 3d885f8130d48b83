"""A sweep in an Optuna storage, which several processes and machines share.

An Optuna trial is one choice of settings.  While it runs, its user attributes say
whose it is and when that was last seen alive; a trial whose owner has gone is
failed, and its settings are put in the queue once more.
"""

import contextlib
import dataclasses
import importlib
import os
import re
import socket
import time
from typing import Any, Dict, Iterator, List, Optional
import warnings

from baselines import files
from baselines import text
from baselines.sweeps import space as space_lib

# Changes when older code cannot go on with newer sweeps.
FORMAT = 1
# Seconds between two signs of life, and without one until a trial counts as lost.
BEAT = 10.0
GRACE = 60.0
_PAUSE = 2.0
# How often the settings of lost trials are tried again.
_MOST_LOSSES = 2
# Of so many trials, one goes on at each rung.
_REDUCTION = 3
# Attributes of a trial.
_OWNER, _ALIVE, REASON, _SURPLUS = 'owner', 'alive', 'reason', 'surplus'
INSTEAD_OF, FOLDER, RUNS, SECONDS = 'instead_of', 'folder', 'runs', 'seconds'


@dataclasses.dataclass(frozen=True)
class Definition:
    """What a sweep is; those who join have to bring the same.

    Attributes:
        collection: its name.
        space: the content of the TOML.
        settings: of all trials, where they differ from the defaults.
        seeds: trainings with different seeds that are averaged.
        folds: of cross-validation; 0 for the published splits.
        pruning: whether bad trials are ended early.
        format: of the records.
    """

    collection: str
    space: Dict[str, Any]
    settings: Dict[str, Any]
    seeds: int = 1
    folds: int = 0
    pruning: bool = True
    format: int = FORMAT


def optuna() -> Any:
    """Imports Optuna, without its talk.

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
    """The journal file of a sweep whose runs are in `out_dir`."""
    return os.path.join(files.expand(out_dir), 'sweep.journal')


def open_storage(storage: str) -> Any:
    """Opens a database by its URL, or a journal file by its path.

    Raises:
        ValueError: it cannot be reached, or is of another version of Optuna.
    """
    module = optuna()
    with _named(storage), warnings.catch_warnings():
        warnings.simplefilter('ignore')  # Redis is called experimental
        if storage.startswith('redis'):
            backend = module.storages.journal.JournalRedisBackend(storage)
            return module.storages.JournalStorage(backend)
        if '://' in storage:
            kwargs = {'connect_args': {'timeout': 60}} if 'sqlite' in storage else {}
            return module.storages.RDBStorage(storage, engine_kwargs=kwargs)
        path = files.expand(storage)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        backend = module.storages.journal.JournalFileBackend(path)
        return module.storages.JournalStorage(backend)


@contextlib.contextmanager
def _named(storage: str) -> Iterator[None]:
    """Makes what a storage raises one line that names it, without its password."""
    try:
        yield
    except Exception as error:
        shown = re.sub(r'://([^:@/]*):[^@]*@', r'://\1:***@', storage)
        # Optuna's own words are general; the driver's are what helps.
        cause: Any = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        first = str(cause).strip().partition('\n')[0] or type(cause).__name__
        why = text.one_line(ValueError(first.replace(storage, shown)))
        raise ValueError(f'--storage {shown} cannot be used: {why}') from error


class Study:
    """A sweep, opened.

    Attributes:
        definition: what it is.
        name: in the storage.

    Args:
        storage: see `open_storage`.
        name: of the study; '' for the only one there is.
        definition: what it should be, or becomes; None to take what is there.

    Raises:
        ValueError: the storage cannot be used, or the study is another one.
    """

    def __init__(
        self, storage: str, name: str = '', definition: Optional[Definition] = None
    ):
        self._optuna = optuna()
        if definition is None and '://' not in storage:
            if not os.path.isfile(files.expand(storage)):
                raise ValueError(f'--storage: there is no file {files.expand(storage)}')
        self._storage = open_storage(storage)
        with _named(storage):
            known = self._optuna.get_all_study_names(self._storage)
        if definition is None:
            name = _chosen(name, known, storage)
        with _named(storage):
            self._study = self._optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction='maximize',
                load_if_exists=True,
            )
            found = self._study.user_attrs.get('definition')
            if found is None and definition is not None and not self._study.trials:
                found = dataclasses.asdict(definition)
                self._study.set_user_attr('definition', found)
        self.name = name
        self.definition = self._checked(found, definition)

    def _checked(self, found: Any, wanted: Optional[Definition]) -> Definition:
        where = f'--study {self.name}'
        if not isinstance(found, dict) or 'format' not in found:
            raise ValueError(f'{where}: is no sweep of ours; choose another name')
        if found['format'] != FORMAT:
            raise ValueError(
                f'{where}: is of version {found["format"]} of the records, this code '
                f'writes {FORMAT}; choose another name'
            )
        for name, value in (dataclasses.asdict(wanted) if wanted else {}).items():
            if found.get(name) != value:
                raise ValueError(
                    f'{where}: there is another sweep of that name: its {name} is '
                    f'{_short(found.get(name))}, not {_short(value)}; choose another '
                    '--study or --out_dir'
                )
        return Definition(**found)

    # What there is.

    def trials(self) -> List[Any]:
        """The trials that count, in order: none that was lost and is tried again."""
        found = self._study.get_trials(deepcopy=False)
        again = {trial.user_attrs.get(INSTEAD_OF) for trial in found}
        return [
            trial
            for trial in found
            if trial.number not in again and not trial.user_attrs.get(_SURPLUS)
        ]

    def of_state(self, *names: str) -> List[Any]:
        """Those in one of the states COMPLETE, PRUNED, FAIL, RUNNING, WAITING."""
        return [trial for trial in self.trials() if trial.state.name in names]

    def best(self) -> Optional[Any]:
        """The trial with the highest score; None before the first is complete."""
        complete = self.of_state('COMPLETE')
        return max(complete, key=lambda t: t.value, default=None)

    def frozen(self, trial: Any) -> Any:
        """A trial as the storage has it now."""
        return self._storage.get_trial(trial._trial_id)

    def importances(self) -> Dict[str, float]:
        """How much each setting matters (PED-ANOVA), the most first.

        Empty where there are too few trials to tell.
        """
        with warnings.catch_warnings(), contextlib.suppress(ValueError, RuntimeError):
            warnings.simplefilter('ignore')
            found = self._optuna.importance.get_param_importances(self._study)
            # Equal ones come from a set, in an order that differs each time.
            return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
        return {}

    # What changes it.

    def try_first(self, drawn: Dict[str, Any]) -> None:
        """Puts settings at the head of an empty sweep."""
        if not self._study.get_trials(deepcopy=False):
            self._study.enqueue_trial(drawn)

    def claim(self, most: int, space: space_lib.Space, base: Any, seed: int) -> Any:
        """Takes the next trial; where others still run theirs, waits for a lost one.

        Args:
            most: trials that the sweep is to have.
            space: what is drawn from.
            base: the settings that hold where nothing is drawn.
            seed: of the draws.

        Returns:
            (trial, its settings), or (None, {}) where nothing is left to do.
        """
        while True:
            self.reap()
            trials = self.trials()
            waiting = any(trial.state.name == 'WAITING' for trial in trials)
            if len(trials) >= most and not waiting:
                if not self.of_state('RUNNING'):
                    return None, {}
                time.sleep(_PAUSE)
                continue
            self._study.sampler = self._sampler(seed + len(trials))
            trial = self._study.ask()
            self._sign(trial._trial_id)
            earlier = [t for t in self.trials() if t.number < trial.number]
            if INSTEAD_OF in trial.user_attrs or len(earlier) < most:
                with warnings.catch_warnings():
                    warnings.simplefilter('ignore')  # a default beyond the range
                    return trial, space.suggest(trial, base)
            # Several workers saw the last place free.
            trial.set_user_attr(_SURPLUS, True)
            self._study.tell(trial, state=self._state('FAIL'))

    def _sampler(self, seed: int) -> Any:
        """A new one for each trial: a resumed sweep draws what it would have."""
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # groups are called experimental
            return self._optuna.samplers.TPESampler(
                n_startup_trials=8,
                multivariate=True,
                group=True,
                constant_liar=True,
                seed=seed,
            )

    def prune_from(self, epochs: int) -> None:
        """Ends bad trials early, by asynchronous successive halving.

        Args:
            epochs: most of one training; the first rung is at a ninth of it.
        """
        pruners = self._optuna.pruners
        self._study.pruner = pruners.NopPruner()
        if self.definition.pruning:
            self._study.pruner = pruners.SuccessiveHalvingPruner(
                min_resource=max(1, epochs // _REDUCTION**2),
                reduction_factor=_REDUCTION,
            )

    def alive(self, trial: Any) -> bool:
        """Gives a sign of life; returns whether the trial is still the caller's."""
        try:
            self._sign(trial._trial_id)
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False
        return True

    def finish(self, trial: Any, state: str, value: Any = None, **attrs: Any) -> None:
        """Records how a trial ended, unless it counts as lost already."""
        with contextlib.suppress(
            self._optuna.exceptions.UpdateFinishedTrialError, ValueError
        ):
            for name, attribute in attrs.items():
                trial.set_user_attr(name, attribute)
            self._study.tell(trial, value, state=self._state(state))

    def give_back(self, trial: Any, reason: str) -> None:
        """Fails a running trial and puts its settings in the queue again."""
        losses = trial.user_attrs.get('losses', 0) + 1
        try:
            self._storage.set_trial_user_attr(trial._trial_id, REASON, reason)
            # Of several who find it, one gets through here.
            self._storage.set_trial_state_values(trial._trial_id, self._state('FAIL'))
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return
        if losses <= _MOST_LOSSES:
            folder = folder_of(trial)
            again = {INSTEAD_OF: trial.number, FOLDER: folder, 'losses': losses}
            self._study.enqueue_trial(trial.params, user_attrs=again)

    def reap(self) -> None:
        """Gives back the trials whose workers have ended."""
        for trial in self.of_state('RUNNING'):
            owner = trial.user_attrs.get(_OWNER, '')
            begun = trial.datetime_start.timestamp()
            silent = time.time() - trial.user_attrs.get(_ALIVE, begun)
            if _is_gone(owner) or silent > GRACE:
                self.give_back(trial, f'lost: its worker {owner} ended')

    def _sign(self, trial_id: int) -> None:
        self._storage.set_trial_user_attr(trial_id, _ALIVE, time.time())
        self._storage.set_trial_user_attr(
            trial_id, _OWNER, f'{socket.gethostname()}:{os.getpid()}'
        )

    def _state(self, name: str) -> Any:
        return self._optuna.trial.TrialState[name]


def _is_gone(owner: str) -> bool:
    """Whether an owner was a process of this machine that has ended."""
    host, _, pid = owner.rpartition(':')
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def folder_of(trial: Any) -> str:
    """The folder of a trial's runs, below --out_dir: that of the first attempt."""
    return trial.user_attrs.get(FOLDER) or f'trial_{trial.number:04d}'


def _chosen(name: str, known: List[str], storage: str) -> str:
    if name in known:
        return name
    if not name and len(known) == 1:
        return known[0]
    there = f'there are {", ".join(sorted(known))}' if known else 'there is none'
    what = f'there is no sweep {name!r}' if name else 'name one with --study'
    raise ValueError(f'--storage {storage}: {what}; {there}')


def _short(value: Any) -> str:
    return text.shortened(str(value), 60)
