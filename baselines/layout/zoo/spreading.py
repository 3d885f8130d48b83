"""Where the layouts of arrays come from, and where two of them meet.

Layouts spread from configurable instructions as in XLA, through everything of
the same rank up to the next one; where two meet, an array is copied.

Edges are pairs (consumer, producer) of int32 [m]; `chosen` are the configurable
nodes, int32 [k].
"""

from typing import List, NamedTuple, Tuple

import numpy as np

from baselines.layout import operations
from baselines.layout import sparse
from baselines.layout.operations import Array
from baselines.layout.zoo.arrays import RANK
from baselines.layout.zoo.arrays import Arrays
from baselines.layout.zoo.arrays import has_opcode

Edges = Tuple[Array, Array]

# Origins of layouts that are no configurable node.
FIXED, ANY, UNKNOWN = -1, -2, -3

_MADE_ANYHOW = ('broadcast', 'constant', 'iota', 'rng')
_GIVEN = ('get-tuple-element', 'parameter')
_ROW_MAJOR = (*_GIVEN, 'gather', 'scatter', 'tuple', 'while')


class Origin(NamedTuple):
    """Where the layouts of arrays come from.

    Attributes:
        node: int32 [n], a configurable node or FIXED, ANY, UNKNOWN.
        dims: int32 [n, 6], for each dimension which one it is there.
    """

    node: Array
    dims: Array

    def of(self, nodes: Array) -> 'Origin':
        """Returns the origins of `nodes`, int32."""
        ops = operations.of(nodes)
        return Origin(*[ops.gather(part, nodes) for part in self])


class Operand(NamedTuple):
    """The input, or the kernel, of every node."""

    node: Array  # int32 [n]
    exists: Array  # float32 [n], 1 or 0


class Copies(NamedTuple):
    """Arrays that are copied other than for configurable nodes.

    Attributes:
        matrix: from the node whose layout an operand has to the one whose
            layout the result has; its rows have sum 1.
        bytes: float32 [n], of such operands, by the latter.
        row_major: float32 [n], bytes by configurable node of what is copied
            from or to row major.
    """

    matrix: sparse.Matrix
    bytes: Array
    row_major: Array


class Reductions(NamedTuple):
    """The arrays with a node's layout that are reduced.

    Attributes:
        elements: float32 [n], by configurable node.
        shares: float32 [n, 6], which share of them loses each dimension.
    """

    elements: Array
    shares: Array


def spread(arrays: Arrays, chosen: Array, edges: Edges, hops: int) -> Origin:
    """Lets layouts spread from where they are given.

    An instruction has the layout of the first operand of its rank that has one,
    those first that no configuration changes, then those of configurable
    nodes.  A transpose permutes it.
    """
    ops = operations.of(arrays.op)
    n = ops.size(arrays.op)
    node, consumer, producer = ops.range(n), *edges
    is_chosen = sparse.marked(chosen, n)
    row_major = has_opcode(arrays.op, *_ROW_MAJOR)
    anyhow = has_opcode(arrays.op, *_MADE_ANYHOW)
    settled = is_chosen | row_major | anyhow
    nothing = 3
    start = ops.where(has_opcode(arrays.op, *_GIVEN), 0, 2)
    start = ops.where(row_major, start, nothing)
    start = ops.where(is_chosen, 1, start)
    kept = sparse.where(
        ops.equal(ops.gather(arrays.rank, consumer), ops.gather(arrays.rank, producer))
        & ops.logical_not(ops.gather(settled, consumer))
    )
    consumer, producer = ops.gather(consumer, kept), ops.gather(producer, kept)
    order = start
    for _ in range(hops):
        least = ops.math.unsorted_segment_min(ops.gather(order, producer), consumer, n)
        order = ops.where(settled, start, ops.minimum(least, nothing))
    of_edge = ops.gather(order, consumer)
    kept = sparse.where(
        ops.equal(ops.gather(order, producer), of_edge) & (of_edge < nothing)
    )
    first = ops.math.unsorted_segment_min(kept, ops.gather(consumer, kept), n)
    follows = first < ops.size(consumer)
    first = ops.where(follows, first, 0)
    root = ops.where(follows, ops.gather(ops.pad(producer, [[0, 1]]), first), node)
    turned = follows & has_opcode(arrays.op, 'transpose')
    turned = ops.sequence_mask(ops.where(turned, arrays.rank, 0), RANK)
    dims = ops.where(turned, arrays.dimensions, ops.range(RANK))
    for _ in range(hops.bit_length()):
        dims = ops.gather(ops.gather(dims, root), dims, batch_dims=1)
        root = ops.gather(root, root)
    kind = ops.where(row_major, FIXED, ops.where(anyhow, ANY, UNKNOWN))
    return Origin(ops.gather(ops.where(is_chosen, node, kind), root), dims)


