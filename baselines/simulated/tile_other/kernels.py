"""Kinds of kernels of the second simulator: (vocabulary, rng, nodes) -> Kernel."""

from typing import Callable, Dict, List, NamedTuple, Tuple

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
from baselines.simulated.tile.snippets import chain
from baselines.simulated.tile.snippets import load
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tile.tiles import bounds_of
from baselines.simulated.tile_other.programs import Program


class Kernel(NamedTuple):
    """A kernel: its module, what it loops over, and axes that stay whole."""

    computations: List[Computation]
    space: Space
    whole: Tuple[int, ...] = ()


def pick(rng: np.random.Generator, items):
    """Returns one of `items`, all equally likely."""
    return items[int(rng.integers(len(items)))]


def _array(program: Program, rng, rank: int = 1) -> Tensor:
    dims = pick(rng, [d for d in program.arrays if len(d) >= rank])
    layout = None
    if len(dims) > 2 and rng.random() < program.permuted:
        layout = list(range(len(dims) - 1, -1, -1))
        layout[1], layout[2] = layout[2], layout[1]
    return tensor(program.dtype, dims, layout=layout)


def _space(shape: Tensor, **fields) -> Space:
    return Space(shape.dims, bounds_of(shape), **fields)


def _end(fusion: Fusion, program: Program, rng, *results: Instruction) -> None:
    if program.dtype == 'bf16' and rng.random() < 0.5:
        results = [fusion.body.convert(r, 'bf16') for r in results]
    fusion.body.tuple(*results)


def gated(program: Program, rng, nodes: int) -> Kernel:
    """One half of a layer times the sigmoid of the other."""
    shape = _array(program, rng, 2)
    fusion = Fusion()
    body = fusion.body
    x, gate = load(body, shape), load(body, shape)
    gate = chain(body, gate, rng, ('bias', 'scale', 'clip'), nodes // 2)
    x = body.op('multiply', x, body.op('logistic', gate))
    x = chain(body, x, rng, program.snippets, nodes)
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape))


