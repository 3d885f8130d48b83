"""A sweep as an Optuna study: what it searches, and the trials that it has."""

import contextlib
import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional
import warnings

from baselines import config as config_lib
from baselines import registry
from baselines import text
from baselines.data import collections
from tpugraphs.sweep import space as space_lib
from tpugraphs.sweep import storage as storage_lib

# Changes when older code cannot go on with newer sweeps.
FORMAT = 1
# Of so many trials, one goes on at each rung of successive halving.
_REDUCTION = 3
# Trials at random before the sampler has an opinion.
_STARTUP_TRIALS = 8
# Importances of fewer complete trials are noise.
_FEWEST_FOR_IMPORTANCES = 10
# A sweep whose first so many trials all failed for one reason is wrong.
_ALIKE = 3
_DEFINITION = 'definition'
# Attributes of a trial: why it failed, its trainings, how long it took.
REASON, RUNS, SECONDS = 'reason', 'runs', 'seconds'
_SURPLUS = 'surplus'


@dataclasses.dataclass(frozen=True)
class Definition:
    """What a sweep is; those who join have to bring the same.

    Attributes:
        collection: its name.
        space: the content of the TOML file.
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

    @property
    def task(self) -> str:
        """'tile' or 'layout'."""
        return self.collection.partition(':')[0]

    @property
    def config_class(self) -> Any:
        """`TileConfig` or `LayoutConfig`."""
        return config_lib.CONFIGS[self.task]

    @property
    def base(self) -> Any:
        """The settings of all trials, where nothing is drawn."""
        return self.config_class(**self.settings)


# Of the entries of a definition in a storage.
_TYPES: Dict[str, type] = {
    'collection': str,
    'space': dict,
    'settings': dict,
    'seeds': int,
    'folds': int,
    'pruning': bool,
    'format': int,
}


class Counts(NamedTuple):
    """How many trials wait in the queue, run, and have ended."""

    waiting: int
    running: int
    ended: int


class Sweep:
    """A sweep, opened.

    Attributes:
        name: of the study in the storage.
        definition: what the sweep is.
        space: what is searched.
        study: Optuna's.
        has_heartbeat: whether trials that are lost are noticed.

    Args:
        storage: see `storage.open_storage`.
        name: of the study; '' for the only one there is.
        definition: what it should be, or becomes; None to take what is there.
        sampler_seed: of the draws of this process.

    Raises:
        ValueError: the storage cannot be used, or the study is another one.
    """

    def __init__(
        self,
        storage: str,
        name: str = '',
        definition: Optional[Definition] = None,
        sampler_seed: int = 0,
    ):
        self._optuna = storage_lib.optuna()
        if definition is None and not storage_lib.exists(storage):
            raise ValueError(f'--storage: there is no file {storage}')
        opened = storage_lib.open_storage(storage)
        if definition is None:
            with storage_lib.naming(storage):
                names = self._optuna.get_all_study_names(opened)
            name = _existing(name, names, storage)
        self.name = name
        with storage_lib.naming(storage):
            self.study = self._load(opened, create=definition is not None)
            stored = self.study.user_attrs.get(_DEFINITION)
            if stored is None and definition and not self.study.trials:
                stored = dataclasses.asdict(definition)
                self.study.set_user_attr(_DEFINITION, stored)
        self.has_heartbeat = storage_lib.has_heartbeat(storage)
        with text.located(f'--study {name}'):
            self.definition = _parsed(stored)
            if definition:
                _check_same(self.definition, definition)
            self.space = space_lib.parse(
                self.definition.space, self.definition.config_class
            )
        self.study.sampler = self._sampler(sampler_seed)
        self.study.pruner = self._pruner()

    @property
    def most_epochs(self) -> int:
        """The most epochs that a training of a trial may have."""
        return self.space.most_epochs(self.definition.base)

    def trials(self) -> List[Any]:
        """Returns the trials in order, but for those that do not count.

        These are lost ones that were queued again, and those of `give_up_surplus`.
        """
        trials = self.study.get_trials(deepcopy=False)
        lost = {number for trial in trials for number in _retry_history(trial)}
        return [
            trial
            for trial in trials
            if trial.number not in lost and not trial.user_attrs.get(_SURPLUS)
        ]

    def trial(self, number: int) -> Any:
        """Returns a trial as the storage has it now."""
        return self.study.get_trials(deepcopy=False)[number]

    def in_state(self, *states: str) -> List[Any]:
        """Returns trials that are COMPLETE, PRUNED, FAIL, RUNNING or WAITING."""
        return [trial for trial in self.trials() if trial.state.name in states]

    def counts(self) -> Counts:
        """Counts the trials by what is left to do for them."""
        states = [trial.state.name for trial in self.trials()]
        waiting, running = states.count('WAITING'), states.count('RUNNING')
        return Counts(waiting, running, len(states) - waiting - running)

    def best(self) -> Optional[Any]:
        """Returns the trial with the highest score; None before one is complete."""
        complete = self.in_state('COMPLETE')
        return max(complete, key=lambda trial: trial.value, default=None)

    def importances(self) -> Dict[str, float]:
        """Computes how much each setting matters (PED-ANOVA), the most first.

        Empty below ten complete trials, where it would be noise.
        """
        if len(self.in_state('COMPLETE')) < _FEWEST_FOR_IMPORTANCES:
            return {}
        with warnings.catch_warnings(), contextlib.suppress(ValueError, RuntimeError):
            warnings.simplefilter('ignore')
            shares = self._optuna.importance.get_param_importances(self.study)
            # Equal ones come from a set, in an order that differs each time.
            return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
        return {}

    def common_failure(self) -> str:
        """Returns why the first trials failed, if all did for one reason; else ''."""
        ended = self.in_state('COMPLETE', 'PRUNED', 'FAIL')
        reasons = {attribute(trial, REASON, str) for trial in ended}
        if len(ended) < _ALIKE or len(reasons) > 1:
            return ''
        return reasons.pop() or ''

    def give_up_surplus(self, trial: Any, most: int) -> bool:
        """Takes a trial out of the sweep if the sweep has enough without it.

        Several workers may have seen the last place free.

        Args:
            trial: one that has just begun.
            most: trials that the sweep is to have.

        Returns:
            Whether it was taken out.
        """
        earlier = [one for one in self.trials() if one.number < trial.number]
        if len(earlier) < most or _retry_history(self.trial(trial.number)):
            return False
        trial.set_user_attr(_SURPLUS, True)
        return True

    def queue_again(self, trial: Any) -> None:
        """Puts the settings of a trial that was interrupted in the queue."""
        storage_lib.retry_callback(None)(self.study, trial)

    def fail_lost_trials(self) -> None:
        """Fails trials that have given no sign of life, and queues them again."""
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # experimental
            self._optuna.storages.fail_stale_trials(self.study)

    def _load(self, opened: Any, create: bool) -> Any:
        if not create:
            return self._optuna.load_study(study_name=self.name, storage=opened)
        return self._optuna.create_study(
            storage=opened,
            study_name=self.name,
            direction='maximize',
            load_if_exists=True,
        )

    def _sampler(self, seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # groups are experimental
            return self._optuna.samplers.TPESampler(
                n_startup_trials=_STARTUP_TRIALS,
                multivariate=True,
                group=True,
                constant_liar=True,
                seed=seed,
            )

    def _pruner(self) -> Any:
        """Returns asynchronous successive halving, or what ends no trial."""
        if not self.definition.pruning:
            return self._optuna.pruners.NopPruner()
        return self._optuna.pruners.SuccessiveHalvingPruner(
            min_resource=max(1, self.most_epochs // _REDUCTION**2),
            reduction_factor=_REDUCTION,
        )


def folder_of(trial: Any) -> str:
    """Returns the folder of a trial's runs below --out_dir.

    Settings that are tried again stay in the folder of the first attempt.
    """
    first = [*_retry_history(trial), trial.number][0]
    return f'trial_{first:04d}'


def attribute(trial: Any, name: str, kind: Any) -> Any:
    """Returns an attribute of a trial; None where it is missing or of another type."""
    value = trial.user_attrs.get(name)
    return value if isinstance(value, kind) else None


def _retry_history(trial: Any) -> List[int]:
    history = trial.system_attrs.get('retry_history')
    numbers = history if isinstance(history, list) else []
    return [number for number in numbers if isinstance(number, int)]


def _parsed(stored: Any) -> Definition:
    """Reads the definition out of a storage, which may be a stranger's.

    Raises:
        ValueError: it is none, or of another version; names the entry.
    """
    if not isinstance(stored, dict) or 'format' not in stored:
        raise ValueError('is no sweep of ours; choose another name')
    if stored['format'] != FORMAT:
        raise ValueError(
            f'is of version {stored["format"]!r} of the records, this code writes '
            f'{FORMAT}; choose another name'
        )
    if set(stored) != set(_TYPES):
        raise ValueError(f'its definition has {sorted(stored)}, not {sorted(_TYPES)}')
    for name, kind in _TYPES.items():
        if type(stored[name]) is not kind:
            raise ValueError(
                f'{name} of its definition is {_shortened(stored[name])}, which is no '
                f'{kind.__name__}'
            )
    if stored['collection'] not in collections.NAMES:
        names = registry.suggest(stored['collection'], collections.NAMES)
        raise ValueError(f'there is no collection {stored["collection"]!r}{names}')
    definition = Definition(**stored)
    settings = config_lib.typed(definition.config_class, definition.settings)
    return dataclasses.replace(definition, settings=settings)


def _check_same(stored: Definition, wanted: Definition) -> None:
    """Raises ValueError unless two definitions agree; names the first difference."""
    theirs = dataclasses.asdict(stored)
    for name, value in dataclasses.asdict(wanted).items():
        if theirs[name] != value:
            raise ValueError(
                f'there is another sweep of that name: its {name} is '
                f'{_shortened(theirs[name])}, not {_shortened(value)}; choose another '
                '--study or --out_dir'
            )


def _existing(name: str, names: List[str], storage: str) -> str:
    """Returns the name of a study that is there.

    Raises:
        ValueError: it is not there, or none is named of several.
    """
    if name in names:
        return name
    if not name and len(names) == 1:
        return names[0]
    there = f'there are {", ".join(sorted(names))}' if names else 'there is none'
    problem = f'there is no sweep {name!r}' if name else 'name one with --study'
    raise ValueError(f'--storage {storage}: {problem}; {there}')


def _shortened(value: Any) -> str:
    return text.shortened(str(value), 60)
