"""Effects of layouts on arrays: padding, and which dimensions are the fastest."""

import math

import tensorflow as tf

from baselines.layout.zoo.arrays import RANK

_REGISTER = (128.0, 8.0)  # what the two fastest dimensions are padded to
NO_ROLE = -9.0  # far from every dimension


def of_layouts(
    fastest: tf.Tensor,
    places: tf.Tensor,
    dims: tf.Tensor,
    roles: tf.Tensor,
    most_waste: float = math.inf,
) -> tf.Tensor:
    """Computes effects of layouts on output, input and kernel: [cells, 33].

    Args:
        fastest: float32 [cells, 3, 2], the two fastest dimensions of each.
        places: float32 [cells, 3, 2, 6], `hat` of these.
        dims: float32 [cells, 3, 6], sizes.
        roles: float32 [cells, 3, 2], batch and feature dimension; NO_ROLE.
        most_waste: padding by more than that counts as that.
    """
    size = tf.reduce_sum(tf.round(places) * dims[:, :, tf.newaxis], -1)
    size = tf.maximum(size, 1.0)
    waste = tf.math.ceil(size / _REGISTER) * _REGISTER / size
    waste = tf.math.log(tf.minimum(waste, most_waste))
    both = tf.reduce_sum(waste, -1, keepdims=True)
    rank = tf.math.count_nonzero(dims, -1, keepdims=True, dtype=tf.float32)
    in_roles = equal(fastest[:, :, :, tf.newaxis], roles[:, :, tf.newaxis])
    columns = tf.concat(
        [
            tf.math.log(size) / 8.0,
            waste,
            both,
            tf.exp(both) / 4.0,
            equal(fastest, rank - [1.0, 2.0]),
            tf.reshape(in_roles, [-1, 3, 4]),
        ],
        -1,
    )
    return tf.reshape(columns, [-1, 3 * columns.shape[-1]])


def role_sizes(dims: tf.Tensor, roles: tf.Tensor) -> tf.Tensor:
    """Computes logarithms of a convolution's batch and features: [k, 6].

    Args:
        dims: float32 [k, 3, 6], sizes of output, input and kernel.
        roles: float32 [k, 3, 2], batch and feature dimension; NO_ROLE.
    """
    sizes = tf.reduce_sum(hat(roles) * dims[:, :, tf.newaxis], -1)
    return tf.math.log1p(tf.reshape(sizes, [-1, 6])) / 8.0


def hat(x: tf.Tensor) -> tf.Tensor:
    """Encodes numbers 0 to 5 as one-hot, linear in between: [..] -> [.., 6].

    A dimension beyond the sixth, whose size is not among the columns, is no place,
    as is one that is absent: all 0.
    """
    return equal(x[..., tf.newaxis], tf.range(RANK, dtype=tf.float32))


def equal(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Compares numbers: 1 where equal, falling to 0 at a distance of 1."""
    return tf.nn.relu(1.0 - tf.abs(x - y))


def or_row_major(fastest: tf.Tensor, dims: tf.Tensor) -> tf.Tensor:
    """Puts the last dimensions where a configuration lists none.

    Args:
        fastest: float32 [..., 2], the fastest dimensions; -1: none.
        dims: float32 [..., 6], sizes; 0: none.
    """
    rank = tf.math.count_nonzero(dims, -1, keepdims=True, dtype=tf.float32)
    return tf.where(fastest < -0.5, rank - [1.0, 2.0], fastest)
