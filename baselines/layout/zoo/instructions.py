"""Configurable instructions without their layouts: their arrays and their work.

`chosen` are the configurable nodes, int32 [k].
"""

from typing import List, NamedTuple, Sequence

import tensorflow as tf

from baselines.layout import sparse
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import spreading

NUM_AMOUNTS = 6  # columns of `amounts` before those of `work`


class Instructions(NamedTuple):
    """The arrays of k configurable instructions, and where their operands come from.

    Attributes:
        dims: float32 [k, 3, 6], sizes of output, input and kernel; 0 for none.
        roles: float32 [k, 3, 2], batch and feature dimension of each array of a
            convolution; effects.NO_ROLE else.
        reduced: float32 [k, 6], share of what is reduced that loses a dimension.
        there: float32 [k, 2, 6], dimensions of input and kernel at their source.
        last: float32 [k, 2, 2], their last and last but one dimension.
        from_chosen: float32 [k, 2], 1 where their source is configurable.
        fixed: float32 [k, 2], 1 where they are row major.
    """

    dims: tf.Tensor
    roles: tf.Tensor
    reduced: tf.Tensor
    there: tf.Tensor
    last: tf.Tensor
    from_chosen: tf.Tensor
    fixed: tf.Tensor


def describe(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    origin: spreading.Origin,
    reductions: spreading.Reductions,
    chosen: tf.Tensor,
) -> Instructions:
    """Gathers the arrays of configurable nodes and the origins of their operands."""
    dims = [tf.gather(arrays.dims, chosen)]
    at_sources = []
    for operand in operands:
        node, exists = (tf.gather(part, chosen) for part in operand)
        dims.append(tf.gather(arrays.dims, node) * exists[:, tf.newaxis])
        source = origin.of(node)
        rank = tf.cast(tf.gather(arrays.rank, node), tf.float32)
        fixed = tf.equal(source.node, spreading.FIXED)
        at_sources.append(
            (
                tf.cast(source.dims, tf.float32),
                tf.stack([rank - 1.0, rank - 2.0], 1),
                exists * tf.cast(source.node >= 0, tf.float32),
                exists * tf.cast(fixed, tf.float32),
            )
        )
    is_convolution = arrays_lib.has_opcode(arrays.op, 'convolution')[:, None, None]
    roles = tf.where(is_convolution, arrays.roles, effects.NO_ROLE)
    return Instructions(
        tf.stack(dims, 1),
        tf.gather(roles, chosen),
        tf.gather(reductions.shares, chosen),
        *(tf.stack(parts, 1) for parts in zip(*at_sources)),
    )


def bytes_moved(
    arrays: arrays_lib.Arrays, operands: Sequence[spreading.Operand], chosen: tf.Tensor
) -> tf.Tensor:
    """Returns the bytes of output, input and kernel: float32 [k, 3]."""
    sizes = [tf.gather(arrays.bytes, o.node) * o.exists for o in operands]
    return tf.gather(tf.stack([arrays.bytes, *sizes], 1), chosen)


def amounts(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    copies: spreading.Copies,
    reductions: spreading.Reductions,
    work: tf.Tensor,
    chosen: tf.Tensor,
) -> tf.Tensor:
    """Returns amounts of work, in bytes: float32 [k, NUM_AMOUNTS + work kinds].

    Of output, input and kernel; copied; copied from or to row major; reduced; and
    4 bytes for each element of `work`, float32 [n, work kinds].
    """
    others = tf.stack([copies.bytes, copies.row_major, 4.0 * reductions.elements], 1)
    others = tf.gather(tf.concat([others, 4.0 * work], 1), chosen)
    return tf.concat([bytes_moved(arrays, operands, chosen), others], 1)


def between(
    chosen: tf.Tensor, num_nodes: tf.Tensor, matrices: Sequence[sparse.Matrix]
) -> List[sparse.Matrix]:
    """Renumbers matrices between configurable nodes by their place in `chosen`."""
    place = tf.tensor_scatter_nd_update(
        tf.fill([num_nodes], -1), chosen[:, tf.newaxis], tf.range(tf.size(chosen))
    )
    first, *others = [
        sparse.Matrix(tf.gather(place, m.rows), tf.gather(place, m.cols), m.values)
        for m in matrices
    ]
    # What a node is depends on its own layout, too: messages of weight 0.
    itself = tf.range(tf.size(chosen))
    parts = zip(first, (itself, itself, tf.zeros(tf.shape(itself))))
    return [sparse.Matrix(*[tf.concat(part, 0) for part in parts]), *others]
