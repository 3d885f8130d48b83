"""Kinds of simulated kernels with a matrix product or a convolution.

As in the real kernels, a matrix product is a `convolution` without a window,
and what is done to its operands sits in fusions of their own.
"""

from typing import Any, Dict, NamedTuple, Sequence, Tuple

from baselines.simulated.hlo import ConvolutionDims, Follow, Tensor, Window, tensor
from baselines.simulated.tile.kernels import Draft, Kernel, pick
from baselines.simulated.tile.tiles import Space, bounds_of


class Product(NamedTuple):
    """What is multiplied."""

    left: Tensor
    right: Tensor
    result: Tensor
    sizes: Tuple[int, ...]  # of the axes: those of the result, then those summed over
    fields: Dict[str, Any]  # of a convolution; a `dot` has none

    @property
    def space(self) -> Space:
        """What the kernel loops over."""
        return Space(
            self.sizes,
            bounds_of(self.result),
            bounds_of(self.right),
            contracted=tuple(range(len(self.result.dims), len(self.sizes))),
        )

    def add(self, draft: Draft, *operands):
        """Adds the product of two operands that are in vector memory."""
        opcode = 'convolution' if self.fields else 'dot'
        return draft.add(opcode, self.result, *operands, **self.fields)


def matrices(
    sizes: Sequence[int],
    dtypes: Tuple[str, str],
    layouts: Tuple[Sequence[int], Sequence[int]],
) -> Product:
    """Returns [rows, depth] x [depth, columns].

    Args:
        sizes: rows, depth, columns.
        dtypes: element types of the operands.
        layouts: theirs.
    """
    rows, depth, columns = sizes
    return Product(
        tensor(dtypes[0], (rows, depth), axes=(0, 2), layout=layouts[0]),
        tensor(dtypes[1], (depth, columns), axes=(2, 1), layout=layouts[1]),
        tensor('f32', (rows, columns)),
        (rows, columns, depth),
        {'convolution': ConvolutionDims(0, 1, (), 0, 1, (), 0, 1)},
    )


def batched(sizes: Sequence[int], dtype: str) -> Product:
    """Returns [batch, rows, depth] x [batch, columns, depth].

    Args:
        sizes: batch, rows, columns, depth.
        dtype: element type of the operands.
    """
    batch, rows, columns, depth = sizes
    return Product(
        tensor(dtype, (batch, rows, depth), axes=(0, 1, 3)),
        tensor(dtype, (batch, columns, depth), axes=(0, 2, 3)),
        tensor('f32', (batch, rows, columns)),
        (batch, rows, columns, depth),
        {},
    )


def images(
    sizes: Sequence[int], dtypes: Tuple[str, str], layout: Sequence[int]
) -> Product:
    """Returns a 'same' convolution, [N, H, W, C] under [h, w, C, features].

    Args:
        sizes: batch, side of the result, channels, features, window, stride.
        dtypes: element types of image and kernel.
        layout: of the images.
    """
    batch, side, channels, features, size, stride = sizes
    low = (size - stride + 1) // 2 if size > stride else 0
    high = max(size - stride - low, 0)
    given = (side - 1) * stride + size - low - high
    return Product(
        tensor(
            dtypes[0],
            (batch, given, given, channels),
            axes=(0, Follow(1, stride, 1, 4), Follow(2, stride, 1, 5), 6),
            layout=layout,
        ),
        tensor(dtypes[1], (size, size, channels, features), axes=(4, 5, 6, 3)),
        tensor('f32', (batch, side, side, features), layout=layout),
        (batch, side, side, features, size, size, channels),
        {
            'window': (Window(size, stride, low, high),) * 2,
            'convolution': ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
        },
    )


def _kernel(
    draft: Draft, product: Product, before: int, nodes: int, names=('', 'scale')
) -> Kernel:
    """A product between chains, and sometimes a sum over its rows."""
    left = draft.operand(product.left, before, names[0])
    right = draft.operand(product.right, 1, names[1])
    x = draft.chain(product.add(draft, left, right), nodes)
    if draft.rng.random() < 0.25:
        draft.tuple(x, x.reduce(range(len(x.shape.dims) - 1)))
    else:
        draft.store(x)
    return Kernel(draft.finish(), product.space)


def matmul(draft: Draft, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns], either operand in either layout."""
    program, rng = draft.program, draft.rng
    sizes = pick(rng, program.products)
    left, right = ((0, 1) if rng.random() < often else (1, 0) for often in (0.25, 0.4))
    product = matrices(sizes, (program.dtype, 'f32'), (left, right))
    before = nodes // 3 if rng.random() < 0.5 else 1
    return _kernel(draft, product, before, nodes - before)


def convolve(draft: Draft, nodes: int) -> Kernel:
    """A convolution of images [N, H, W, C] with a window [h, w, C, features]."""
    program, rng = draft.program, draft.rng
    layout = program.layout.get(4, (3, 2, 1, 0))
    product = images(pick(rng, program.convolutions), (program.dtype, 'f32'), layout)
    before = nodes // 3 if rng.random() < 0.4 else 1
    return _kernel(draft, product, before, nodes - before)


def attention(draft: Draft, nodes: int) -> Kernel:
    """Scores of attention: a product per head, [b, rows, d] x [b, columns, d]."""
    product = batched(pick(draft.rng, draft.program.attentions), draft.program.dtype)
    return _kernel(draft, product, nodes // 4, nodes, names=('scale bias',) * 2)


KINDS = {kind.__name__: kind for kind in (matmul, convolve, attention)}
