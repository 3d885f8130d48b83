"""Compiled optimiser steps.

An epoch is a few chunks of packed arrays, each with many steps.  One compiled function
runs all steps of a chunk, so that neither Python nor an input pipeline runs between
two steps.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config
from baselines.core import settings as settings_lib
from baselines.training import devices as devices_lib

# (packed tensors, number of the step) -> (graph, labels [batch, configs], prior);
# the model's scores are added to the prior, which has the shape of labels or is 0.
Unpack = Callable[
    [Mapping[str, tf.Tensor], tf.Tensor], tuple[tfgnn.GraphTensor, tf.Tensor, tf.Tensor]
]


class LossError(ValueError):
    """Raised for a loss that is not finite."""


class Steps:
    """Takes optimiser steps on a model.

    The optimiser is Adam (Kingma & Ba, ICLR 2015).  Weight decay is that of AdamW
    (Loshchilov & Hutter, ICLR 2019): before each step matrices shrink by it times the
    learning rate.

    Args:
        model: a built model: `model(graph, training=True)` gives scores.
        unpack: cuts a step's graph, labels and prior out of packed tensors.
        signature: types of the packed tensors, by name.
        total_steps: number of steps of the whole training, for schedules.
        devices: the replicas' devices, in the scope of which the model was made.
    """

    def __init__(
        self,
        model: tf.keras.Model,
        loss: tf.keras.losses.Loss,
        settings: config.Optimisation,
        unpack: Unpack,
        signature: dict[str, tf.TensorSpec],
        total_steps: int = 1,
        devices: devices_lib.Devices | None = None,
    ):
        self.model = model
        self._loss = loss
        self._unpack = unpack
        self._weight_decay = settings.weight_decay
        self._devices = devices or devices_lib.Devices()
        self._average_decay = settings_lib.parse_averaging(settings.averaging)
        variables = model.trainable_variables
        self._averaged = [] if self._average_decay is None else list(variables)
        with self._devices.strategy.scope():
            self.optimizer = make_adam(settings, total_steps)
            # Moments have to exist before the compiled loop, which cannot create them.
            self.optimizer._create_all_weights(variables)
            self._averages = [tf.Variable(v, trainable=False) for v in self._averaged]
        self._compiled = tf.function(
            self._take_steps, input_signature=[signature, tf.TensorSpec([], tf.int32)]
        )
        # Traced here, as Keras cannot save a model before a call, and a resumed run
        # may have no step left.
        self._compiled.get_concrete_function()

    def run_chunk(
        self, packed: Mapping[str, np.ndarray], steps: int
    ) -> tuple[float, float, float]:
        """Takes `steps` steps; raises LossError if the loss is not finite.

        Returns:
            (sum of the losses, ordered pairs right, ordered pairs), floats.
        """
        loss, correct, total = (float(x) for x in self._compiled(packed, steps))
        if not np.isfinite(loss):
            raise LossError(
                'the loss is not finite: lower --lr, or look for extreme runtimes'
            )
        return loss, correct, total

    def get_state(self) -> list[np.ndarray]:
        """Returns everything that a step changes, for `restore_state`."""
        averages = [average.numpy() for average in self._averages]
        return [*self.model.get_weights(), *self.optimizer.get_weights(), *averages]

    def restore_state(self, state: list[np.ndarray]) -> None:
        """Puts back a state from `get_state`; raises ValueError for another model's."""
        # The flat list of `get_state`: weights, then Adam's moments, then averages.
        weights = len(self.model.get_weights())
        moments = weights + len(self.optimizer.get_weights())
        averages = state[moments:]
        if len(averages) != len(self._averages):
            raise ValueError(
                f'{len(averages)} averages for {len(self._averages)} weights'
            )
        self.set_weights(state[:weights])
        with self._devices.strategy.scope():
            self.optimizer.set_weights(state[weights:moments])
            for variable, average in zip(self._averages, averages, strict=True):
                variable.assign(average)

    def set_weights(self, weights: list[np.ndarray]) -> None:
        """Copies the weights to the model, on every device."""
        with self._devices.strategy.scope():
            self.model.set_weights(weights)

    @contextlib.contextmanager
    def use_averages(self) -> Iterator[None]:
        """Gives the model its averaged weights while the block runs."""
        kept = self.model.get_weights()
        with self._devices.strategy.scope():
            for variable, average in zip(self._averaged, self._averages):
                variable.assign(average)
        try:
            yield
        finally:
            self.set_weights(kept)

    def _take_steps(self, packed: Mapping[str, tf.Tensor], steps: tf.Tensor):
        """Takes steps inside TensorFlow; returns what `run_chunk` does, as tensors."""
        # A loop over a tensor becomes one in the graph: no step returns to Python.
        loss_sum, correct, total = 0.0, 0.0, 0.0
        strategy = self._devices.strategy
        for step in tf.range(steps):
            parts = strategy.run(self._take_step, args=(packed, step))
            loss, right, pairs = (
                strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None)
                for part in parts
            )
            loss_sum += loss
            correct += right
            total += pairs
        return loss_sum, correct, total

    def _take_step(self, packed: Mapping[str, tf.Tensor], step: tf.Tensor):
        """Takes a replica's part of a step; returns its part of loss and pairs."""
        graph, labels, prior = self._unpack(packed, self._devices.find_row(step))
        replicas = self._devices.replicas
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            scores = self.model(graph, training=True) + prior  # [batch, configs]
            # Gradients of replicas are summed, so each has its share of the mean.
            loss = self._loss(labels, scores) / replicas
            penalties = [penalty / replicas for penalty in self.model.losses]
            objective = tf.add_n([loss, *penalties])
        gradients = tape.gradient(objective, variables)
        # Embedding gradients as dense matrices: the tables are small, and
        # clipping then sees the gradient itself, not its repeated rows.
        gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        if self._weight_decay:
            self._decay_matrices()
        self.optimizer.apply_gradients(zip(gradients, variables))
        if self._average_decay is not None:
            self._update_averages()
        return loss, *count_ordered_pairs(labels, scores)

    def _decay_matrices(self) -> None:
        """Shrinks matrices by the weight decay times the next step's learning rate."""
        rate = self.optimizer._decayed_lr(tf.float32)
        factor = 1.0 - rate * self._weight_decay
        matrices = [v for v in self.model.trainable_variables if v.shape.rank > 1]
        devices_lib.update_variables(
            lambda v, factor: v.assign(v * factor), matrices, [factor] * len(matrices)
        )

    def _update_averages(self) -> None:
        """Updates the moving averages of the weights after a step."""
        step = tf.cast(self.optimizer.iterations, tf.float32)
        # Early averages are over few steps, so the first weights count less in them.
        # As in tf.train.ExponentialMovingAverage: (1 + n) / (10 + n), n = step - 1.
        share = 1.0 - tf.minimum(self._average_decay, step / (9.0 + step))
        devices_lib.update_variables(
            lambda average, v, share: average.assign_add(share * (v - average)),
            self._averages,
            self._averaged,
            [share] * len(self._averages),
        )