def operands(arrays: Arrays, edges: Edges) -> List[Operand]:
    """Returns the input and the kernel of every node: its first two operands.

    Edges have no order that says which is which; the input of a convolution is
    that with the output's batch.
    """
    ops = operations.of(arrays.op)
    consumer, producer = edges
    n, m = ops.size(arrays.op), ops.size(consumer)
    number = ops.range(m)
    first = ops.math.unsorted_segment_min(number, consumer, n)
    others = ops.where(ops.equal(number, ops.gather(first, consumer)), m, number)
    second = ops.math.unsorted_segment_min(others, consumer, n)
    exists = [first < m, second < m]
    nodes = [
        ops.gather(ops.pad(producer, [[0, 1]]), ops.where(one, edge, m))
        for one, edge in zip(exists, (first, second))
    ]

    wanted = arrays.size_of(ops.range(n), 0, 0)
    fits = [ops.equal(arrays.size_of(node, 1, 0), wanted) for node in nodes]
    swap = has_opcode(arrays.op, 'convolution') & exists[1] & fits[1]
    swap &= ops.logical_not(fits[0])
    return [
        Operand(
            ops.where(swap, nodes[1 - i], nodes[i]),
            ops.cast(ops.where(swap, exists[1 - i], exists[i]), ops.float32),
        )
        for i in (0, 1)
    ]


def sources(chosen: Array, operand: Operand, origin: Origin) -> sparse.Matrix:
    """Makes the matrix from an operand's source to it, where that is configurable."""
    ops = operations.of(chosen)
    source = ops.gather(origin.node, ops.gather(operand.node, chosen))
    kept = sparse.where((source >= 0) & (ops.gather(operand.exists, chosen) > 0))
    rows, cols = ops.gather(chosen, kept), ops.gather(source, kept)
    return sparse.Matrix(rows, cols, ops.ones(ops.shape(rows)))


def meetings(arrays: Arrays, chosen: Array, origin: Origin, edges: Edges) -> Copies:
    """Finds the edges where two layouts meet, and the bytes copied there."""
    ops = operations.of(arrays.op)
    consumer, producer = edges
    n = ops.size(arrays.op)
    source, target = origin.of(producer), origin.of(consumer)
    size = ops.gather(arrays.bytes, producer)
    elsewhere = ops.logical_not(ops.gather(sparse.marked(chosen, n), consumer))
    alike = ops.equal(
        ops.gather(arrays.rank, consumer), ops.gather(arrays.rank, producer)
    )
    alike &= ops.reduce_all(ops.equal(source.dims, target.dims), 1) & elsewhere
    plain = ops.reduce_all(ops.equal(source.dims, ops.range(RANK)), 1) & elsewhere
    from_chosen, to_chosen = source.node >= 0, target.node >= 0
    differ = ops.not_equal(source.node, target.node)
    kept = sparse.where(alike & from_chosen & to_chosen & differ)
    rows, cols = ops.gather(target.node, kept), ops.gather(source.node, kept)
    copied = ops.gather(size, kept)
    total = ops.math.unsorted_segment_sum(copied, rows, n)
    matrix = sparse.Matrix(
        rows, cols, copied / ops.gather(ops.maximum(total, 1.0), rows)
    )

    def by(node: Array, mask: Array):
        return ops.math.unsorted_segment_sum(
            ops.where(mask, size, 0.0), ops.maximum(node, 0), n
        )

    row_major = by(source.node, plain & from_chosen & ops.equal(target.node, FIXED))
    row_major += by(target.node, alike & to_chosen & ops.equal(source.node, FIXED))
    return Copies(matrix, total, row_major)


def reductions(arrays: Arrays, origin: Origin, edges: Edges) -> Reductions:
    """Finds the dimensions that reductions remove from arrays with a node's layout."""
    ops = operations.of(arrays.op)
    consumer, producer = edges
    n = ops.size(arrays.op)
    source = origin.of(producer)
    before, after = (ops.gather(arrays.rank, node) for node in (producer, consumer))
    is_reduce = ops.gather(has_opcode(arrays.op, 'reduce'), consumer)
    count = ops.where(is_reduce, before - after, 0)
    listed = ops.gather(
        source.dims, ops.gather(arrays.dimensions, consumer), batch_dims=1
    )
    lost = ops.one_hot(listed, RANK)
    lost *= ops.sequence_mask(count, RANK, ops.float32)[:, :, np.newaxis]
    reduced = (count > 0) & (source.node >= 0)
    size = ops.where(reduced, ops.gather(arrays.elements, producer), 0.0)
    owner = ops.maximum(source.node, 0)
    total = ops.math.unsorted_segment_sum(size, owner, n)
    of_dim = ops.math.unsorted_segment_sum(
        size[:, np.newaxis] * ops.reduce_max(lost, 1), owner, n
    )
    return Reductions(total, of_dim / ops.maximum(total, 1.0)[:, np.newaxis])


def followers(arrays: Arrays, origin: Origin, kinds: Array) -> Array:
    """Adds up elements of arrays that take over a layout, by configurable node.

    Args:
        arrays: of n nodes.
        origin: of their layouts.
        kinds: float32 [n, work], how much of each kind of work a node is.
    """
    ops = operations.of(arrays.op)
    n = ops.size(arrays.op)
    follows = ops.not_equal(origin.node, ops.range(n)) & (origin.node >= 0)
    work = ops.where(follows, arrays.elements, 0.0)[:, np.newaxis] * kinds
    return ops.math.unsorted_segment_sum(work, ops.where(follows, origin.node, 0), n)
