"""A worker of a sweep: a process that runs trials until the sweep has enough.

Optuna says what is tried next; a process of its own trains it, so whatever becomes
of that one, the next trial starts.
"""

import contextlib
import dataclasses
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, Sequence
import warnings

from baselines import command_line
from baselines import config as config_lib
from baselines import files
from baselines import text
from tpugraphs.sweep import processes
from tpugraphs.sweep import results
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import trial as trial_lib

# Seconds between two looks at whether a trial of another worker was lost.
_PAUSE = 2.0


@dataclasses.dataclass(frozen=True)
class Order:
    """What a worker has to do.

    Attributes:
        storage: of the sweep.
        study: its name there.
        trials: that the sweep is to have.
        base: the settings of all trials.
        sampler_seed: of what this worker draws.
        minutes: the most that a trial may take; 0 for any.
        memory_gb: the most memory of a trial; 0 for any.
        cores: that the worker and its trials may use; empty for all.
        train: see `trial.train_model`.
    """

    storage: str
    study: str
    trials: int
    base: Dict[str, Any]
    sampler_seed: int = 0
    minutes: float = 0
    memory_gb: float = 0
    cores: Sequence[int] = ()
    train: Callable[..., Any] = trial_lib.train_model


class Failed(Exception):
    """A trial went wrong; the text says how.  Or it was not needed."""


def run(order: Order) -> None:
    """Works on an order; called in a process of its own, which it ends."""

    def guarded() -> int:
        try:
            work(order)
            return 0
        except KeyboardInterrupt:  # the sweep's first process says so
            return 130

    sys.exit(command_line.guarded(guarded))


def work(order: Order) -> None:
    """Runs trials until the sweep has as many as were ordered.

    Ends also where the first trials all failed for one reason.

    Raises:
        ValueError: the storage cannot be used.
        OSError: the runs cannot be written.
    """
    if order.cores and hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, order.cores)
    sweep = study_lib.Sweep(order.storage, order.study, sampler_seed=order.sampler_seed)
    objective = _Objective(sweep, order)

    def report(study: Any, trial: Any) -> None:
        if trial.number in [one.number for one in sweep.trials()]:
            print(results.line(trial), flush=True)
        results.write_best(sweep, order.base['out_dir'])

    with storage_lib.naming(order.storage, storage_lib.optuna().exceptions.OptunaError):
        while not sweep.common_failure():
            counts = sweep.counts()
            if counts.waiting or counts.running + counts.ended < order.trials:
                with objective.tolerating_loss():
                    sweep.study.optimize(
                        objective, n_trials=1, catch=(Failed,), callbacks=[report]
                    )
            elif counts.running and sweep.has_heartbeat:
                time.sleep(_PAUSE)
                sweep.fail_lost_trials()
            else:
                return


class _Objective:
    """Trains an Optuna trial in a process and returns its score."""

    def __init__(self, sweep: study_lib.Sweep, order: Order):
        self._sweep = sweep
        self._order = order
        self._base = config_lib.CONFIGS[sweep.definition.task](**order.base)
        self._is_lost = False

    @contextlib.contextmanager
    def tolerating_loss(self) -> Iterator[None]:
        """Lets a trial end that another worker has taken for lost, and tries again.

        That happens where this machine slept; Optuna raises ValueError.
        """
        self._is_lost = False
        try:
            yield
        except ValueError:
            if not self._is_lost:
                raise

    def __call__(self, trial: Any) -> float:
        began = time.monotonic()
        if self._sweep.give_up_surplus(trial, self._order.trials):
            raise Failed
        assignment = self._assign(trial)
        process = processes.start(trial_lib.run, assignment)
        try:
            is_in_time = _wait(process, self._order.minutes * 60)
        except KeyboardInterrupt:
            self._sweep.queue_again(self._sweep.trial(trial.number))
            raise
        ended = self._sweep.trial(trial.number)
        if ended.state.is_finished():
            self._is_lost = True
            raise Failed('taken over by another worker')
        trial.set_user_attr(study_lib.SECONDS, time.monotonic() - began)
        if process.exitcode == trial_lib.PRUNED:
            raise storage_lib.optuna().TrialPruned
        if process.exitcode:
            reason = study_lib.attribute(ended, study_lib.REASON, str)
            if not is_in_time:
                reason = f'out of time: more than {self._order.minutes:g} minutes'
            reason = reason or _how_it_ended(process.exitcode, assignment.log)
            trial.set_user_attr(study_lib.REASON, reason)
            raise Failed(reason)
        scores = [run['score'] for run in ended.user_attrs[study_lib.RUNS]]
        return sum(scores) / len(scores)

    def _assign(self, trial: Any) -> trial_lib.Assignment:
        """Draws the settings of a trial and makes its folder."""
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # a default beyond the range
            settings = self._sweep.space.suggest(trial, self._base)
        name = study_lib.folder_of(self._sweep.trial(trial.number))
        folder = os.path.join(files.expand(self._base.out_dir), name)
        os.makedirs(folder, exist_ok=True)
        return trial_lib.Assignment(
            storage=self._order.storage,
            study=self._sweep.name,
            trial_id=trial._trial_id,
            task=self._sweep.definition.task,
            runs=list(self._all_runs(settings, folder)),
            memory_gb=self._order.memory_gb,
            log=os.path.join(folder, 'log.txt'),
            train=self._order.train,
        )

    def _all_runs(
        self, settings: Dict[str, Any], folder: str
    ) -> Iterator[Dict[str, Any]]:
        """Yields the settings of every training of a trial."""
        definition = self._sweep.definition
        folds = [f'{i + 1}/{definition.folds}' for i in range(definition.folds)]
        for number in range(definition.seeds):
            for fold in folds or ['']:
                yield {
                    **self._order.base,
                    **settings,
                    'seed': self._base.seed + number,
                    'fold': fold,
                    'out_dir': folder,
                    'run_id': f'{self._sweep.name} {os.path.basename(folder)}',
                    'resume': True,
                }


def _wait(process: Any, seconds: float) -> bool:
    """Waits for a process, and ends it after some seconds (0: never).

    Returns:
        Whether it ended by itself.
    """
    try:
        process.join(seconds or None)
        return not process.is_alive()
    finally:
        process.kill()
        process.join()


def _how_it_ended(exit_code: int, log: str) -> str:
    """Says how a process ended that gave no reason."""
    with open(log, encoding='utf-8', errors='replace') as stream:
        lines = stream.read().strip().splitlines()
    last = text.printable(lines[-1])[:200] if lines else 'it printed nothing'
    if 'bad_alloc' in last or 'MemoryError' in last:
        return 'out of memory'
    how = f'the process {processes.ending(exit_code)}'
    if exit_code < 0:
        return f'{how} (out of memory?)' if how.endswith('SIGKILL') else how
    return f'{how}: {last}'
