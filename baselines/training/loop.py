"""The training loop.  It touches no file: what is kept is up to the caller.

state = Trainer(model, loss, settings).fit(data)
"""

import dataclasses
import math
import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf
import tqdm

from baselines import config
from baselines.runs import tasks
from baselines.training import devices as devices_lib
from baselines.training import optimisation
from baselines.training import progress
from baselines.training import steps as steps_lib
from baselines.training import task_data
from baselines.training import validation

CURVES = (
    'epoch',
    'train_loss',
    'train_opa',
    'val_loss',
    'val_opa',
    'train_seconds',
    'val_seconds',
)


@dataclasses.dataclass
class State:
    """Where a training stands after an epoch: all it takes to go on.

    Attributes:
        curve: per finished epoch its number, losses and ordered-pair accuracies,
            and seconds; `val_tau`, where it is measured.
        best_score: highest validation score so far, see `Validation`.
        best_epoch: the epoch it was reached in; -1: none yet, or as it began.
        best_weights: the model's weights at that epoch.
        variables: everything that a step changes, from `Steps.state`.
    """

    curve: Dict[str, List[Optional[float]]] = dataclasses.field(
        default_factory=lambda: {name: [] for name in CURVES}
    )
    best_score: float = -math.inf
    best_epoch: int = -1
    best_weights: List[np.ndarray] = dataclasses.field(default_factory=list)
    variables: List[np.ndarray] = dataclasses.field(default_factory=list)

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.curve['epoch'])


AfterEpoch = Callable[[State], None]


class MisfitError(ValueError):
    """A state to go on from is of another model."""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some steps of an epoch: packed arrays and how many steps they hold."""

    packed: Mapping[str, np.ndarray]
    steps: int


class Trainer:
    """Fits a graph model by gradient descent.

    Args:
        model: a built model: `model(graph, training=True)` gives scores.
        loss: (labels, scores) -> scalar.
        settings: how long, and how weights move.
        scorer: scores with the model in validation; an attribute, as is the model.
        devices: where the replicas are; None: here.
        replica: of several devices, a model like the first that was made in their
            scope; it is trained, and the first one gets its weights.
        is_known: whether the first weights mean something; see `fit`.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        loss: tf.keras.losses.Loss,
        settings: config.AnyConfig,
        scorer: tasks.ModelScorer,
        devices: Optional[devices_lib.Devices] = None,
        replica: Optional[tf.keras.Model] = None,
        is_known: bool = False,
    ):
        self.model, self.scorer = model, scorer
        self._loss = loss
        self._settings = settings
        self._devices = devices or devices_lib.Devices()
        self._replica = replica
        self._is_known = is_known

    def fit(
        self,
        data: task_data.TaskData,
        state: Optional[State] = None,
        after_epoch: AfterEpoch = lambda state: None,
    ) -> State:
        """Trains until the validation score stops rising.

        Args:
            data: what to train and to validate on.
            state: where an interrupted training stood.
            after_epoch: called with the state after every epoch.

        Returns:
            The state; the model has the weights of the best epoch.

        Raises:
            ValueError: the loss or a score is not finite.
            MisfitError: the state is of another model.
        """
        settings, devices = self._settings, self._devices
        steps = self.steps(data)
        if self._replica is not None:
            self._trace(data)
        validator = validation.Validator(data, self._loss, self.scorer)

        def chunks(epoch: int) -> Iterator[Chunk]:
            for drawn in data.draws(epoch):
                packed = data.pack(*devices.share(*drawn))
                yield Chunk(packed, len(drawn[0]))

        def validate() -> validation.Validation:
            measured = validation.NOTHING
            if devices.is_chief:
                self._take_weights()
                measured = validator.measure()
            return measured.agreed(devices)

        state = fit(
            steps,
            state or State(),
            epochs=settings.epochs,
            early_stop=settings.early_stop,
            steps_per_epoch=data.steps_per_epoch,
            chunks=chunks,
            validate=validate,
            after_epoch=after_epoch,
            say=tqdm.tqdm.write if devices.is_chief else lambda line: None,
            patience_steps=data.patience_steps,
            is_known=self._is_known,
        )
        self._take_weights()
        return state

    def steps(self, data: task_data.TaskData) -> steps_lib.Steps:
        """Compiles the steps on the model, or on its replica."""
        settings, share = self._settings, self._devices.batch(data.batch)
        return steps_lib.Steps(
            self._replica or self.model,
            self._loss,
            optimisation.Optimiser(settings, settings.epochs * data.steps_per_epoch),
            lambda packed, step: data.unpack(packed, step, share),
            data.signature(share),
            self._devices,
        )

    def _trace(self, data: task_data.TaskData) -> None:
        """Calls the model that is not trained itself: Keras saves no other."""
        tf.function(
            lambda packed: self.model(data.unpack(packed, 0, data.batch)[0]),
            input_signature=[data.signature(data.batch)],
        ).get_concrete_function()

    def _take_weights(self) -> None:
        """Gives the model that scores what the replicas have learned."""
        if self._replica is not None:
            self.model.set_weights(self._replica.get_weights())


