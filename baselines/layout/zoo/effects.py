"""Effects of layouts on arrays: padding, and which dimensions are the fastest."""

import math

import numpy as np

from baselines.layout import operations
from baselines.layout.operations import Array
from baselines.layout.zoo.arrays import RANK

_REGISTER = (128.0, 8.0)  # what the two fastest dimensions are padded to
NO_ROLE = -9.0  # far from every dimension


def of_layouts(
    fastest: Array,
    places: Array,
    dims: Array,
    roles: Array,
    most_waste: float = math.inf,
) -> Array:
    """Computes effects of layouts on output, input and kernel: [cells, 33].

    Args:
        fastest: float32 [cells, 3, 2], the two fastest dimensions of each.
        places: float32 [cells, 3, 2, 6], `hat` of these.
        dims: float32 [cells, 3, 6], sizes.
        roles: float32 [cells, 3, 2], batch and feature dimension; NO_ROLE.
        most_waste: padding by more than that counts as that.
    """
    ops = operations.of(fastest)
    size = ops.reduce_sum(ops.round(places) * dims[:, :, np.newaxis], -1)
    size = ops.maximum(size, 1.0)
    register = ops.constant(_REGISTER)
    waste = ops.math.ceil(size / register) * register / size
    waste = ops.math.log(ops.minimum(waste, most_waste))
    both = ops.reduce_sum(waste, -1, keepdims=True)
    rank = ops.math.count_nonzero(dims, -1, keepdims=True, dtype=ops.float32)
    in_roles = equal(fastest[:, :, :, np.newaxis], roles[:, :, np.newaxis])
    columns = ops.concat(
        [
            ops.math.log(size) / 8.0,
            waste,
            both,
            ops.exp(both) / 4.0,
            equal(fastest, rank - ops.constant([1.0, 2.0])),
            ops.reshape(in_roles, [-1, 3, 4]),
        ],
        -1,
    )
    return ops.reshape(columns, [-1, 3 * columns.shape[-1]])


def role_sizes(dims: Array, roles: Array) -> Array:
    """Computes logarithms of a convolution's batch and features: [k, 6].

    Args:
        dims: float32 [k, 3, 6], sizes of output, input and kernel.
        roles: float32 [k, 3, 2], batch and feature dimension; NO_ROLE.
    """
    ops = operations.of(dims)
    sizes = ops.reduce_sum(hat(roles) * dims[:, :, np.newaxis], -1)
    return ops.math.log1p(ops.reshape(sizes, [-1, 6])) / 8.0


def hat(x: Array) -> Array:
    """Encodes numbers 0 to 5 as one-hot, linear in between: [..] -> [.., 6].

    A dimension beyond the sixth, whose size is not among the columns, is no place,
    as is one that is absent: all 0.
    """
    ops = operations.of(x)
    return equal(x[..., np.newaxis], ops.range(RANK, dtype=ops.float32))


def equal(x: Array, y: Array) -> Array:
    """Compares numbers: 1 where equal, falling to 0 at a distance of 1."""
    ops = operations.of(x)
    return ops.nn.relu(1.0 - ops.abs(x - y))


def or_row_major(fastest: Array, dims: Array) -> Array:
    """Puts the last dimensions where a configuration lists none.

    Args:
        fastest: float32 [..., 2], the fastest dimensions; -1: none.
        dims: float32 [..., 6], sizes; 0: none.
    """
    ops = operations.of(fastest)
    rank = ops.math.count_nonzero(dims, -1, keepdims=True, dtype=ops.float32)
    return ops.where(fastest < -0.5, rank - ops.constant([1.0, 2.0]), fastest)
