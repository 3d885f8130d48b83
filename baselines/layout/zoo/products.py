"""The cost of padding for products: the dots and convolutions of a program.

A matrix unit multiplies rows that stream past with 128 columns at once.  The
output's fastest dimension (c elements) lies in the columns and is filled up to a
multiple of 128, the second fastest (s elements) to one of 8:

    work = multiply-adds * ceil(c / 128) * 128 / c * max(r', 32) / r
    r    = all other elements of the output; r' the same, with s filled up

In the gradient of a window, which sums over more pixels than it has, each of its
pixels needs other weights, and r is s alone.  Fewer than 32 rows take as long as
32: so it is where this was measured, on two programs; the rest is public.
"""

from typing import NamedTuple, Sequence

import numpy as np

from baselines.layout import operations
from baselines.layout.operations import Array
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import spreading
from baselines.layout.zoo.arrays import has_opcode

_COLUMNS, _SUBLANES, _LEAST_ROWS = 128.0, 8.0, 32.0
# Of TPU v3: multiply-adds of a core's two matrix units while it moves a byte.
PER_BYTE = 2 * 128 * 128 * 0.94 / 450


class Products(NamedTuple):
    """The products of k configurable nodes.

    Attributes:
        share: float32 [k, 1], of the program's multiply-adds.
        total: float32 [k, 1], these, and what else they stand beside.
        dims: float32 [k, 6], sizes of the output.
        of_window: float32 [k, 1], 1 for the gradient of a window.
    """

    share: Array
    total: Array
    dims: Array
    of_window: Array


def find(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    chosen: Array,
    member: Array,
) -> Products:
    """Finds the multiply-adds of configurable nodes.

    What a dot sums over is not among the features.  For [b, m, k] and [b, k, n]
    it follows from the sizes of the arrays, if b = 1; else it is taken for
    sqrt(b) times as many.

    Args:
        arrays: of n nodes, `arrays.Arrays`.
        operands: their inputs and kernels, `spreading.Operand`.
        chosen: int32 [k], the configurable nodes.
        member: float32 [k, b], 1 for a node's program.
    """
    ops = operations.of(arrays.op)
    elements = arrays.elements
    first, second = (operand.node for operand in operands)

    size = arrays.size_of
    itself = ops.range(ops.size(elements))
    pixels = elements / ops.maximum(size(itself, 0, 0) * size(itself, 0, 1), 1.0)
    window = ops.maximum(arrays.window, 1.0)
    is_convolution = has_opcode(arrays.op, 'convolution')
    summed = ops.gather(elements, first) * ops.gather(elements, second) / elements
    summed = ops.where(has_opcode(arrays.op, 'dot'), ops.sqrt(summed), 0.0)
    of_kernel = window * ops.maximum(size(second, 2, 0), 1.0)
    summed = ops.where(is_convolution, of_kernel, summed)
    multiply_adds = ops.gather(elements * summed, chosen)[:, np.newaxis]
    total = ops.matmul(member, ops.matmul(member, multiply_adds, transpose_a=True))
    of_window = ops.cast(is_convolution & (window > pixels), ops.float32)
    return Products(
        share=multiply_adds / (total + 1e-9),
        total=total,
        dims=ops.gather(arrays.dims, chosen),
        of_window=ops.gather(of_window, chosen)[:, np.newaxis],
    )


def beside_traffic(products: Products, moved: Array) -> Products:
    """Counts traffic as the multiply-adds in its time: shares of both together.

    Args:
        products: as `find` returns them.
        moved: float32 [k, 1], bytes that a node's program moves.
    """
    total = products.total + PER_BYTE * moved
    share = products.share * products.total / (total + 1e-9)
    return products._replace(share=share, total=total)


def at(products: Products, node: Array) -> Products:
    """Returns the products of nodes, int [cells], by their place among the k."""
    ops = operations.of(products.share)
    return Products(*(ops.gather(part, node) for part in products))


def padded(products: Products, fastest: Array) -> Array:
    """Computes how many times as much work padding makes of products: [cells, 1].

    Args:
        products: of each cell's node.
        fastest: float32 [cells, 2], the two fastest dimensions of the output.
    """
    ops = operations.of(fastest)
    dims = products.dims
    places = ops.round(effects.hat(fastest))
    sizes = ops.maximum(ops.reduce_sum(places * dims[:, np.newaxis], -1), 1.0)
    columns, second = ops.split(sizes, 2, 1)
    elements = ops.reduce_prod(ops.maximum(dims, 1.0), 1, keepdims=True)
    others = ops.maximum(elements / (columns * second), 1.0)
    others = ops.where(products.of_window > 0, 1.0, others)
    rows = _filled(second, _SUBLANES) * others
    more = ops.maximum(rows, _LEAST_ROWS) / (second * others)
    return more * _filled(columns, _COLUMNS) / columns


def _filled(x: Array, unit: float) -> Array:
    """Rounds up to a multiple."""
    ops = operations.of(x)
    return ops.math.ceil(x / unit) * unit