def fit(
    steps: steps_lib.Steps,
    state: State,
    *,
    epochs: int,
    early_stop: int,
    steps_per_epoch: int,
    chunks: Callable[[int], Iterator[Chunk]],
    validate: Callable[[], validation.Validation],
    after_epoch: AfterEpoch = lambda state: None,
    say: Callable[[str], None] = print,
    patience_steps: int = 0,
    is_known: bool = False,
) -> State:
    """Takes steps until the validation score stops rising; leaves the best weights.

    Args:
        steps: holds the model.
        state: a new one, or one to go on from.
        epochs: most epochs.
        early_stop: stop after so many epochs without a better validation score,
            once they are `patience_steps` long.
        steps_per_epoch: for the progress bar.
        chunks: the epoch's number -> its chunks; the same number gives the
            same chunks, so that a resumed run sees what it would have seen.
        validate: measures the model as it is.
        after_epoch: called with the state after every epoch.
        say: prints a line.
        patience_steps: fewest steps without a better score before it stops; an
            epoch of few graphs is short.
        is_known: the first weights mean something: they are measured, too, and kept
            if no epoch is better.

    Returns:
        The state; the model has the weights of the best epoch.

    Raises:
        MisfitError: the state is of another model.
    """
    patience = max(early_stop, -(-patience_steps // max(steps_per_epoch, 1)))
    done = state.epochs_done
    if state.variables:
        try:
            steps.restore(state.variables)
        except ValueError as error:
            raise MisfitError(str(error)) from None
    if is_known and not done:
        score = validate().score
        if score is not None:
            state.best_score, state.best_weights = score, steps.model.get_weights()
    with progress.Progress(say, epochs, steps_per_epoch, done) as shown:
        for epoch in range(done, epochs):
            if state.best_weights and epoch - state.best_epoch > patience:
                break
            started = time.monotonic()
            train_loss, train_opa = _train_epoch(steps, chunks(epoch), epoch, shown)
            trained = time.monotonic()
            with steps.averaged():
                measured = validate()
                # Without a validation score every epoch counts as better than the
                # last.
                is_better = measured.score is None or measured.score > state.best_score
                if is_better:
                    state.best_weights = steps.model.get_weights()
            ended = time.monotonic()
            losses = (train_loss, train_opa, measured.loss, measured.opa)
            row = (epoch, *losses, trained - started, ended - trained)
            for name, value in zip(CURVES, row):
                state.curve[name].append(value)
            if measured.tau is not None:
                state.curve.setdefault('val_tau', []).append(measured.tau)
            if is_better:
                score = measured.score
                state.best_score = -math.inf if score is None else score
                state.best_epoch = epoch
            state.variables = steps.state()
            after_epoch(state)  # before its row: what is shown is kept
            shown.epoch(
                epoch, train_loss, train_opa, measured, is_better, ended - started
            )
    if state.best_weights:
        measure = 'tau' if state.curve.get('val_tau') else 'OPA'
        is_early = state.epochs_done < epochs
        say(
            progress.closing(
                state.best_epoch, state.best_score, measure, patience if is_early else 0
            )
        )
        steps.set_weights(state.best_weights)
    return state


def _train_epoch(
    steps: steps_lib.Steps,
    chunks: Iterator[Chunk],
    epoch: int,
    shown: progress.Progress,
) -> Tuple[float, Optional[float]]:
    """Takes the steps of an epoch; returns its mean loss and its OPA."""
    loss, correct, total, done = 0.0, 0.0, 0.0, 0
    for chunk in chunks:
        sums = steps.run_chunk(chunk.packed, chunk.steps)
        loss, correct, total = (a + b for a, b in zip((loss, correct, total), sums))
        done += chunk.steps
        opa = correct / total if total else None
        shown.step(epoch, chunk.steps, loss / done, opa)
    return loss / done, correct / total if total else None
