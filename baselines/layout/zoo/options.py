"""Checks of the options that models take."""

import tensorflow as tf


def at_least_1(**options: int) -> None:
    """Raises ValueError for the first option that is below 1."""
    for name, value in options.items():
        if value < 1:
            raise ValueError(f'{name} is at least 1, not {value}')


def make_dropout(feature_dropout: float) -> tf.keras.layers.Layer:
    """Makes the layer that leaves out a share of values in a training step.

    Raises:
        ValueError: the share is not at least 0 and below 1.
    """
    if not 0 <= feature_dropout < 1:
        raise ValueError(
            f'feature_dropout is at least 0 and below 1, not {feature_dropout}'
        )
    return tf.keras.layers.Dropout(feature_dropout)