def make_adam(
    settings: config.Optimisation, total_steps: int
) -> tf.keras.optimizers.legacy.Optimizer:
    """Makes Adam with the clipping and the learning rate of the settings.

    --clip=variable, each variable's gradient, is as published.
    """
    clip = 'global_clipnorm' if settings.clip == 'global' else 'clipnorm'
    # The legacy class updates a variable in one fused operation; the newer
    # one in ten, and small models are bounded by the number of operations.
    return tf.keras.optimizers.legacy.Adam(
        make_learning_rate(settings, total_steps), **{clip: settings.clip_norm}
    )


def make_learning_rate(
    settings: config.Optimisation, total_steps: int
) -> float | tf.keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning rate: a number, or a Keras schedule.

    --warmup counts in steps of the whole training, before --schedule; cosine is half
    a cosine wave from --lr to 0.
    """
    warm = round(settings.warmup * total_steps)
    falls = settings.schedule == 'cosine'
    if not falls and not warm:
        return settings.lr
    return tf.keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warm else settings.lr,
        # At least 1: the schedule divides by it.
        decay_steps=max(total_steps - warm, 1) if falls else 1,
        alpha=0.0 if falls else 1.0,  # where it ends, as a share of lr
        warmup_target=settings.lr if warm else None,
        warmup_steps=warm,
    )


def count_ordered_pairs(labels: tf.Tensor, scores: tf.Tensor):
    """Counts pairs of [lists, n] with y_i > y_j, and how many have s_i > s_j.

    Returns:
        (correct, total), float32 scalars.  Equal scores count as wrong.
    """
    # [lists, n, n], i against j; ties of labels are no pairs.
    slower = labels[:, :, tf.newaxis] > labels[:, tf.newaxis, :]
    higher = scores[:, :, tf.newaxis] > scores[:, tf.newaxis, :]
    correct = tf.math.count_nonzero(slower & higher, dtype=tf.float32)
    return correct, tf.math.count_nonzero(slower, dtype=tf.float32)
