"""The training loop.  It touches no file: what is kept is up to the caller.

An epoch is handed over as a few chunks of packed arrays, each holding many
steps.  One compiled function runs all steps of a chunk, so that neither Python
nor the input pipeline stands between two steps.
"""

import contextlib
import dataclasses
import math
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf

from baselines.training import devices as devices_lib
from baselines.training import optimisation
from baselines.training import progress

# (packed tensors, number of the step) -> (graph, labels [batch, configs])
Unpack = Callable[[Mapping[str, tf.Tensor], tf.Tensor], Tuple[Any, tf.Tensor]]

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
    """Where a training stands; with the model's weights all it takes to go on.

    Attributes:
        curve: per finished epoch its number, losses and ordered-pair accuracies,
            and seconds; `val_tau`, where it is measured.
        best_score: highest validation score so far, see `Validation`.
        best_epoch: the epoch it was reached in; -1: none yet, or as it began.
        best_weights: the model's weights at that epoch.
    """

    curve: Dict[str, List[float]] = dataclasses.field(
        default_factory=lambda: {name: [] for name in CURVES}
    )
    best_score: float = -math.inf
    best_epoch: int = -1
    best_weights: List[np.ndarray] = dataclasses.field(default_factory=list)

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.curve['epoch'])


class Trainer:
    """Takes optimiser steps on a model.

    Args:
        model: a built model: `model(graph, training=True)` gives scores.
        loss: (labels, scores) -> scalar.
        optimiser: learning rate, clipping, weight decay and averaging.
        unpack: cuts a step's graph and labels out of packed tensors.
        signature: types of the packed tensors, by name.
        devices: where the replicas are; the model is one of theirs.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        loss: tf.keras.losses.Loss,
        optimiser: optimisation.Optimiser,
        unpack: Unpack,
        signature: Dict[str, tf.TensorSpec],
        devices: Optional[devices_lib.Devices] = None,
    ):
        self.model = model
        self.loss = loss
        self._unpack = unpack
        self._optimiser = optimiser
        self._devices = devices or devices_lib.Devices()
        with self._devices.scope():
            self.optimizer = optimiser.adam()
            # Moments have to exist before the compiled loop: it can make none.
            self.optimizer._create_all_weights(model.trainable_variables)
            self._averager = optimiser.averager(model.trainable_variables)
        self._compiled = tf.function(
            self._run_chunk, input_signature=[signature, tf.TensorSpec([], tf.int32)]
        )
        # Traced here: Keras saves only a model that was called, and a resumed
        # run may have no step left.
        self._compiled.get_concrete_function()

    def run_chunk(self, packed: Mapping[str, np.ndarray], steps: int):
        """Takes `steps` steps.

        Returns:
            (sum of the losses, ordered pairs right, ordered pairs), floats.

        Raises:
            ValueError: the loss is not finite.
        """
        loss, correct, total = (float(x) for x in self._compiled(packed, steps))
        if not np.isfinite(loss):
            raise ValueError(
                'the loss is not finite: lower --lr, or look for extreme '
                'runtimes in the training split'
            )
        return loss, correct, total

    def state(self) -> List[np.ndarray]:
        """Everything that a step changes, for `restore`."""
        return [
            *self.model.get_weights(),
            *self.optimizer.get_weights(),
            *self._averager.state(),
        ]

    def restore(self, state: List[np.ndarray]) -> None:
        """Puts back what `state` returned."""
        weights = len(self.model.get_weights())
        moments = weights + len(self.optimizer.get_weights())
        self.set_weights(state[:weights])
        with self._devices.scope():
            self.optimizer.set_weights(state[weights:moments])
            self._averager.restore(state[moments:])

    def set_weights(self, weights: List[np.ndarray]) -> None:
        """Gives the model its weights, on every device."""
        with self._devices.scope():
            self.model.set_weights(weights)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within this context the model has its averaged weights."""
        kept = self.model.get_weights()
        with self._devices.scope():
            self._averager.apply()
        try:
            yield
        finally:
            self.set_weights(kept)

    def _run_chunk(self, packed: Mapping[str, tf.Tensor], steps: tf.Tensor):
        loss_sum, correct, total = 0.0, 0.0, 0.0
        strategy = self._devices.strategy
        for step in tf.range(steps):
            found = strategy.run(self._step, args=(packed, step))
            loss, right, pairs = (
                strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None)
                for part in found
            )
            loss_sum += loss
            correct += right
            total += pairs
        return loss_sum, correct, total

    def _step(self, packed: Mapping[str, tf.Tensor], step: tf.Tensor):
        """A replica's part of a step, of which all are added up."""
        graph, labels = self._unpack(packed, self._devices.item(step))
        replicas = self._devices.replicas
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            scores = self.model(graph, training=True)
            loss = self.loss(labels, scores) / replicas
            penalties = self.model.losses
            penalties = [penalty / replicas for penalty in penalties]
            objective = tf.add_n([loss] + penalties) if penalties else loss
        gradients = tape.gradient(objective, variables)
        # Embedding gradients as dense matrices: the tables are small, and
        # clipping then sees the gradient itself, not its repeated rows.
        gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        self._optimiser.decay(self.optimizer, variables)
        self.optimizer.apply_gradients(zip(gradients, variables))
        self._averager.update(self.optimizer.iterations)
        return loss, *count_ordered_pairs(labels, scores)


