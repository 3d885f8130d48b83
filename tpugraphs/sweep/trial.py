"""The process of one trial: its trainings, one after the other.

It reports the scores of each epoch to the sweep's storage.  Whatever becomes of it,
the worker that started it goes on with the next trial.
"""

import dataclasses
import glob
import os
import sys
import traceback
from typing import Any, Callable, Dict, List, Tuple

from baselines import config as config_lib
from baselines import starting
from baselines import text
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib

# Exit code of a trial that the pruner ended.
PRUNED = 100

Curve = Dict[str, List[Any]]


def train_model(config: Any, after_epoch: Callable[[Curve], None]) -> Tuple[str, Curve]:
    """Trains one model of a trial, or goes on with it.

    Args:
        config: the settings.
        after_epoch: called with the curve after each epoch.

    Returns:
        The model directory, and the curve.

    Raises:
        ValueError: the settings or the data are unusable.
        OSError: something cannot be written.
    """
    starting.start_tensorflow()
    from baselines.runs import saved
    from baselines.training import jobs

    model_dir = jobs.train(config, after_epoch=lambda state: after_epoch(state.curve))
    return model_dir, saved.Run.load(model_dir).info['train_curve']


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A trial as its process gets it.

    Attributes:
        storage: of the sweep.
        study: its name there.
        trial_id: of the Optuna trial.
        task: 'tile' or 'layout'.
        runs: the settings of each training.
        memory_gb: the most memory; 0 for any.
        log: the file that gets what the trainings print.
        train: see `train_model`.
    """

    storage: str
    study: str
    trial_id: int
    task: str
    runs: List[Dict[str, Any]]
    memory_gb: float
    log: str
    train: Callable[..., Tuple[str, Curve]] = train_model


def run(assignment: Assignment) -> None:
    """Trains the models of a trial; called in a process of its own.

    The trainings go into the trial's attribute `runs`; why it failed, into `reason`.
    The process exits with 0, with PRUNED, or with 1 after a failure.
    """
    with open(assignment.log, 'ab', buffering=0) as log:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), stream.fileno())
    optuna = storage_lib.optuna()
    sweep = study_lib.Sweep(assignment.storage, assignment.study)
    trial = optuna.trial.Trial(sweep.study, assignment.trial_id)
    try:
        _limit_memory(assignment.memory_gb)
        _train_all(assignment, sweep, trial)
    except optuna.TrialPruned:
        sys.exit(PRUNED)
    except Exception as error:
        traceback.print_exc()  # into the log
        trial.set_user_attr(study_lib.REASON, _reason(error))
        sys.exit(1)


def _train_all(assignment: Assignment, sweep: study_lib.Sweep, trial: Any) -> None:
    """Trains every model of a trial, going on with what another process has begun.

    Raises:
        optuna.TrialPruned: the trial falls behind; what is unfinished is removed.
    """
    progress = _Progress(trial, sweep.most_epochs)
    for settings in assignment.runs:
        config = config_lib.checked(config_lib.CONFIGS[assignment.task](**settings))
        try:
            model_dir, curve = assignment.train(config, progress.after_epoch)
        except storage_lib.optuna().TrialPruned:
            unfinished = os.path.join(glob.escape(config.out_dir), 'unfinished_*.npz')
            for path in glob.glob(unfinished):
                os.unlink(path)
            raise
        progress.after_training(os.path.basename(model_dir), curve)


class _Progress:
    """Reports how a trial stands to Optuna, which may end it.

    What is compared between trials is the mean over the finished trainings and the
    best score of this one so far; the same step is the same epoch of the same
    training in every trial.

    Args:
        trial: Optuna's.
        most_epochs: of a training.
    """

    def __init__(self, trial: Any, most_epochs: int):
        self._trial = trial
        self._most_epochs = most_epochs
        self._finished: List[Dict[str, Any]] = []
        self._reported = 0

    def after_epoch(self, curve: Curve) -> None:
        """Reports the new epochs of a curve.

        Raises:
            optuna.TrialPruned: the trial falls behind.
        """
        number = len(self._finished)
        for epoch, score in enumerate(best_so_far(curve), 1):
            step = number * self._most_epochs + epoch
            if step > self._reported:
                total = sum(run['score'] for run in self._finished) + score
                self._trial.report(total / (number + 1), step)
                self._reported = step
        if self._trial.should_prune():
            raise storage_lib.optuna().TrialPruned

    def after_training(self, model: str, curve: Curve) -> None:
        """Records a finished training: the name of its model directory, its score."""
        self._finished.append({'model': model, 'score': best_so_far(curve)[-1]})
        self._trial.set_user_attr(study_lib.RUNS, self._finished)


def best_so_far(curve: Curve) -> List[float]:
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
    return [max(scores[: count + 1]) for count in range(len(scores))]


def _limit_memory(gigabytes: float) -> None:
    import resource

    if gigabytes:
        size = int(gigabytes * (1 << 30))
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError) or 'ResourceExhausted' in type(error).__name__:
        return 'out of memory'
    name = '' if isinstance(error, (ValueError, OSError)) else type(error).__name__
    return text.one_line(error, name)[:2000]
