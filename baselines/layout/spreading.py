"""Where the layouts of arrays come from, and what takes them over.

Layouts spread from configurable instructions as in XLA, through everything of
the same rank up to the next one.  Edges are `consumer` and `producer`, int [m];
`chosen` are the configurable nodes, int [k].
"""

from typing import NamedTuple, Tuple

import numpy as np

from baselines.hlo import schema
from baselines.layout import shapes

# Origins of layouts that are no configurable node.
FIXED, ANY, UNKNOWN = -1, -2, -3

_MADE_ANYHOW = ('broadcast', 'constant', 'iota', 'rng')
_GIVEN = ('get-tuple-element', 'parameter')
_ROW_MAJOR = (*_GIVEN, 'gather', 'scatter', 'tuple', 'while')
# How many instructions a layout passes through at most.
_HOPS = 16


class Origin(NamedTuple):
    """The origins of the layouts of arrays.

    Attributes:
        node: int64 [n], a configurable node or FIXED, ANY, UNKNOWN.
        dims: int64 [n, 6], the dimension of that node's array behind each dimension.
    """

    node: np.ndarray
    dims: np.ndarray


def spread(
    arrays: shapes.Arrays,
    chosen: np.ndarray,
    consumer: np.ndarray,
    producer: np.ndarray,
    hops: int = _HOPS,
) -> Origin:
    """Finds the origins of all layouts, by spreading them along edges.

    An instruction takes its layout from an operand of its rank: from the first with a
    fixed layout, else from the first with that of a configurable node.  A transpose
    permutes it.
    """
    n = len(arrays.op)
    is_chosen = np.isin(np.arange(n), chosen)
    row_major = arrays.has_opcode(*_ROW_MAJOR)
    anyhow = arrays.has_opcode(*_MADE_ANYHOW)
    settled = is_chosen | row_major | anyhow
    nothing = 3
    start = np.where(arrays.has_opcode(*_GIVEN), 0, 2)
    start = np.where(row_major, start, nothing)
    start = np.where(is_chosen, 1, start)
    alike = (arrays.rank[consumer] == arrays.rank[producer]) & ~settled[consumer]
    consumer, producer = consumer[alike], producer[alike]
    order = start
    for _ in range(hops):
        least = np.full(n, nothing)
        np.minimum.at(least, consumer, order[producer])
        order = np.where(settled, start, least)
    first_order = order[consumer]
    edges = np.flatnonzero((order[producer] == first_order) & (first_order < nothing))
    first = np.full(n, len(consumer))
    np.minimum.at(first, consumer[edges], edges)
    follows = first < len(consumer)
    root = np.arange(n)
    root[follows] = producer[first[follows]]
    dims = np.tile(np.arange(schema.RANK), (n, 1))
    turned = follows & arrays.has_opcode('transpose')
    inside = np.arange(schema.RANK) < np.where(turned, arrays.rank, 0)[:, np.newaxis]
    dims = np.where(inside, arrays.dimensions, dims)
    for _ in range(hops.bit_length()):
        dims = np.take_along_axis(dims[root], dims, axis=1)
        root = root[root]
    kind = np.where(row_major, FIXED, np.where(anyhow, ANY, UNKNOWN))
    return Origin(np.where(is_chosen, np.arange(n), kind)[root], dims)


def reductions(
    arrays: shapes.Arrays, origin: Origin, consumer: np.ndarray, producer: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """Adds up the elements of arrays that are reduced, by the node of their layout.

    Returns:
        float32 [n], 0 but for configurable nodes; and float32 [n, 6], the share of
        these elements whose array loses each dimension.
    """
    lost_ranks = arrays.rank[producer] - arrays.rank[consumer]
    count = np.where(arrays.has_opcode('reduce')[consumer], lost_ranks, 0)
    reduced = (count > 0) & (origin.node[producer] >= 0)
    consumer, producer, count = (x[reduced] for x in (consumer, producer, count))
    listed = np.take_along_axis(
        origin.dims[producer], arrays.dimensions[consumer], axis=1
    )
    lost = shapes.one_hot(listed)
    lost *= (np.arange(schema.RANK) < count[:, np.newaxis])[:, :, np.newaxis]
    size, owner = arrays.elements[producer], origin.node[producer]
    total = np.zeros(len(arrays.op), np.float32)
    np.add.at(total, owner, size)
    of_dimension = np.zeros((len(total), schema.RANK), np.float32)
    np.add.at(of_dimension, owner, size[:, np.newaxis] * lost.max(axis=1))
    return total, of_dimension / np.maximum(total, 1)[:, np.newaxis]


def followers(arrays: shapes.Arrays, origin: Origin) -> np.ndarray:
    """Adds up the elements of arrays that take over a layout, by the layout's node.

    Returns:
        float32 [n], 0 but for configurable nodes.
    """
    follows = (origin.node != np.arange(len(origin.node))) & (origin.node >= 0)
    total = np.zeros(len(arrays.op), np.float32)
    np.add.at(total, origin.node[follows], arrays.elements[follows])
    return total
