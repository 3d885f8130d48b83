"""Kinds of kernels of the second simulator: (vocabulary, rng, nodes) -> Kernel."""

import functools
from typing import Callable, Dict, Sequence

import numpy as np

from baselines.simulated.hlo import ConvolutionDims, Follow, Tensor, Window, tensor
from baselines.simulated.tile import kernels
from baselines.simulated.tile import products
from baselines.simulated.tile.kernels import Kernel, pick
from baselines.simulated.tile.tiles import bounds_of
from baselines.simulated.tile_other.programs import Program


class Draft(kernels.Draft):
    """As the first simulator's."""

    narrow = 0.5


def _array(program: Program, rng, rank: int = 1) -> Tensor:
    dims = pick(rng, [d for d in program.activations if len(d) >= rank])
    layout = None
    if len(dims) > 2 and rng.random() < program.permuted:
        layout = list(range(len(dims) - 1, -1, -1))
        layout[1], layout[2] = layout[2], layout[1]
    return tensor(program.dtype, dims, layout=layout)


def gated(program: Program, rng, nodes: int) -> Kernel:
    """One half of a layer times the sigmoid of the other."""
    shape, draft = _array(program, rng, 2), Draft(program, rng)
    x, gate = draft.load(shape), draft.load(shape)
    gate = draft.chain(gate, nodes // 2, 'bias scale clip')
    x = draft.body.op('multiply', x, draft.body.op('logistic', gate))
    draft.store(draft.chain(x, nodes))
    return draft.kernel(shape)


def pointwise(program: Program, rng, nodes: int) -> Kernel:
    """A chain with two or three results on the way."""
    shape, draft = _array(program, rng), Draft(program, rng)
    x = draft.load(shape)
    ends = []
    for part in range(1, 2 + int(rng.integers(3))):
        x = draft.chain(x, part * nodes // 2)
        ends.append(x)
    if len({id(end) for end in ends}) < len(ends) or ends[0].opcode == 'parameter':
        ends = ends[-1:]
    draft.store(*ends)
    return draft.kernel(shape)


def normalise_whole(program: Program, rng, nodes: int) -> Kernel:
    """Mean and variance of each row, and the row less its mean: rows stay whole."""
    shape, draft = _array(program, rng, 2), Draft(program, rng)
    last = len(shape.dims) - 1
    body, rows = draft.body, list(range(last))
    x = draft.chain(draft.load(shape), nodes // 2)
    mean = draft.reduce(x, [last])
    centred = body.op('subtract', body.broadcast(mean, shape, rows), x)
    spread = draft.reduce(body.op('multiply', centred, centred), [last])
    scale = body.op('rsqrt', body.broadcast(spread, shape, rows))
    x = body.op('multiply', scale, centred)
    draft.store(draft.chain(x, nodes, 'scale_shift bias residual'))
    return draft.kernel(shape, reduced=(last,))._replace(whole=(last,))


def _sum(program: Program, rng, nodes: int, dims_of: Callable) -> Kernel:
    shape, draft = _array(program, rng, 2), Draft(program, rng)
    dims = dims_of(len(shape.dims))
    x = draft.load(shape)
    if rng.random() < 0.5:
        x = draft.body.op('multiply', draft.load(shape), x)
    x = draft.chain(x, nodes)
    results = [draft.reduce(x, dims, pick(rng, ('add', 'add', 'maximum')))]
    if rng.random() < 0.3:
        results.append(draft.reduce(draft.body.op('multiply', x, x), dims))
    draft.body.tuple(*results)
    return draft.kernel(shape, reduced=tuple(dims))


_SUMS: Dict[str, Callable[[int], Sequence[int]]] = {
    # over the second dimension: tokens, positions
    'sum_middle': lambda rank: [1] if rank > 2 else [0],
    # a number per example: losses, norms
    'sum_all_but_first': lambda rank: range(1, rank),
    # a number per row: maxima and sums of a softmax
    'sum_last': lambda rank: [rank - 1],
}


def pool(program: Program, rng, nodes: int) -> Kernel:
    """Maxima or sums of windows of 2 or 3, two apart."""
    images = (
        [d for d in program.activations if len(d) == 4]
        or [(*d[:1], 8, *d[1:]) for d in program.activations if len(d) == 3]
        or [(8, 16, 16, 256)]
    )
    batch, high, wide, features = pick(rng, images)
    size = 2 + int(rng.integers(2))
    dims = (batch, max(high // 2, 1), max(wide // 2, 1), features)
    shape, draft = tensor('f32', dims), Draft(program, rng)
    source = tensor(
        program.dtype,
        (batch, 2 * dims[1], 2 * dims[2], features),
        axes=(0, Follow(1, 2), Follow(2, 2), 3),
    )
    x = draft.chain(draft.load(source), nodes // 2, 'scale relu bias')
    start = draft.body.add('constant', x.shape.keep(()))
    window = (Window(1), *[Window(size, 2, 0, size - 2)] * 2, Window(1))
    x = draft.body.add('reduce-window', shape, x, start, window=window)
    draft.store(draft.chain(x, nodes))
    return draft.kernel(shape)


def split_heads(program: Program, rng, nodes: int) -> Kernel:
    """A permutation of the dimensions of an array of rank 3 or 4."""
    shape, draft = _array(program, rng, 3), Draft(program, rng)
    orders = {3: [(1, 0, 2), (0, 2, 1)], 4: [(0, 2, 1, 3), (0, 1, 3, 2)]}
    order = pick(rng, orders[len(shape.dims)])
    source = tensor(shape.dtype, [shape.dims[d] for d in order], axes=order)
    x = draft.chain(draft.load(source), nodes // 3, 'bias scale')
    x = draft.body.add('transpose', shape.typed(x.shape.dtype), x, dimensions=order)
    draft.store(draft.chain(x, nodes))
    return draft.kernel(shape, input_bounds=bounds_of(source))


def step(program: Program, rng, nodes: int) -> Kernel:
    """An optimiser's step: four arrays in, three out."""
    shape, draft = tensor('f32', pick(rng, program.weights)), Draft(program, rng)
    body = draft.body
    weights, first, second = (body.parameter(shape) for _ in range(3))
    gradient = draft.chain(draft.load(shape), nodes // 3, 'clip scale')
    first = body.op('add', body.op('multiply', body.constant(shape), first), gradient)
    square = body.op('multiply', gradient, gradient)
    second = body.op('add', body.op('multiply', body.constant(shape), second), square)
    moved = body.op('divide', body.op('sqrt', second), first)
    moved = draft.chain(moved, nodes, 'scale square clip')
    body.tuple(body.op('subtract', moved, weights), first, second)
    return draft.kernel(shape)


def lone_copy(program: Program, rng, nodes: int) -> Kernel:
    """A change of layout alone."""
    shape = _array(program, rng, 2)
    layout = list(shape.layout)
    i = int(rng.integers(len(layout) - 1))
    layout[i], layout[i + 1] = layout[i + 1], layout[i]
    return kernels.relayout(shape, layout)


def flip(program: Program, rng, nodes: int) -> Kernel:
    """Reverses a slow dimension between two chains."""
    shape, draft = _array(program, rng, 2), Draft(program, rng)
    x = draft.chain(draft.load(shape), nodes // 2, 'scale bias')
    x = draft.body.add('reverse', x.shape, x, dimensions=(0,))
    draft.store(draft.chain(x, nodes))
    return draft.kernel(shape)


def table(program: Program, rng, nodes: int) -> Kernel:
    """A large array out of small ones: biases, positions, masks."""
    shape, draft = _array(program, rng, 2), Draft(program, rng)
    rank = len(shape.dims)
    x = draft.body.vector(shape, [rank - 1], 'f32')
    plane = draft.body.vector(shape, range(rank)[-2:], 'f32')
    x = draft.body.op('add', plane, x)
    draft.store(draft.chain(x, nodes, 'scale bias clip mask_bias gelu'))
    return draft.kernel(shape)


def _product(program, rng, nodes, left, right, shape, sizes, **fields) -> Kernel:
    """A product of two tensors; `sizes` are its axes, those of `shape` first."""
    draft = Draft(program, rng)
    before = [nodes // 4 if rng.random() < 0.3 else 1 for _ in range(2)]
    operands = [draft.operand(t, n) for t, n in zip((left, right), before)]
    opcode = 'convolution' if fields else 'dot'
    x = draft.body.add(opcode, shape, *operands, **fields)
    draft.store(draft.chain(x, max(nodes - sum(before), 2)))
    space = products.product_space(sizes, shape, right, len(shape.dims))
    return Kernel(draft.finish(), space)


def project(program: Program, rng, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns]; weights as the program stores them."""
    rows, depth, columns = pick(rng, program.products)
    layout = (0, 1) if rng.random() < 0.5 else (1, 0)
    left = tensor(program.dtype, (rows, depth), axes=(0, 2))
    right = tensor(program.dtype, (depth, columns), axes=(2, 1), layout=layout)
    shape, sizes = tensor('f32', (rows, columns)), (rows, columns, depth)
    fields = {'convolution': products.MATRIX}
    return _product(program, rng, nodes, left, right, shape, sizes, **fields)


def weight_gradient(program: Program, rng, nodes: int) -> Kernel:
    """[rows, inputs]' x [rows, outputs]: sums over the rows of a batch."""
    rows, inputs, outputs = pick(rng, program.products)
    left = tensor(program.dtype, (rows, inputs), axes=(2, 0))
    right = tensor(program.dtype, (rows, outputs), axes=(2, 1))
    shape, sizes = tensor('f32', (inputs, outputs)), (inputs, outputs, rows)
    fields = {'convolution': ConvolutionDims(1, 0, (), 0, 1, (), 0, 1)}
    return _product(program, rng, nodes, left, right, shape, sizes, **fields)


def convolve(program: Program, rng, nodes: int) -> Kernel:
    """Images [N, H, W, C], some of few channels, some with a stride."""
    sizes = pick(rng, program.convolutions)
    batch, side, channels, features, size, _ = sizes
    layout = (3, 0, 2, 1) if batch >= 8 and rng.random() < 0.6 else (3, 2, 1, 0)
    image, kernel, shape, window = products.image_operands(
        sizes, (program.dtype, program.dtype), layout
    )
    loops = batch, side, side, features, size, size, channels
    fields = {'window': (window,) * 2, 'convolution': products.IMAGES}
    return _product(program, rng, nodes, image, kernel, shape, loops, **fields)


def mix_values(program: Program, rng, nodes: int) -> Kernel:
    """[heads, rows, keys] x [heads, depth, keys]: attention's second product."""
    heads, rows, keys, depth = pick(rng, program.attentions)
    left = tensor(program.dtype, (heads, rows, keys), axes=(0, 1, 3))
    right = tensor(program.dtype, (heads, depth, keys), axes=(0, 2, 3))
    shape, sizes = tensor('f32', (heads, rows, depth)), (heads, rows, depth, keys)
    return _product(program, rng, nodes, left, right, shape, sizes)


KINDS: Dict[str, Callable[[Program, np.random.Generator, int], Kernel]] = {
    **{name: functools.partial(_sum, dims_of=dims) for name, dims in _SUMS.items()},
    **{kind.__name__: kind for kind in (
        gated, pointwise, normalise_whole, pool, split_heads, step, lone_copy, flip,
        table, project, weight_gradient, convolve, mix_values,
    )},
}  # fmt: skip
