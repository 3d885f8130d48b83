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

import tensorflow as tf

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

    share: tf.Tensor
    total: tf.Tensor
    dims: tf.Tensor
    of_window: tf.Tensor


def find(
    arrays: arrays_lib.Arrays,
    operands: Sequence[spreading.Operand],
    chosen: tf.Tensor,
    member: tf.Tensor,
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
    elements = arrays.elements
    first, second = (operand.node for operand in operands)

    size = arrays.size_of
    itself = tf.range(tf.size(elements))
    pixels = elements / tf.maximum(size(itself, 0, 0) * size(itself, 0, 1), 1.0)
    window = tf.maximum(arrays.window, 1.0)
    is_convolution = has_opcode(arrays.op, 'convolution')
    summed = tf.gather(elements, first) * tf.gather(elements, second) / elements
    summed = tf.where(has_opcode(arrays.op, 'dot'), tf.sqrt(summed), 0.0)
    of_kernel = window * tf.maximum(size(second, 2, 0), 1.0)
    summed = tf.where(is_convolution, of_kernel, summed)
    multiply_adds = tf.gather(elements * summed, chosen)[:, tf.newaxis]
    total = tf.matmul(member, tf.matmul(member, multiply_adds, transpose_a=True))
    of_window = tf.cast(is_convolution & (window > pixels), tf.float32)
    return Products(
        share=multiply_adds / (total + 1e-9),
        total=total,
        dims=tf.gather(arrays.dims, chosen),
        of_window=tf.gather(of_window, chosen)[:, tf.newaxis],
    )


def beside_traffic(products: Products, moved: tf.Tensor) -> Products:
    """Counts traffic as the multiply-adds in its time: shares of both together.

    Args:
        products: as `find` returns them.
        moved: float32 [k, 1], bytes that a node's program moves.
    """
    total = products.total + PER_BYTE * moved
    share = products.share * products.total / (total + 1e-9)
    return products._replace(share=share, total=total)


def at(products: Products, node: tf.Tensor) -> Products:
    """Returns the products of nodes, int [cells], by their place among the k."""
    return Products(*(tf.gather(part, node) for part in products))


def padded(products: Products, fastest: tf.Tensor) -> tf.Tensor:
    """Computes how many times as much work padding makes of products: [cells, 1].

    Args:
        products: of each cell's node.
        fastest: float32 [cells, 2], the two fastest dimensions of the output.
    """
    dims = products.dims
    places = tf.round(effects.hat(fastest))
    sizes = tf.maximum(tf.reduce_sum(places * dims[:, tf.newaxis], -1), 1.0)
    columns, second = tf.split(sizes, 2, 1)
    elements = tf.reduce_prod(tf.maximum(dims, 1.0), 1, keepdims=True)
    others = tf.maximum(elements / (columns * second), 1.0)
    others = tf.where(products.of_window > 0, 1.0, others)
    rows = _filled(second, _SUBLANES) * others
    more = tf.maximum(rows, _LEAST_ROWS) / (second * others)
    return more * _filled(columns, _COLUMNS) / columns


def _filled(x: tf.Tensor, unit: float) -> tf.Tensor:
    return tf.math.ceil(x / unit) * unit
