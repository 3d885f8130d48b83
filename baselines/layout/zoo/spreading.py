"""Where the layouts of arrays come from, and where two of them meet.

Layouts spread from configurable instructions as in XLA, through everything of
the same rank up to the next one; where two meet, an array is copied.

Edges are pairs (consumer, producer) of int32 [m]; `chosen` are the configurable
nodes, int32 [k].
"""

from typing import List, NamedTuple, Tuple

import tensorflow as tf

from baselines.layout import sparse
from baselines.layout.zoo.arrays import RANK
from baselines.layout.zoo.arrays import Arrays
from baselines.layout.zoo.arrays import has_opcode

Edges = Tuple[tf.Tensor, tf.Tensor]

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

    node: tf.Tensor
    dims: tf.Tensor

    def of(self, nodes: tf.Tensor) -> 'Origin':
        """Returns the origins of `nodes`, int32."""
        return Origin(*[tf.gather(part, nodes) for part in self])


class Operand(NamedTuple):
    """The input, or the kernel, of every node."""

    node: tf.Tensor  # int32 [n]
    exists: tf.Tensor  # float32 [n], 1 or 0


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
    bytes: tf.Tensor
    row_major: tf.Tensor


class Reductions(NamedTuple):
    """The arrays with a node's layout that are reduced.

    Attributes:
        elements: float32 [n], by configurable node.
        shares: float32 [n, 6], which share of them loses each dimension.
    """

    elements: tf.Tensor
    shares: tf.Tensor


def spread(arrays: Arrays, chosen: tf.Tensor, edges: Edges, hops: int) -> Origin:
    """Lets layouts spread from where they are given.

    An instruction has the layout of the first operand of its rank that has one,
    those first that no configuration changes, then those of configurable
    nodes.  A transpose permutes it.
    """
    n = tf.size(arrays.op)
    node, consumer, producer = tf.range(n), *edges
    is_chosen = sparse.marked(chosen, n)
    row_major = has_opcode(arrays.op, *_ROW_MAJOR)
    anyhow = has_opcode(arrays.op, *_MADE_ANYHOW)
    settled = is_chosen | row_major | anyhow
    nothing = 3
    start = tf.where(has_opcode(arrays.op, *_GIVEN), 0, 2)
    start = tf.where(row_major, start, nothing)
    start = tf.where(is_chosen, 1, start)
    kept = sparse.where(
        tf.equal(tf.gather(arrays.rank, consumer), tf.gather(arrays.rank, producer))
        & tf.logical_not(tf.gather(settled, consumer))
    )
    consumer, producer = tf.gather(consumer, kept), tf.gather(producer, kept)
    order = start
    for _ in range(hops):
        least = tf.math.unsorted_segment_min(tf.gather(order, producer), consumer, n)
        order = tf.where(settled, start, tf.minimum(least, nothing))
    of_edge = tf.gather(order, consumer)
    kept = sparse.where(
        tf.equal(tf.gather(order, producer), of_edge) & (of_edge < nothing)
    )
    first = tf.math.unsorted_segment_min(kept, tf.gather(consumer, kept), n)
    follows = first < tf.size(consumer)
    first = tf.where(follows, first, 0)
    root = tf.where(follows, tf.gather(tf.pad(producer, [[0, 1]]), first), node)
    turned = follows & has_opcode(arrays.op, 'transpose')
    turned = tf.sequence_mask(tf.where(turned, arrays.rank, 0), RANK)
    dims = tf.where(turned, arrays.dimensions, tf.range(RANK))
    for _ in range(hops.bit_length()):
        dims = tf.gather(tf.gather(dims, root), dims, batch_dims=1)
        root = tf.gather(root, root)
    kind = tf.where(row_major, FIXED, tf.where(anyhow, ANY, UNKNOWN))
    return Origin(tf.gather(tf.where(is_chosen, node, kind), root), dims)


def operands(arrays: Arrays, edges: Edges) -> List[Operand]:
    """Returns the input and the kernel of every node: its first two operands.

    Edges have no order that says which is which; the input of a convolution is
    that with the output's batch.
    """
    consumer, producer = edges
    n, m = tf.size(arrays.op), tf.size(consumer)
    number = tf.range(m)
    first = tf.math.unsorted_segment_min(number, consumer, n)
    others = tf.where(tf.equal(number, tf.gather(first, consumer)), m, number)
    second = tf.math.unsorted_segment_min(others, consumer, n)
    exists = [first < m, second < m]
    nodes = [
        tf.gather(tf.pad(producer, [[0, 1]]), tf.where(one, edge, m))
        for one, edge in zip(exists, (first, second))
    ]

    wanted = arrays.size_of(tf.range(n), 0, 0)
    fits = [tf.equal(arrays.size_of(node, 1, 0), wanted) for node in nodes]
    swap = has_opcode(arrays.op, 'convolution') & exists[1] & fits[1]
    swap &= tf.logical_not(fits[0])
    return [
        Operand(
            tf.where(swap, nodes[1 - i], nodes[i]),
            tf.cast(tf.where(swap, exists[1 - i], exists[i]), tf.float32),
        )
        for i in (0, 1)
    ]


