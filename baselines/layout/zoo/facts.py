"""What configurable nodes know whatever the configuration, put together.

`chosen` are the configurable nodes, int32 [k].
"""

from typing import Any, List, NamedTuple

import tensorflow as tf

from baselines.layout import sparse
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import spreading

KNOWN_AMOUNTS = 6  # of `amounts`, beside those of `work`


class Known(NamedTuple):
    """What k configurable nodes know of arrays.

    Attributes:
        dims: float32 [k, 3, 6], sizes of output, input and kernel; 0 for none.
        roles: float32 [k, 3, 2], their batch and feature dimension, if a
            convolution's; effects.NO_ROLE else.
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


class Facts(NamedTuple):
    """What k configurable nodes know whatever the configuration.

    Attributes:
        known: of arrays.
        meets: float32 [k, 1], 1 where other layouts meet this node's.
        degrees: float32 [k, 2], edges in and out.
        shift: float32 [k, h], added before the first activation.
        weight: float32 [k, h], how much work hangs on the node.
        more: what a subclass knows beside.
    """

    known: Known
    meets: tf.Tensor
    degrees: tf.Tensor
    shift: tf.Tensor
    weight: tf.Tensor
    more: Any = ()


def between(chosen, num_nodes, matrices) -> List[sparse.Matrix]:
    """The same matrices between configurable nodes, numbered as in `chosen`."""
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


def degrees(matrices: List[sparse.Matrix], k) -> tf.Tensor:
    """Of every configurable node the sums of edges in and out: [k, 2]."""

    def sums(end):
        return tf.add_n(
            [tf.math.unsorted_segment_sum(m.values, m[end], k) for m in matrices]
        )

    return tf.stack([sums(end) for end in (0, 1)], 1)


def moved(arrays, operands, chosen) -> tf.Tensor:
    """Bytes of output, input and kernel: float32 [k, 3]."""
    operands = [tf.gather(arrays.bytes, o.node) * o.exists for o in operands]
    return tf.gather(tf.stack([arrays.bytes, *operands], 1), chosen)


def amounts(arrays, operands, copies, reductions, work, chosen) -> tf.Tensor:
    """Bytes of output, input and kernel, copied, from or to row major, reduced.

    Returns:
        float32 [k, 6 + work_kinds], with 4 bytes for each element of `work`.
    """
    others = tf.stack([copies.bytes, copies.row_major, 4.0 * reductions.elements], 1)
    others = tf.gather(tf.concat([others, 4.0 * work], 1), chosen)
    return tf.concat([moved(arrays, operands, chosen), others], 1)


def known(arrays, operands, origin, reductions, chosen) -> Known:
    """What `chosen` know of their arrays and of where these come from."""
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
    return Known(
        tf.stack(dims, 1),
        tf.gather(roles, chosen),
        tf.gather(reductions.shares, chosen),
        *(tf.stack(parts, 1) for parts in zip(*at_sources)),
    )
