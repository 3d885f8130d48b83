"""Checks of the options that models take."""

import tensorflow as tf


def at_least_1(**options: int) -> None:
    """Raises ValueError for the first option that is below 1."""
    for name, value in options.items():
        if value < 1:
            raise ValueError(f'{name} is at least 1, not {value}')


class Dropout(tf.keras.layers.Layer):
    """Leaves out a share of values in a training step, and scales up the others.

    The seed is taken from the values: a generator would have a state, which a resumed
    training had lost.

    Args:
        share: of the values, at least 0 and below 1.

    Call arguments:
        x: float32, of any shape.
        training: whether a training step asks.

    Raises:
        ValueError: the share is out of range.
    """

    def __init__(self, share: float):
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f'feature_dropout is at least 0 and below 1, not {share}')
        self._share = share

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not (training and self._share):
            return x
        seed = tf.stack([tf.bitcast(tf.reduce_sum(x), tf.int32), 0])
        return tf.nn.experimental.stateless_dropout(x, self._share, seed)