def pointwise(program: Program, rng, nodes: int) -> Kernel:
    """A chain with two or three results on the way."""
    shape = _array(program, rng)
    fusion = Fusion()
    x = load(fusion.body, shape)
    ends = []
    for part in range(1, 2 + int(rng.integers(3))):
        x = chain(fusion.body, x, rng, program.snippets, part * nodes // 2)
        ends.append(x)
    if len({id(end) for end in ends}) < len(ends) or ends[0].opcode == 'parameter':
        ends = ends[-1:]
    _end(fusion, program, rng, *ends)
    return Kernel(fusion.finish(), _space(shape))


def normalise_whole(program: Program, rng, nodes: int) -> Kernel:
    """Mean and variance of each row, and the row less its mean: rows stay whole."""
    shape = _array(program, rng, 2)
    last = len(shape.dims) - 1
    fusion = Fusion()
    body = fusion.body
    x = chain(body, load(body, shape), rng, program.snippets, nodes // 2)
    rows = list(range(last))
    mean = fusion.reduce(x, [last])
    centred = body.op('subtract', body.broadcast(mean, shape, rows), x)
    spread = fusion.reduce(body.op('multiply', centred, centred), [last])
    scale = body.op('rsqrt', body.broadcast(spread, shape, rows))
    x = body.op('multiply', scale, centred)
    x = chain(body, x, rng, ('scale_shift', 'bias', 'residual'), nodes)
    _end(fusion, program, rng, x)
    space = _space(shape, reduced=(last,))
    return Kernel(fusion.finish(), space, whole=(last,))


def _sum(program: Program, rng, nodes: int, dims_of: Callable) -> Kernel:
    shape = _array(program, rng, 2)
    dims = dims_of(len(shape.dims))
    fusion = Fusion()
    body = fusion.body
    x = load(body, shape)
    if rng.random() < 0.5:
        x = body.op('multiply', load(body, shape), x)
    x = chain(body, x, rng, program.snippets, nodes)
    opcode = pick(rng, ('add', 'add', 'maximum'))
    results = [fusion.reduce(x, dims, opcode)]
    if rng.random() < 0.3:
        results.append(fusion.reduce(body.op('multiply', x, x), dims))
    body.tuple(*results)
    return Kernel(fusion.finish(), _space(shape, reduced=tuple(dims)))


def sum_middle(program: Program, rng, nodes: int) -> Kernel:
    """Sums over the second dimension: tokens, positions."""
    return _sum(program, rng, nodes, lambda rank: [1] if rank > 2 else [0])


def sum_all_but_first(program: Program, rng, nodes: int) -> Kernel:
    """A number per example: losses, norms."""
    return _sum(program, rng, nodes, lambda rank: list(range(1, rank)))


def sum_last(program: Program, rng, nodes: int) -> Kernel:
    """A number per row: maxima and sums of a softmax."""
    return _sum(program, rng, nodes, lambda rank: [rank - 1])


def pool(program: Program, rng, nodes: int) -> Kernel:
    """Maxima or sums of windows of 2 or 3, two apart."""
    images = (
        [d for d in program.arrays if len(d) == 4]
        or [(*d[:1], 8, *d[1:]) for d in program.arrays if len(d) == 3]
        or [(8, 16, 16, 256)]
    )
    batch, high, wide, features = pick(rng, images)
    size = 2 + int(rng.integers(2))
    dims = (batch, max(high // 2, 1), max(wide // 2, 1), features)
    shape = tensor('f32', dims)
    source = tensor(
        program.dtype, (batch, 2 * dims[1], 2 * dims[2], features),
        axes=(0, Follow(1, 2), Follow(2, 2), 3),
    )  # fmt: skip
    fusion = Fusion()
    body = fusion.body
    x = chain(body, load(body, source), rng, ('scale', 'relu', 'bias'), nodes // 2)
    start = body.add('constant', x.shape.keep(()))
    window = (Window(1), Window(size, 2, 0, size - 2), Window(size, 2, 0, size - 2))
    x = body.add('reduce-window', shape, x, start, window=(*window, Window(1)))
    x = chain(body, x, rng, program.snippets, nodes)
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape))


def split_heads(program: Program, rng, nodes: int) -> Kernel:
    """A permutation of the dimensions of an array of rank 3 or 4."""
    shape = _array(program, rng, 3)
    rank = len(shape.dims)
    order = pick(
        rng, {3: [(1, 0, 2), (0, 2, 1)], 4: [(0, 2, 1, 3), (0, 1, 3, 2)]}[rank]
    )
    source = tensor(shape.dtype, [shape.dims[d] for d in order], axes=order)
    fusion = Fusion()
    body = fusion.body
    x = chain(body, load(body, source), rng, ('bias', 'scale'), nodes // 3)
    x = body.add('transpose', shape.typed(x.shape.dtype), x, dimensions=tuple(order))
    x = chain(body, x, rng, program.snippets, nodes)
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape, input_bounds=bounds_of(source)))


def step(program: Program, rng, nodes: int) -> Kernel:
    """An optimiser's step: four arrays in, three out."""
    shape = tensor('f32', pick(rng, program.weights))
    fusion = Fusion()
    body = fusion.body
    weights, first, second = (body.parameter(shape) for _ in range(3))
    gradient = chain(body, load(body, shape), rng, ('clip', 'scale'), nodes // 3)
    first = body.op('add', body.op('multiply', body.constant(shape), first), gradient)
    square = body.op('multiply', gradient, gradient)
    second = body.op('add', body.op('multiply', body.constant(shape), second), square)
    moved = body.op('divide', body.op('sqrt', second), first)
    moved = chain(body, moved, rng, ('scale', 'square', 'clip'), nodes)
    body.tuple(body.op('subtract', moved, weights), first, second)
    return Kernel(fusion.finish(), _space(shape))


def lone_copy(program: Program, rng, nodes: int) -> Kernel:
    """A change of layout alone."""
    shape = _array(program, rng, 2)
    layout = list(shape.layout)
    i = int(rng.integers(len(layout) - 1))
    layout[i], layout[i + 1] = layout[i + 1], layout[i]
    entry = Computation()
    entry.add('copy', shape, entry.parameter(shape._replace(layout=tuple(layout))))
    return Kernel([entry], _space(shape))


def flip(program: Program, rng, nodes: int) -> Kernel:
    """Reverses a slow dimension between two chains."""
    shape = _array(program, rng, 2)
    fusion = Fusion()
    body = fusion.body
    x = chain(body, load(body, shape), rng, ('scale', 'bias'), nodes // 2)
    x = body.add('reverse', x.shape, x, dimensions=(0,))
    x = chain(body, x, rng, program.snippets, nodes)
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape))


def table(program: Program, rng, nodes: int) -> Kernel:
    """A large array out of small ones: biases, positions, masks."""
    shape = _array(program, rng, 2)
    fusion = Fusion()
    body = fusion.body
    rank = len(shape.dims)
    x = body.vector(shape, [rank - 1], 'f32')
    x = body.op(
        'add', body.vector(shape, list(range(max(rank - 2, 0), rank)), 'f32'), x
    )
    x = chain(body, x, rng, ('scale', 'bias', 'clip', 'mask_bias', 'gelu'), nodes)
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape))


