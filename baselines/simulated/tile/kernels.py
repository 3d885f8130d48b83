"""Kinds of simulated kernels without a matrix product.

Every kind is a function (program, random generator, nodes) -> `Kernel`; `nodes`
is how long the fused computation should become.
"""

from typing import List, NamedTuple, Sequence

import numpy as np

from baselines.simulated.hlo import (
    Computation,
    Follow,
    Fusion,
    Instruction,
    Tensor,
    tensor,
)
from baselines.simulated.tile.programs import Program
from baselines.simulated.tile.snippets import chain
from baselines.simulated.tile.snippets import load
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tile.tiles import bounds_of


class Kernel(NamedTuple):
    """One kernel: its HLO module (callees first) and what it loops over."""

    computations: List[Computation]
    space: Space


def pick(rng: np.random.Generator, items: Sequence):
    """Returns one of `items`, all equally likely."""
    return items[int(rng.integers(len(items)))]


def activation(program: Program, rng: np.random.Generator, rank: int = 1) -> Tensor:
    """Draws an activation of at least this rank; its dimensions are the axes."""
    dims = pick(rng, [d for d in program.activations if len(d) >= rank])
    return tensor(program.dtype, dims, layout=program.layout.get(len(dims)))


def _space(shape: Tensor, **fields) -> Space:
    return Space(shape.dims, bounds_of(shape), **fields)


def end(fusion: Fusion, program: Program, rng, *results: Instruction) -> None:
    """Ends the body: results are stored as the program stores activations."""
    narrow = program.dtype == 'bf16' and rng.random() < 0.7
    if narrow:
        results = [fusion.body.convert(r, 'bf16') for r in results]
    fusion.body.tuple(*results)


def elementwise(program: Program, rng, nodes: int) -> Kernel:
    """A chain over one activation, sometimes with an intermediate result."""
    shape = activation(program, rng)
    fusion = Fusion()
    x = load(fusion.body, shape)
    middle = chain(fusion.body, x, rng, program.snippets, nodes // 2)
    last = chain(fusion.body, middle, rng, program.snippets, nodes)
    two = middle is not x and middle is not last and rng.random() < 0.3
    end(fusion, program, rng, *((middle, last) if two else (last,)))
    return Kernel(fusion.finish(), _space(shape))


def _reduce(program: Program, rng, nodes: int, dims_of) -> Kernel:
    shape = activation(program, rng, rank=2)
    dims = dims_of(len(shape.dims))
    fusion = Fusion()
    x = load(fusion.body, shape)
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    results = [fusion.reduce(x, dims)]
    how = rng.random()
    if how < 0.35:  # sum and sum of squares: the statistics of a normalisation
        results.append(fusion.reduce(fusion.body.op('multiply', x, x), dims))
    elif how < 0.6:  # the summands are needed too
        results.append(x)
    fusion.body.tuple(*results)
    return Kernel(fusion.finish(), _space(shape, reduced=tuple(dims)))


def reduce_rows(program: Program, rng, nodes: int) -> Kernel:
    """Sums over all but the last dimension: gradients of biases, batch norm."""
    return _reduce(program, rng, nodes, lambda rank: range(rank - 1))


def reduce_features(program: Program, rng, nodes: int) -> Kernel:
    """Sums over the last dimension: layer norm."""
    return _reduce(program, rng, nodes, lambda rank: [rank - 1])


def softmax(program: Program, rng, nodes: int) -> Kernel:
    """exp(x - maximum) and its sum per row, or the maximum itself."""
    shape = activation(program, rng, rank=2)
    fusion = Fusion()
    x = load(fusion.body, shape)
    x = chain(fusion.body, x, rng, ('scale', 'mask_bias', 'dropout', 'bias'), nodes)
    last = [len(shape.dims) - 1]
    if rng.random() < 0.4:
        fusion.body.tuple(fusion.reduce(x, last, 'maximum'))
    else:
        x = chain(
            fusion.body, x, rng, ('exponentials',), len(fusion.body.instructions) + 1
        )
        fusion.body.tuple(x, fusion.reduce(x, last))
    return Kernel(fusion.finish(), _space(shape, reduced=tuple(last)))


def update(program: Program, rng, nodes: int) -> Kernel:
    """An optimiser's step: many parameters of one shape, little arithmetic."""
    shape = tensor('f32', pick(rng, program.weights))
    fusion = Fusion()
    body = fusion.body
    weights, gradient = body.parameter(shape), load(body, shape.typed(program.dtype))
    step = chain(body, gradient, rng, ('momentum', 'square', 'root_divide'), nodes)
    rate = body.vector(shape, ())
    moved = body.op('subtract', weights, body.op('multiply', rate, step))
    body.tuple(moved, step)
    return Kernel(fusion.finish(), _space(shape))


def copy(program: Program, rng, nodes: int) -> Kernel:
    """A change of layout alone: two nodes, no fusion."""
    shape = activation(program, rng, rank=3)
    rank = len(shape.dims)
    order = [(1, 0), (0, 2), (1, 2)] if rank == 3 else [(1, 0), (0, 3), (1, 2)]
    i, j = pick(rng, order)
    layout = list(shape.layout)
    layout[i], layout[j] = layout[j], layout[i]
    entry = Computation()
    given = entry.parameter(shape._replace(layout=tuple(layout)))
    entry.add('copy', shape, given)
    return Kernel([entry], _space(shape))


def transpose(program: Program, rng, nodes: int) -> Kernel:
    """A transposition between two chains; its input is described as well."""
    shape = activation(program, rng, rank=3)
    rank = len(shape.dims)
    order = list(range(rank))
    i, j = pick(rng, [(rank - 1, rank - 2), (rank - 2, rank - 3)])
    order[i], order[j] = order[j], order[i]
    # Result dimension d is operand dimension order[d]; swapping is its own inverse.
    source = tensor(
        shape.dtype, [shape.dims[d] for d in order], axes=order, layout=shape.layout
    )
    fusion = Fusion()
    x = load(fusion.body, source)
    x = chain(fusion.body, x, rng, ('scale', 'residual', 'clip'), nodes // 2)
    target = shape.typed(x.shape.dtype)
    x = fusion.body.add('transpose', target, x, dimensions=tuple(order))
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape, input_bounds=bounds_of(source)))


