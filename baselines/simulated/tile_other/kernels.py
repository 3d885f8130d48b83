"""Kinds of kernels of the second simulator: (draft, nodes) -> Kernel."""

import functools
from typing import Callable, Dict, Sequence

from baselines.simulated.hlo import ConvolutionDims, Follow, Window, tensor
from baselines.simulated.tile import products
from baselines.simulated.tile.kernels import Draft, Kernel, exchanged, pick, relayout
from baselines.simulated.tile.tiles import bounds_of


def gated(draft: Draft, nodes: int) -> Kernel:
    """One half of a layer times the sigmoid of the other."""
    shape = draft.activation(rank=2)
    x, gate = draft.load(shape), draft.load(shape)
    gate = draft.chain(gate, nodes // 2, 'bias scale clip')
    return draft.ending(x * gate.op('logistic'), nodes, shape)


def pointwise(draft: Draft, nodes: int) -> Kernel:
    """A chain with two or three results on the way."""
    shape = draft.activation()
    x = draft.load(shape)
    ends = []
    for part in range(1, 2 + int(draft.rng.integers(3))):
        x = draft.chain(x, part * nodes // 2)
        ends.append(x)
    if len({id(end) for end in ends}) < len(ends) or ends[0].opcode == 'parameter':
        ends = ends[-1:]
    draft.store(*ends)
    return draft.kernel(shape)


def normalise_whole(draft: Draft, nodes: int) -> Kernel:
    """Mean and variance of each row, and the row less its mean: rows stay whole."""
    shape = draft.activation(rank=2)
    last = len(shape.dims) - 1
    x = draft.chain(draft.load(shape), nodes // 2)
    centred = x.reduce([last]).broadcast(shape, range(last)) - x
    spread = (centred * centred).reduce([last])
    x = spread.broadcast(shape, range(last)).op('rsqrt') * centred
    names, axes = 'scale_shift bias residual', (last,)
    return draft.ending(x, nodes, shape, names, reduced=axes, whole=axes)


def _sum(draft: Draft, nodes: int, dims_of: Callable) -> Kernel:
    shape = draft.activation(rank=2)
    dims = dims_of(len(shape.dims))
    x = draft.load(shape)
    if draft.rng.random() < 0.5:
        x = draft.load(shape) * x
    x = draft.chain(x, nodes)
    results = [x.reduce(dims, pick(draft.rng, ('add', 'add', 'maximum')))]
    if draft.rng.random() < 0.3:
        results.append((x * x).reduce(dims))
    draft.tuple(*results)
    return draft.kernel(shape, reduced=tuple(dims))


_SUMS: Dict[str, Callable[[int], Sequence[int]]] = {
    # over the second dimension: tokens, positions
    'sum_middle': lambda rank: [1] if rank > 2 else [0],
    # a number per example: losses, norms
    'sum_all_but_first': lambda rank: range(1, rank),
    # a number per row: maxima and sums of a softmax
    'sum_last': lambda rank: [rank - 1],
}


def pool(draft: Draft, nodes: int) -> Kernel:
    """Maxima or sums of windows of 2 or 3, two apart."""
    activations = draft.program.activations
    images = (
        [d for d in activations if len(d) == 4]
        or [(*d[:1], 8, *d[1:]) for d in activations if len(d) == 3]
        or [(8, 16, 16, 256)]
    )
    batch, high, wide, features = pick(draft.rng, images)
    size = 2 + int(draft.rng.integers(2))
    dims = (batch, max(high // 2, 1), max(wide // 2, 1), features)
    shape = tensor('f32', dims)
    source = tensor(
        draft.program.dtype,
        (batch, 2 * dims[1], 2 * dims[2], features),
        axes=(0, Follow(1, 2), Follow(2, 2), 3),
    )
    x = draft.chain(draft.load(source), nodes // 2, 'scale relu bias')
    start = draft.add('constant', x.shape.keep(()))
    window = (Window(1), *[Window(size, 2, 0, size - 2)] * 2, Window(1))
    x = draft.add('reduce-window', shape, x, start, window=window)
    return draft.ending(x, nodes, shape)


def split_heads(draft: Draft, nodes: int) -> Kernel:
    """A permutation of the dimensions of an array of rank 3 or 4."""
    shape = draft.activation(rank=3)
    orders = {3: [(1, 0, 2), (0, 2, 1)], 4: [(0, 2, 1, 3), (0, 1, 3, 2)]}
    order = pick(draft.rng, orders[len(shape.dims)])
    source = tensor(shape.dtype, [shape.dims[d] for d in order], axes=order)
    x = draft.chain(draft.load(source), nodes // 3, 'bias scale')
    x = draft.add('transpose', shape.typed(x.shape.dtype), x, dimensions=order)
    return draft.ending(x, nodes, shape, input_bounds=bounds_of(source))


def step(draft: Draft, nodes: int) -> Kernel:
    """An optimiser's step: four arrays in, three out."""
    shape = tensor('f32', pick(draft.rng, draft.program.weights))
    weights, first, second = (draft.parameter(shape) for _ in range(3))
    gradient = draft.chain(draft.load(shape), nodes // 3, 'clip scale')
    first = draft.constant(shape) * first + gradient
    square = gradient * gradient
    second = draft.constant(shape) * second + square
    moved = draft.chain(second.op('sqrt') / first, nodes, 'scale square clip')
    draft.tuple(moved - weights, first, second)
    return draft.kernel(shape)


def lone_copy(draft: Draft, nodes: int) -> Kernel:
    """A change of layout alone."""
    shape = draft.activation(rank=2)
    i = int(draft.rng.integers(len(shape.layout) - 1))
    return relayout(shape, exchanged(shape.layout, i, i + 1))


def flip(draft: Draft, nodes: int) -> Kernel:
    """Reverses a slow dimension between two chains."""
    shape = draft.activation(rank=2)
    x = draft.chain(draft.load(shape), nodes // 2, 'scale bias')
    x = draft.add('reverse', x.shape, x, dimensions=(0,))
    return draft.ending(x, nodes, shape)


def table(draft: Draft, nodes: int) -> Kernel:
    """A large array out of small ones: biases, positions, masks."""
    shape = draft.activation(rank=2)
    rank = len(shape.dims)
    x = draft.vector(shape, [rank - 1], 'f32')
    x = draft.vector(shape, range(rank)[-2:], 'f32') + x
    return draft.ending(x, nodes, shape, 'scale bias clip mask_bias gelu')


def _kernel(draft: Draft, nodes: int, product: products.Product) -> Kernel:
    before = [nodes // 4 if draft.rng.random() < 0.3 else 1 for _ in range(2)]
    given = zip((product.left, product.right), before)
    x = product.add(draft, *[draft.operand(*each) for each in given])
    draft.store(draft.chain(x, max(nodes - sum(before), 2)))
    return Kernel(draft.finish(), product.space)


def project(draft: Draft, nodes: int) -> Kernel:
    """[rows, depth] x [depth, columns]; weights as the program stores them."""
    sizes, dtype = pick(draft.rng, draft.program.products), draft.program.dtype
    layout = (0, 1) if draft.rng.random() < 0.5 else (1, 0)
    product = products.matrices(sizes, (dtype, dtype), ((1, 0), layout))
    return _kernel(draft, nodes, product)


def weight_gradient(draft: Draft, nodes: int) -> Kernel:
    """[rows, inputs]' x [rows, outputs]: sums over the rows of a batch."""
    rows, inputs, outputs = pick(draft.rng, draft.program.products)
    product = products.Product(
        tensor(draft.program.dtype, (rows, inputs), axes=(2, 0)),
        tensor(draft.program.dtype, (rows, outputs), axes=(2, 1)),
        tensor('f32', (inputs, outputs)),
        (inputs, outputs, rows),
        {'convolution': ConvolutionDims(1, 0, (), 0, 1, (), 0, 1)},
    )
    return _kernel(draft, nodes, product)


def convolve(draft: Draft, nodes: int) -> Kernel:
    """Images [N, H, W, C], some of few channels, some with a stride."""
    sizes, dtype = pick(draft.rng, draft.program.convolutions), draft.program.dtype
    by_batch = sizes[0] >= 8 and draft.rng.random() < 0.6
    layout = (3, 0, 2, 1) if by_batch else (3, 2, 1, 0)
    return _kernel(draft, nodes, products.images(sizes, (dtype, dtype), layout))


def mix_values(draft: Draft, nodes: int) -> Kernel:
    """[heads, rows, keys] x [heads, depth, keys]: attention's second product."""
    heads, rows, keys, depth = pick(draft.rng, draft.program.attentions)
    sizes = heads, rows, depth, keys
    return _kernel(draft, nodes, products.batched(sizes, draft.program.dtype))


KINDS: Dict[str, Callable[[Draft, int], Kernel]] = {
    **{name: functools.partial(_sum, dims_of=dims) for name, dims in _SUMS.items()},
    **{kind.__name__: kind for kind in (
        gated, pointwise, normalise_whole, pool, split_heads, step, lone_copy, flip,
        table, project, weight_gradient, convolve, mix_values,
    )},
}  # fmt: skip