def _operand(fusion: Fusion, shape: Tensor, rng, names, nodes: int) -> Instruction:
    inner = Computation()
    x = chain(inner, load(inner, shape), rng, names, nodes)
    if len(inner.instructions) == 1:
        inner.add('bitcast', x.shape, x)
    return fusion.producer(inner)


def _product(program, rng, nodes, left, right, space, opcode='convolution', **fields):
    fusion = Fusion()
    before = [nodes // 4 if rng.random() < 0.3 else 1 for _ in range(2)]
    operands = [
        _operand(fusion, side, rng, program.snippets, length)
        for side, length in zip((left, right), before)
    ]
    shape = fields.pop('shape')
    x = fusion.body.add(opcode, shape, *operands, **fields)
    x = chain(fusion.body, x, rng, program.snippets, max(nodes - sum(before), 2))
    _end(fusion, program, rng, x)
    return Kernel(fusion.finish(), space)


def project(program: Program, rng, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns]; weights as the program stores them."""
    rows, depth, columns = pick(rng, program.products)
    flipped = rng.random() < 0.5
    left = tensor(program.dtype, (rows, depth), axes=(0, 2))
    right = tensor(
        program.dtype, (depth, columns), axes=(2, 1),
        layout=(0, 1) if flipped else (1, 0))  # fmt: skip
    shape = tensor('f32', (rows, columns))
    space = Space(
        (rows, columns, depth), bounds_of(shape), bounds_of(right), contracted=(2,)
    )
    return _product(
        program, rng, nodes, left, right, space, shape=shape,
        convolution=ConvolutionDims(0, 1, (), 0, 1, (), 0, 1))  # fmt: skip


def weight_gradient(program: Program, rng, nodes: int) -> Kernel:
    """[rows, inputs]' x [rows, outputs]: sums over the rows of a batch."""
    rows, inputs, outputs = pick(rng, program.products)
    left = tensor(program.dtype, (rows, inputs), axes=(2, 0))
    right = tensor(program.dtype, (rows, outputs), axes=(2, 1))
    shape = tensor('f32', (inputs, outputs))
    space = Space(
        (inputs, outputs, rows), bounds_of(shape), bounds_of(right), contracted=(2,)
    )
    return _product(
        program, rng, nodes, left, right, space, shape=shape,
        convolution=ConvolutionDims(1, 0, (), 0, 1, (), 0, 1))  # fmt: skip


def convolve(program: Program, rng, nodes: int) -> Kernel:
    """Images [N, H, W, C], some of few channels, some with a stride."""
    batch, side, channels, features, size, stride = pick(rng, program.convolutions)
    low = (size - stride + 1) // 2 if size > stride else 0
    high = max(size - stride - low, 0)
    given = (side - 1) * stride + size - low - high
    layout = (3, 0, 2, 1) if batch >= 8 and rng.random() < 0.6 else (3, 2, 1, 0)
    image = tensor(
        program.dtype, (batch, given, given, channels), layout=layout,
        axes=(0, Follow(1, stride, 1, 4), Follow(2, stride, 1, 5), 6),
    )  # fmt: skip
    window = tensor(program.dtype, (size, size, channels, features), axes=(4, 5, 6, 3))
    shape = tensor('f32', (batch, side, side, features), layout=layout)
    space = Space(
        (batch, side, side, features, size, size, channels),
        bounds_of(shape), bounds_of(window), contracted=(4, 5, 6),
    )  # fmt: skip
    return _product(
        program, rng, nodes, image, window, space, shape=shape,
        window=(Window(size, stride, low, high),) * 2,
        convolution=ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3))  # fmt: skip


def mix_values(program: Program, rng, nodes: int) -> Kernel:
    """[heads, rows, keys] x [heads, depth, keys]: attention's second product."""
    heads, rows, keys, depth = pick(rng, program.attentions)
    left = tensor(program.dtype, (heads, rows, keys), axes=(0, 1, 3))
    right = tensor(program.dtype, (heads, depth, keys), axes=(0, 2, 3))
    shape = tensor('f32', (heads, rows, depth))
    space = Space(
        (heads, rows, depth, keys), bounds_of(shape), bounds_of(right), contracted=(3,)
    )
    return _product(program, rng, nodes, left, right, space, opcode='dot', shape=shape)


KINDS: Dict[str, Callable[[Program, np.random.Generator, int], Kernel]] = {
    kind.__name__: kind
    for kind in (
        gated, pointwise, normalise_whole, sum_middle, sum_all_but_first, sum_last,
        pool, split_heads, step, lone_copy, flip, table, project, weight_gradient,
        convolve, mix_values,
    )
}  # fmt: skip