def concatenate(program: Program, rng, nodes: int) -> Kernel:
    """Joins two to four tensors along the last dimension."""
    shape = activation(program, rng, rank=2)
    last, parts = len(shape.dims) - 1, 2 + int(rng.integers(3))
    size = shape.dims[last]
    whole = shape._replace(dims=(*shape.dims[:last], size * parts))
    share = Follow(last, 1, parts)
    piece = shape._replace(axes=(*shape.axes[:last], share))
    fusion = Fusion()
    pieces = []
    for i in range(parts):
        x = load(fusion.body, piece)
        upto = nodes * (i + 1) // (2 * parts)
        pieces.append(chain(fusion.body, x, rng, ('scale', 'relu', 'square'), upto))
    target = whole.typed(pieces[0].shape.dtype)
    x = fusion.body.add('concatenate', target, *pieces, dimensions=(last,))
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(whole))


def pad(program: Program, rng, nodes: int) -> Kernel:
    """Pads the middle dimensions (images), or the last one."""
    shape = activation(program, rng, rank=2)
    rank = len(shape.dims)
    amount = 1 + int(rng.integers(3))
    padded = (1, 2) if rank == 4 else (rank - 1,)
    padding = tuple((amount, amount) if d in padded else (0, 0) for d in range(rank))
    dims = tuple(s + low + high for s, (low, high) in zip(shape.dims, padding))
    whole = shape._replace(dims=dims)
    fusion = Fusion()
    x = load(fusion.body, shape)
    x = chain(fusion.body, x, rng, program.snippets, nodes // 2)
    value = fusion.body.add('constant', x.shape.keep(()))
    x = fusion.body.add('pad', whole.typed(x.shape.dtype), x, value, padding=padding)
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(whole))


def slice_(program: Program, rng, nodes: int) -> Kernel:
    """Cuts a window out of a larger tensor."""
    shape = activation(program, rng, rank=2)
    first = pick(rng, range(len(shape.dims) - 1))
    stride = 1 + int(rng.integers(2))
    start = int(rng.integers(4))
    limit = start + shape.dims[first] * stride
    dims = tuple(
        limit + int(rng.integers(3)) if d == first else s
        for d, s in enumerate(shape.dims)
    )
    axes = list(shape.axes)
    axes[first] = Follow(first, stride)
    source = shape._replace(dims=dims, axes=tuple(axes))
    cut = tuple(
        (start, limit, stride) if d == first else (0, s, 1)
        for d, s in enumerate(shape.dims)
    )
    fusion = Fusion()
    x = load(fusion.body, source)
    x = fusion.body.add('slice', shape.typed(x.shape.dtype), x, slices=cut)
    x = chain(fusion.body, x, rng, program.snippets, nodes)
    end(fusion, program, rng, x)
    return Kernel(fusion.finish(), _space(shape))


def gates(program: Program, rng, nodes: int) -> Kernel:
    """The element-wise half of a recurrent cell: four slices of one product."""
    rows, size = program.activations[0]
    shape = tensor('f32', (rows, size))
    source = tensor(program.dtype, (rows, 4 * size), axes=(0, Follow(1, 4)))
    fusion = Fusion()
    body = fusion.body
    given = load(body, source)
    parts = []
    for i in range(4):
        cut = ((0, rows, 1), (i * size, (i + 1) * size, 1))
        part = body.add('slice', shape, given, slices=cut)
        part = body.op('add', body.vector(shape, [1]), part)
        parts.append(body.op('tanh' if i == 2 else 'logistic', part))
    keep, write, new, out = parts
    state = body.op('multiply', keep, load(body, shape))
    state = body.op('add', state, body.op('multiply', write, new))
    x = body.op('multiply', out, body.op('tanh', state))
    x = chain(body, x, rng, program.snippets, nodes)
    end(fusion, program, rng, state, x)
    return Kernel(fusion.finish(), _space(shape))
