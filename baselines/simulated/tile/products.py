"""Kinds of simulated kernels with a matrix product or a convolution.

As in the real kernels, a matrix product is a `convolution` without a window,
and what is done to its operands sits in fusions of their own.
"""

from typing import Sequence, Tuple

import numpy as np

from baselines.simulated.hlo import (
    ConvolutionDims,
    Follow,
    Instruction,
    Tensor,
    Window,
    tensor,
)
from baselines.simulated.tile.kernels import Draft, Kernel, pick
from baselines.simulated.tile.programs import Program
from baselines.simulated.tile.tiles import Space, bounds_of

# Of [rows, depth] x [depth, columns], and of images [N, H, W, C] with a window
# [h, w, C, features].
MATRIX = ConvolutionDims(0, 1, (), 0, 1, (), 0, 1)
IMAGES = ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3)


def product_space(
    sizes: Sequence[int], result: Tensor, kernel: Tensor, output_axes: int
) -> Space:
    """Returns the axes of a product: those of its result, then those summed over."""
    contracted = tuple(range(output_axes, len(sizes)))
    return Space(
        tuple(sizes), bounds_of(result), bounds_of(kernel), contracted=contracted
    )


def image_operands(
    sizes: Sequence[int], dtypes: Tuple[str, str], layout: Sequence[int]
) -> Tuple[Tensor, Tensor, Tensor, Window]:
    """Returns image, kernel and result of a 'same' convolution, and its window.

    Args:
        sizes: batch, side of the result, channels, features, window, stride.
        dtypes: element types of image and kernel.
        layout: of the images.
    """
    batch, side, channels, features, size, stride = sizes
    low = (size - stride + 1) // 2 if size > stride else 0
    high = max(size - stride - low, 0)
    given = (side - 1) * stride + size - low - high
    image = tensor(
        dtypes[0],
        (batch, given, given, channels),
        axes=(0, Follow(1, stride, 1, 4), Follow(2, stride, 1, 5), 6),
        layout=layout,
    )
    kernel = tensor(dtypes[1], (size, size, channels, features), axes=(4, 5, 6, 3))
    result = tensor('f32', (batch, side, side, features), layout=layout)
    return image, kernel, result, Window(size, stride, low, high)


def _finish(draft: Draft, rng, x: Instruction, nodes: int, space: Space) -> Kernel:
    """Adds what follows the product: a chain, sometimes a sum over the rows."""
    x = draft.chain(x, nodes)
    if rng.random() < 0.25:
        rows = range(len(x.shape.dims) - 1)
        draft.body.tuple(x, draft.reduce(x, list(rows)))
    else:
        draft.store(x)
    return Kernel(draft.finish(), space)


def matmul(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns], either operand in either layout."""
    rows, depth, columns = pick(rng, program.products)
    layouts = [(0, 1) if rng.random() < often else (1, 0) for often in (0.25, 0.4)]
    left = tensor(program.dtype, (rows, depth), axes=(0, 2), layout=layouts[0])
    right = tensor('f32', (depth, columns), axes=(2, 1), layout=layouts[1])
    shape, draft = tensor('f32', (rows, columns)), Draft(program, rng)
    before = nodes // 3 if rng.random() < 0.5 else 1
    operands = draft.operand(left, before), draft.operand(right, 1, 'scale')
    x = draft.body.add('convolution', shape, *operands, convolution=MATRIX)
    space = product_space((rows, columns, depth), shape, right, 2)
    return _finish(draft, rng, x, nodes - before, space)


def convolve(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """A convolution of images [N, H, W, C] with a window [h, w, C, features]."""
    sizes = pick(rng, program.convolutions)
    batch, side, channels, features, size, _ = sizes
    image, kernel, shape, window = image_operands(
        sizes, (program.dtype, 'f32'), program.layout.get(4, (3, 2, 1, 0))
    )
    draft = Draft(program, rng)
    before = nodes // 3 if rng.random() < 0.4 else 1
    operands = draft.operand(image, before), draft.operand(kernel, 1, 'scale')
    x = draft.body.add(
        'convolution', shape, *operands, window=(window,) * 2, convolution=IMAGES
    )
    loops = batch, side, side, features, size, size, channels
    space = product_space(loops, shape, kernel, 4)
    return _finish(draft, rng, x, nodes - before, space)


def attention(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """Scores of attention: a product per head, [b, rows, d] x [b, columns, d]."""
    batch, rows, columns, depth = pick(rng, program.attentions)
    left = tensor(program.dtype, (batch, rows, depth), axes=(0, 1, 3))
    right = tensor(program.dtype, (batch, columns, depth), axes=(0, 2, 3))
    shape, draft = tensor('f32', (batch, rows, columns)), Draft(program, rng)
    operands = (
        draft.operand(left, nodes // 4, 'scale bias'),
        draft.operand(right, 1, 'scale bias'),
    )
    x = draft.body.add('dot', shape, *operands)
    space = product_space((batch, rows, columns, depth), shape, right, 3)
    return _finish(draft, rng, x, nodes, space)