def count_ordered_pairs(labels: tf.Tensor, scores: tf.Tensor):
    """Counts pairs with y_i > y_j, and those of them with s_i > s_j: [lists, n] each.

    Returns:
        (correct, total), float32 scalars.  Equal scores count as wrong.
    """
    slower = labels[:, :, tf.newaxis] > labels[:, tf.newaxis, :]
    higher = scores[:, :, tf.newaxis] > scores[:, tf.newaxis, :]
    correct = tf.math.count_nonzero(slower & higher, dtype=tf.float32)
    return correct, tf.math.count_nonzero(slower, dtype=tf.float32)


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some steps of an epoch: packed arrays and how many steps they hold."""

    packed: Mapping[str, np.ndarray]
    steps: int


@dataclasses.dataclass(frozen=True)
class Validation:
    """What `validate` found; a value is None where it could not be measured.

    Attributes:
        loss: the training loss on validation lists.
        opa: ordered-pair accuracy.
        tau: Kendall's tau; where it is given it chooses the best epoch, and
            otherwise OPA does.
        error: the standard error of that score by chance.
    """

    loss: Optional[float]
    opa: Optional[float]
    tau: Optional[float] = None
    error: float = 0.0

    @property
    def score(self) -> Optional[float]:
        """What the best epoch has most of."""
        return self.opa if self.tau is None else self.tau


def fit(
    trainer: Trainer,
    state: State,
    *,
    epochs: int,
    early_stop: int,
    steps_per_epoch: int,
    chunks: Callable[[int], Iterator[Chunk]],
    validate: Callable[[], Validation],
    after_epoch: Callable[[State], None] = lambda state: None,
    say: Callable[[str], None] = print,
    patience_steps: int = 0,
    known: bool = False,
) -> State:
    """Trains until the validation score stops rising; leaves the best weights.

    Args:
        trainer: holds the model.
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
        known: the first weights mean something: they are measured, too, and kept
            if no epoch is better by more than the error of a score.

    Returns:
        The state; the model has the weights of the best epoch.
    """
    patience = max(early_stop, -(-patience_steps // max(steps_per_epoch, 1)))
    done = state.epochs_done
    if known and not done:
        score = validate().score
        if score is not None:
            state.best_score, state.best_weights = score, trainer.model.get_weights()
    with progress.Progress(say, epochs, steps_per_epoch, done) as shown:
        for epoch in range(done, epochs):
            if state.best_weights and epoch - state.best_epoch > patience:
                break
            started = time.monotonic()
            train_loss, train_opa = _train_epoch(trainer, chunks(epoch), epoch, shown)
            trained = time.monotonic()
            with trainer.averaged():
                found = validate()
                # Without a validation score every epoch counts as better than the
                # last.
                beaten = state.best_score + found.error * (state.best_epoch < 0)
                better = found.score is None or found.score > beaten
                if better:
                    state.best_weights = trainer.model.get_weights()
            ended = time.monotonic()
            losses = (train_loss, train_opa, found.loss, found.opa)
            row = (epoch, *losses, trained - started, ended - trained)
            for name, value in zip(CURVES, row):
                state.curve[name].append(value)
            if found.tau is not None:
                state.curve.setdefault('val_tau', []).append(found.tau)
            if better:
                state.best_score = -math.inf if found.score is None else found.score
                state.best_epoch = epoch
            after_epoch(state)  # before its row: what is shown is kept
            shown.epoch(epoch, train_loss, train_opa, found, better, ended - started)
    if state.best_weights:
        measure = 'tau' if state.curve.get('val_tau') else 'OPA'
        early = state.epochs_done < epochs
        say(
            progress.closing(
                state.best_epoch, state.best_score, measure, patience if early else 0
            )
        )
        trainer.set_weights(state.best_weights)
    return state


def _train_epoch(
    trainer: Trainer, chunks: Iterator[Chunk], epoch: int, shown: progress.Progress
):
    loss, correct, total, done = 0.0, 0.0, 0.0, 0
    for chunk in chunks:
        sums = trainer.run_chunk(chunk.packed, chunk.steps)
        loss, correct, total = (a + b for a, b in zip((loss, correct, total), sums))
        done += chunk.steps
        opa = correct / total if total else None
        shown.step(epoch, chunk.steps, loss / done, opa)
    return loss / done, correct / total if total else None
