"""Configurable instructions without their layouts: their arrays and their work.

`chosen` are the configurable nodes, int32 [k].
"""

from typing import List, NamedTuple, Sequence

import numpy as np

from baselines.layout import operations
from baselines.layout import sparse
from baselines.layout.operations import Array
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

    dims: Array
    roles: Array
    reduced: Array
    there: Array
    last: Array
    from_chosen: Array
    fixed: Array


def describe(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    origin: spreading.Origin,
    reductions: spreading.Reductions,
    chosen: Array,
) -> Instructions:
    """Gathers the arrays of configurable nodes and the origins of their operands."""
    ops = operations.of(chosen)
    dims = [ops.gather(arrays.dims, chosen)]
    at_sources = []
    for operand in operands:
        node, exists = (ops.gather(part, chosen) for part in operand)
        dims.append(ops.gather(arrays.dims, node) * exists[:, np.newaxis])
        source = origin.of(node)
        rank = ops.cast(ops.gather(arrays.rank, node), ops.float32)
        fixed = ops.equal(source.node, spreading.FIXED)
        at_sources.append(
            (
                ops.cast(source.dims, ops.float32),
                ops.stack([rank - 1.0, rank - 2.0], 1),
                exists * ops.cast(source.node >= 0, ops.float32),
                exists * ops.cast(fixed, ops.float32),
            )
        )
    is_convolution = arrays_lib.has_opcode(arrays.op, 'convolution')[:, None, None]
    roles = ops.where(is_convolution, arrays.roles, effects.NO_ROLE)
    return Instructions(
        ops.stack(dims, 1),
        ops.gather(roles, chosen),
        ops.gather(reductions.shares, chosen),
        *(ops.stack(parts, 1) for parts in zip(*at_sources)),
    )


def bytes_moved(
    arrays: arrays_lib.Arrays, operands: Sequence[spreading.Operand], chosen: Array
) -> Array:
    """Returns the bytes of output, input and kernel: float32 [k, 3]."""
    ops = operations.of(chosen)
    sizes = [ops.gather(arrays.bytes, o.node) * o.exists for o in operands]
    return ops.gather(ops.stack([arrays.bytes, *sizes], 1), chosen)


def amounts(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    copies: spreading.Copies,
    reductions: spreading.Reductions,
    work: Array,
    chosen: Array,
) -> Array:
    """Returns amounts of work, in bytes: float32 [k, NUM_AMOUNTS + work kinds].

    Of output, input and kernel; copied; copied from or to row major; reduced; and
    4 bytes for each element of `work`, float32 [n, work kinds].
    """
    ops = operations.of(chosen)
    others = ops.stack([copies.bytes, copies.row_major, 4.0 * reductions.elements], 1)
    others = ops.gather(ops.concat([others, 4.0 * work], 1), chosen)
    return ops.concat([bytes_moved(arrays, operands, chosen), others], 1)


def between(
    chosen: Array, num_nodes: Array, matrices: Sequence[sparse.Matrix]
) -> List[sparse.Matrix]:
    """Renumbers matrices between configurable nodes by their place in `chosen`."""
    ops = operations.of(chosen)
    place = ops.tensor_scatter_nd_update(
        ops.fill([num_nodes], -1), chosen[:, np.newaxis], ops.range(ops.size(chosen))
    )
    first, *others = [
        sparse.Matrix(ops.gather(place, m.rows), ops.gather(place, m.cols), m.values)
        for m in matrices
    ]
    # What a node is depends on its own layout, too: messages of weight 0.
    itself = ops.range(ops.size(chosen))
    parts = zip(first, (itself, itself, ops.zeros(ops.shape(itself))))
    return [sparse.Matrix(*[ops.concat(part, 0) for part in parts]), *others]