def sources(chosen: tf.Tensor, operand: Operand, origin: Origin) -> sparse.Matrix:
    """Makes the matrix from an operand's source to it, where that is configurable."""
    source = tf.gather(origin.node, tf.gather(operand.node, chosen))
    kept = sparse.where((source >= 0) & (tf.gather(operand.exists, chosen) > 0))
    rows, cols = tf.gather(chosen, kept), tf.gather(source, kept)
    return sparse.Matrix(rows, cols, tf.ones(tf.shape(rows)))


def meetings(arrays: Arrays, chosen: tf.Tensor, origin: Origin, edges: Edges) -> Copies:
    """Finds the edges where two layouts meet, and the bytes copied there."""
    consumer, producer = edges
    n = tf.size(arrays.op)
    source, target = origin.of(producer), origin.of(consumer)
    size = tf.gather(arrays.bytes, producer)
    elsewhere = tf.logical_not(tf.gather(sparse.marked(chosen, n), consumer))
    alike = tf.equal(tf.gather(arrays.rank, consumer), tf.gather(arrays.rank, producer))
    alike &= tf.reduce_all(tf.equal(source.dims, target.dims), 1) & elsewhere
    plain = tf.reduce_all(tf.equal(source.dims, tf.range(RANK)), 1) & elsewhere
    from_chosen, to_chosen = source.node >= 0, target.node >= 0
    differ = tf.not_equal(source.node, target.node)
    kept = sparse.where(alike & from_chosen & to_chosen & differ)
    rows, cols = tf.gather(target.node, kept), tf.gather(source.node, kept)
    copied = tf.gather(size, kept)
    total = tf.math.unsorted_segment_sum(copied, rows, n)
    matrix = sparse.Matrix(rows, cols, copied / tf.gather(tf.maximum(total, 1.0), rows))

    def by(node: tf.Tensor, mask: tf.Tensor):
        return tf.math.unsorted_segment_sum(
            tf.where(mask, size, 0.0), tf.maximum(node, 0), n
        )

    row_major = by(source.node, plain & from_chosen & tf.equal(target.node, FIXED))
    row_major += by(target.node, alike & to_chosen & tf.equal(source.node, FIXED))
    return Copies(matrix, total, row_major)


def reductions(arrays: Arrays, origin: Origin, edges: Edges) -> Reductions:
    """Finds the dimensions that reductions remove from arrays with a node's layout."""
    consumer, producer = edges
    n = tf.size(arrays.op)
    source = origin.of(producer)
    before, after = (tf.gather(arrays.rank, node) for node in (producer, consumer))
    is_reduce = tf.gather(has_opcode(arrays.op, 'reduce'), consumer)
    count = tf.where(is_reduce, before - after, 0)
    listed = tf.gather(
        source.dims, tf.gather(arrays.dimensions, consumer), batch_dims=1
    )
    lost = tf.one_hot(listed, RANK)
    lost *= tf.sequence_mask(count, RANK, tf.float32)[:, :, tf.newaxis]
    reduced = (count > 0) & (source.node >= 0)
    size = tf.where(reduced, tf.gather(arrays.elements, producer), 0.0)
    owner = tf.maximum(source.node, 0)
    total = tf.math.unsorted_segment_sum(size, owner, n)
    of_dim = tf.math.unsorted_segment_sum(
        size[:, tf.newaxis] * tf.reduce_max(lost, 1), owner, n
    )
    return Reductions(total, of_dim / tf.maximum(total, 1.0)[:, tf.newaxis])


def followers(arrays: Arrays, origin: Origin, kinds: tf.Tensor) -> tf.Tensor:
    """Adds up elements of arrays that take over a layout, by configurable node.

    Args:
        arrays: of n nodes.
        origin: of their layouts.
        kinds: float32 [n, work], how much of each kind of work a node is.
    """
    n = tf.size(arrays.op)
    follows = tf.not_equal(origin.node, tf.range(n)) & (origin.node >= 0)
    work = tf.where(follows, arrays.elements, 0.0)[:, tf.newaxis] * kinds
    return tf.math.unsorted_segment_sum(work, tf.where(follows, origin.node, 0), n)
