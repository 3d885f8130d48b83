"""Optimiser steps, compiled.

An epoch is handed over as a few chunks of packed arrays, each holding many
steps.  One compiled function runs all steps of a chunk, so that neither Python
nor the input pipeline stands between two steps.
"""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import tensorflow as tf

from baselines.training import devices as devices_lib
from baselines.training import optimisation

# (packed tensors, number of the step) -> (graph, labels [batch, configs])
Unpack = Callable[[Mapping[str, tf.Tensor], tf.Tensor], Tuple[Any, tf.Tensor]]


class Steps:
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

    def run_chunk(
        self, packed: Mapping[str, np.ndarray], steps: int
    ) -> Tuple[float, float, float]:
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
        """Returns everything that a step changes, for `restore`."""
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
        """Gives the model its averaged weights within a context."""
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
            parts = strategy.run(self._step, args=(packed, step))
            loss, right, pairs = (
                strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None)
                for part in parts
            )
            loss_sum += loss
            correct += right
            total += pairs
        return loss_sum, correct, total

    def _step(self, packed: Mapping[str, tf.Tensor], step: tf.Tensor):
        """Takes a replica's part of a step; those of all replicas are added up."""
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
