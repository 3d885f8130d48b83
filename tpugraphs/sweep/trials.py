"""Trials of a sweep: Optuna draws their settings, child processes train them."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import itertools
import math
import multiprocessing
from multiprocessing import resource_tracker
import os
import queue
import signal
import threading
import time

import optuna

from baselines import config as config_lib
from baselines.core import files
from baselines.core import text
from tpugraphs.sweep import space as space_lib
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import training

# Seconds between two looks at the clock and at whether Ctrl-C was pressed.
_PAUSE = 0.5


class TrialFailed(Exception):
    """A trial went wrong; the text says how."""


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """The options of a search.

    Raises:
        ValueError: a number is too small.
    """

    space: str = ''  # a TOML file; '' for the one that ships for the collection
    storage: str = ''  # see `study.open_storage`; '' for a SQLite file in --out_dir
    study: str = ''  # its name there; '' for the collection's
    trials: int = 40  # that the sweep is to have, of all who join
    seeds: int = 1  # trainings of each trial with different seeds, averaged
    folds: int = 0  # of cross-validation, averaged; 0 for the splits as they are
    workers: int = 1  # trials at a time; they divide the cores of this machine
    minutes: float = 0.0  # the most that a trial may take; 0 for any
    pruning: bool = True  # whether bad trials are ended early

    def __post_init__(self) -> None:
        for name, least in dict(trials=1, seeds=1, workers=1, minutes=0).items():
            value = getattr(self, name)
            if not value >= least:
                raise ValueError(f'--{name} should be at least {least}, not {value}')
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f'--folds should be 2 or more, or 0, not {self.folds}')


class _Progress:
    """Reports the score of a trial to Optuna after each epoch of its trainings.

    The score is the mean over the finished trainings and the best epoch so far of the
    current one; a step is the same epoch of the same training in every trial.

    Args:
        most_epochs: of a training.

    Attributes:
        finished: the best scores of the trainings that have ended.
    """

    def __init__(self, trial: optuna.Trial, most_epochs: int):
        self._trial, self._most_epochs = trial, most_epochs
        self.finished: list[float] = []
        self._reported: set[int] = set()  # steps: a curve has all epochs so far

    def report(self, curve: training.Curve) -> None:
        """Reports the new epochs of a curve.

        Raises:
            optuna.TrialPruned: the trial falls behind.
        """
        for epoch, score in enumerate(best_so_far(curve), 1):
            # Steps of later trainings follow those of earlier ones.
            step = len(self.finished) * self._most_epochs + epoch
            if step not in self._reported:
                self._reported.add(step)
                mean = (sum(self.finished) + score) / (len(self.finished) + 1)
                self._trial.report(mean, step)
        if self._trial.should_prune():
            raise optuna.TrialPruned


class Objective:
    """Trains the models of an Optuna trial and returns their mean score.

    The first three arguments are attributes, too.

    Args:
        base: a `TileConfig` or `LayoutConfig`: the settings that are not drawn.
        cores: of each worker; empty for all.

    Attributes:
        interrupted: when set, trials end, and their settings go into the queue.
        workers: trials at a time.
    """

    def __init__(
        self,
        space: space_lib.Space,
        base: config_lib.AnyConfig,
        options: SweepOptions,
        cores: Sequence[Sequence[int]],
        train: training.Train = training.train_model,
    ):
        self.space, self.base, self.options = space, base, options
        self.interrupted = threading.Event()
        self.workers = len(cores)
        self._cores: queue.Queue = queue.Queue()
        for worker in cores:
            self._cores.put(worker)
        self._train_model = train

    def __call__(self, trial: optuna.Trial) -> float:
        """Trains an Optuna trial.

        Raises:
            optuna.TrialPruned: it falls behind.
            TrialFailed: it went wrong; its attribute REASON says how.
            KeyboardInterrupt: `interrupted` is set.
        """
        cores = self._cores.get()
        try:
            return self._mean_score(trial, cores)
        except (TrialFailed, ValueError, OSError) as error:
            reason = text.one_line(error)[:2000]
            trial.set_user_attr(study_lib.REASON, reason)
            raise TrialFailed(reason) from None
        except KeyboardInterrupt:
            queue_again = optuna.storages.RetryHeartbeatStaleTrialCallback()
            queue_again(trial.study, trial.study.trials[trial.number])
            raise
        finally:
            self._cores.put(cores)

    def _mean_score(self, trial: optuna.Trial, cores: Sequence[int]) -> float:
        """Trains all models of a trial; returns the mean of their best scores."""
        deadline = time.monotonic() + (60 * self.options.minutes or math.inf)
        progress = _Progress(trial, self.space.most_epochs(self.base))
        for config in self._configs(trial):
            curve = self._train(config, cores, deadline, progress.report)
            progress.finished.append(best_so_far(curve)[-1])
        return sum(progress.finished) / len(progress.finished)

    def _configs(self, trial: optuna.Trial) -> list[config_lib.AnyConfig]:
        """Draws a trial; returns the settings of each of its trainings."""
        drawn = self.space.suggest(trial, self.base)
        name = study_lib.folder_of(trial.study.trials[trial.number])
        folder = os.path.join(files.expand(self.base.out_dir), name)
        os.makedirs(folder, exist_ok=True)
        config = dataclasses.replace(
            self.base,
            **drawn,
            out_dir=folder,
            run_id=f'{trial.study.study_name} {name}',
            # As the best settings will be: --configs is what the data have.
            recipe=study_lib.best_file(self.base.out_dir),
            resume=True,
        )
        first, count = self.base.seed, self.options.folds
        folds = [f'{number}/{count}' for number in range(1, count + 1)] or ['']
        return [
            config_lib.checked(dataclasses.replace(config, seed=seed, fold=fold))
            for seed in range(first, first + self.options.seeds)
            for fold in folds
        ]

    def _train(
        self,
        config: config_lib.AnyConfig,
        cores: Sequence[int],
        deadline: float,
        report: training.AfterEpoch,
    ) -> training.Curve:
        """Trains a model in a child process, which is killed at the deadline."""
        # A forked child would share open databases and locks.
        context = multiprocessing.get_context('spawn')
        receiver, sender = context.Pipe(duplex=False)
        log = os.path.join(config.out_dir, 'log.txt')
        arguments = (self._train_model, config, cores, log, sender)
        child = context.Process(target=training.work, args=arguments)
        # With Ctrl-C blocked it cannot end in a traceback before it reaches `work`;
        # to start Python's own helper process would unblock it.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            child.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        sender.close()  # so that the pipe ends when the child does
        curve: training.Curve = {}
        try:
            while True:
                while not receiver.poll(_PAUSE):
                    self._check_time(deadline)
                message = receiver.recv()
                if isinstance(message, str):
                    raise TrialFailed(message)
                curve = message
                report(curve)
        except EOFError:
            child.join()
            self._check_time(deadline)
            if child.exitcode:
                raise TrialFailed(_ending(child.exitcode)) from None
            return curve
        finally:
            child.kill()
            child.join()

    def _check_time(self, deadline: float) -> None:
        """Raises TrialFailed after the deadline, KeyboardInterrupt if `interrupted`."""
        if self.interrupted.is_set():
            raise KeyboardInterrupt
        if time.monotonic() > deadline:
            raise TrialFailed(
                f'out of time: more than {self.options.minutes:g} minutes'
            )


def best_so_far(curve: training.Curve) -> list[float]:
    """Returns the best validation score so far, after each epoch of a curve.

    Raises:
        ValueError: nothing was validated.
    """
    scores = curve.get('val_tau') or curve['val_opa']
    if None in scores:
        raise ValueError(
            'a sweep compares validation scores, and the validation split gives none: '
            'its runtimes are 0, or --validate_batches is'
        )
    return list(itertools.accumulate(scores, max))


def _ending(exit_code: int) -> str:
    """Describes the end of a process without a message; signals' codes are negative."""
    how = f'exit code {exit_code}' if exit_code > 0 else f'signal {-exit_code}'
    killed = ' (out of memory?)' if exit_code == -signal.SIGKILL else ''
    return f'its process ended with {how}{killed}; see log.txt in its folder'
