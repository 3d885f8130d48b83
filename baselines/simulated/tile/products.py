"""Kinds of simulated kernels with a matrix product or a convolution.

As in the real kernels, a matrix product is a `convolution` without a window,
and what is done to its operands sits in fusions of their own.
"""

import numpy as np

from baselines.simulated.hlo import (
    Computation,
    ConvolutionDims,
    Follow,
    Fusion,
    Instruction,
    Tensor,
    Window,
    tensor,
)
from baselines.simulated.tile.kernels import Kernel
from baselines.simulated.tile.kernels import end
from baselines.simulated.tile.kernels import pick
from baselines.simulated.tile.programs import Program
from baselines.simulated.tile.snippets import chain
from baselines.simulated.tile.snippets import load
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tile.tiles import bounds_of


def _operand(fusion: Fusion, shape: Tensor, rng, names: tuple, nodes: int):
    """Adds a producer fusion that ends in an operand of the product."""
    inner = Computation()
    x = load(inner, shape)
    x = chain(inner, x, rng, names, nodes)
    if x is inner.root and len(inner.instructions) == 1:
        inner.add('bitcast', x.shape, x)
    return fusion.producer(inner)


def _finish(
    fusion: Fusion, program: Program, rng, x: Instruction, nodes: int, space: Space
) -> Kernel:
    """Adds what follows the product: a chain, sometimes a sum over the rows."""
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    if rng.random() < 0.25:
        rows = range(len(x.shape.dims) - 1)
        fusion.body.tuple(x, fusion.reduce(x, list(rows)))
    else:
        end(fusion, program, rng, x)
    return Kernel(fusion.finish(), space)


def matmul(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns], either operand in either layout."""
    rows, depth, columns = pick(rng, program.products)
    flip_left, flip_right = rng.random() < 0.25, rng.random() < 0.4
    left = tensor(
        program.dtype,
        (rows, depth),
        axes=(0, 2),
        layout=(0, 1) if flip_left else (1, 0),
    )
    right = tensor(
        'f32', (depth, columns), axes=(2, 1), layout=(0, 1) if flip_right else (1, 0)
    )
    shape = tensor('f32', (rows, columns))
    fusion = Fusion()
    before = nodes // 3 if rng.random() < 0.5 else 1
    x = fusion.body.add(
        'convolution',
        shape,
        _operand(fusion, left, rng, program.snippets, before),
        _operand(fusion, right, rng, ('scale',), 1),
        convolution=ConvolutionDims(0, 1, (), 0, 1, (), 0, 1),
    )
    space = Space(
        (rows, columns, depth), bounds_of(shape), bounds_of(right), contracted=(2,)
    )
    return _finish(fusion, program, rng, x, nodes - before, space)


def convolve(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """A convolution of images [N, H, W, C] with a window [h, w, C, features]."""
    batch, side, channels, features, size, stride = pick(rng, program.convolutions)
    low = (size - stride + 1) // 2 if size > stride else 0
    high = max(size - stride - low, 0)
    given = (side - 1) * stride + size - low - high
    layout = program.layout.get(4, (3, 2, 1, 0))
    image = tensor(
        program.dtype,
        (batch, given, given, channels),
        layout=layout,
        axes=(0, Follow(1, stride, 1, 4), Follow(2, stride, 1, 5), 6),
    )
    kernel = tensor('f32', (size, size, channels, features), axes=(4, 5, 6, 3))
    shape = tensor('f32', (batch, side, side, features), layout=layout)
    fusion = Fusion()
    before = nodes // 3 if rng.random() < 0.4 else 1
    x = fusion.body.add(
        'convolution',
        shape,
        _operand(fusion, image, rng, program.snippets, before),
        _operand(fusion, kernel, rng, ('scale',), 1),
        window=(Window(size, stride, low, high),) * 2,
        convolution=ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
    )
    space = Space(
        (batch, side, side, features, size, size, channels),
        bounds_of(shape),
        bounds_of(kernel),
        contracted=(4, 5, 6),
    )
    return _finish(fusion, program, rng, x, nodes - before, space)


def attention(program: Program, rng: np.random.Generator, nodes: int) -> Kernel:
    """Scores of attention: a product per head, [b, rows, d] x [b, columns, d]."""
    batch, rows, columns, depth = pick(rng, program.attentions)
    left = tensor(program.dtype, (batch, rows, depth), axes=(0, 1, 3))
    right = tensor(program.dtype, (batch, columns, depth), axes=(0, 2, 3))
    shape = tensor('f32', (batch, rows, columns))
    fusion = Fusion()
    x = fusion.body.add(
        'dot',
        shape,
        _operand(fusion, left, rng, ('scale', 'bias'), nodes // 4),
        _operand(fusion, right, rng, ('scale', 'bias'), 1),
    )
    space = Space(
        (batch, rows, columns, depth),
        bounds_of(shape),
        bounds_of(right),
        contracted=(3,),
    )
    return _finish(fusion, program, rng, x, nodes, space)
