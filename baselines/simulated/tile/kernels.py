"""Kinds of simulated kernels without a matrix product.

Every kind is a function (draft, nodes) -> `Kernel`; `nodes` is how long the fused
computation should become.
"""

from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

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
from baselines.simulated.tile.snippets import SNIPPETS
from baselines.simulated.tile.tiles import Space, bounds_of, space_of


class Kernel(NamedTuple):
    """One kernel."""

    computations: List[Computation]  # its HLO module, callees first
    space: Space  # what it loops over


def pick(rng: np.random.Generator, items: Sequence):
    """Returns one of `items`, all equally likely."""
    return items[int(rng.integers(len(items)))]


def exchanged(items: Sequence[int], i: int, j: int) -> Tuple[int, ...]:
    """Returns the items, two of them in each other's place."""
    items = list(items)
    items[i], items[j] = items[j], items[i]
    return tuple(items)


class Draft(Fusion):
    """A fused kernel of a program, of either simulator, under construction."""

    def __init__(self, program: Program, rng: np.random.Generator):
        super().__init__()
        self.program, self.rng = program, rng

    def activation(self, rank: int = 1) -> Tensor:
        """Draws an activation of at least this rank; its dimensions are the axes."""
        program = self.program
        dims = pick(self.rng, [d for d in program.activations if len(d) >= rank])
        made = tensor(program.dtype, dims, layout=program.layout.get(len(dims)))
        if program.permuted is not None and len(dims) > 2:
            if self.rng.random() < program.permuted:
                return made.ordered(exchanged(made.layout, 1, 2))
        return made

    def chain(self, x: Instruction, nodes: int, names: str = '') -> Instruction:
        """Appends random snippets until the computation has `nodes` instructions.

        They are of these names, or else of those that the program likes.
        """
        chosen = (names or self.program.snippets).split()
        while len(x.home.instructions) < nodes:
            x = SNIPPETS[pick(self.rng, chosen)](x, self.rng)
        return x

    def operand(self, shape: Tensor, nodes: int, names: str = '') -> Instruction:
        """Adds a producer fusion that ends in an operand of a product."""
        inner = Computation()
        x = self.chain(inner.load(shape), nodes, names)
        if len(inner.instructions) == 1:
            inner.add('bitcast', x.shape, x)
        return self.producer(inner)

    def store(self, *results: Instruction) -> None:
        """Ends the body: results are stored as the program stores activations."""
        if self.program.dtype == 'bf16' and self.rng.random() < self.program.narrow:
            results = tuple(result.convert('bf16') for result in results)
        self.tuple(*results)

    def kernel(self, shape: Tensor, **fields) -> Kernel:
        """Returns the kernel, which loops over the dimensions of `shape`."""
        return Kernel(self.finish(), space_of(shape, **fields))

    def ending(
        self, x: Instruction, nodes: int, shape: Tensor, names: str = '', **fields
    ) -> Kernel:
        """Returns the kernel that stores what one more chain makes of `x`."""
        self.store(self.chain(x, nodes, names))
        return self.kernel(shape, **fields)


def elementwise(draft: Draft, nodes: int) -> Kernel:
    """A chain over one activation, sometimes with an intermediate result."""
    shape = draft.activation()
    x = draft.load(shape)
    middle = draft.chain(x, nodes // 2)
    last = draft.chain(middle, nodes)
    two = middle is not x and middle is not last and draft.rng.random() < 0.3
    draft.store(*((middle, last) if two else (last,)))
    return draft.kernel(shape)


def _reduce(draft: Draft, nodes: int, dims_of) -> Kernel:
    shape = draft.activation(rank=2)
    dims = dims_of(len(shape.dims))
    x = draft.chain(draft.load(shape), nodes)
    results = [x.reduce(dims)]
    how = draft.rng.random()
    if how < 0.35:  # sum and sum of squares: the statistics of a normalisation
        results.append((x * x).reduce(dims))
    elif how < 0.6:  # the summands are needed too
        results.append(x)
    draft.tuple(*results)
    return draft.kernel(shape, reduced=tuple(dims))


def reduce_rows(draft: Draft, nodes: int) -> Kernel:
    """Sums over all but the last dimension: gradients of biases, batch norm."""
    return _reduce(draft, nodes, lambda rank: range(rank - 1))


def reduce_features(draft: Draft, nodes: int) -> Kernel:
    """Sums over the last dimension: layer norm."""
    return _reduce(draft, nodes, lambda rank: [rank - 1])


def softmax(draft: Draft, nodes: int) -> Kernel:
    """exp(x - maximum) and its sum per row, or the maximum itself."""
    shape = draft.activation(rank=2)
    x = draft.chain(draft.load(shape), nodes, 'scale mask_bias dropout bias')
    last = [len(shape.dims) - 1]
    if draft.rng.random() < 0.4:
        draft.tuple(x.reduce(last, 'maximum'))
    else:
        x = draft.chain(x, len(draft.instructions) + 1, 'exponentials')
        draft.tuple(x, x.reduce(last))
    return draft.kernel(shape, reduced=tuple(last))


def update(draft: Draft, nodes: int) -> Kernel:
    """An optimiser's step: many parameters of one shape, little arithmetic."""
    shape = tensor('f32', pick(draft.rng, draft.program.weights))
    weights = draft.parameter(shape)
    gradient = draft.load(shape.typed(draft.program.dtype))
    step = draft.chain(gradient, nodes, 'momentum square root_divide')
    rate = draft.vector(shape, ())
    draft.tuple(weights - rate * step, step)
    return draft.kernel(shape)


def relayout(shape: Tensor, layout: Sequence[int]) -> Kernel:
    """A change of layout alone: two nodes, no fusion."""
    entry = Computation()
    entry.add('copy', shape, entry.parameter(shape.ordered(layout)))
    return Kernel([entry], space_of(shape))


def copy(draft: Draft, nodes: int) -> Kernel:
    """Exchanges two dimensions in memory."""
    shape = draft.activation(rank=3)
    i, j = pick(draft.rng, [(1, 0), (0, 2 if len(shape.dims) == 3 else 3), (1, 2)])
    return relayout(shape, exchanged(shape.layout, i, j))


def transpose(draft: Draft, nodes: int) -> Kernel:
    """A transposition between two chains; its input is described as well."""
    shape = draft.activation(rank=3)
    rank = len(shape.dims)
    i, j = pick(draft.rng, [(rank - 1, rank - 2), (rank - 2, rank - 3)])
    order = exchanged(range(rank), i, j)
    # Result dimension d is operand dimension order[d]; swapping is its own inverse.
    source = tensor(
        shape.dtype, [shape.dims[d] for d in order], axes=order, layout=shape.layout
    )
    x = draft.chain(draft.load(source), nodes // 2, 'scale residual clip')
    target = shape.typed(x.shape.dtype)
    x = draft.add('transpose', target, x, dimensions=order)
    return draft.ending(x, nodes, shape, input_bounds=bounds_of(source))


def concatenate(draft: Draft, nodes: int) -> Kernel:
    """Joins two to four tensors along the last dimension."""
    shape = draft.activation(rank=2)
    last, parts = len(shape.dims) - 1, 2 + int(draft.rng.integers(3))
    whole = shape._replace(dims=(*shape.dims[:last], shape.dims[last] * parts))
    share = Follow(last, 1, parts)
    piece = shape._replace(axes=(*shape.axes[:last], share))
    pieces = []
    for i in range(parts):
        upto = nodes * (i + 1) // (2 * parts)
        pieces.append(draft.chain(draft.load(piece), upto, 'scale relu square'))
    target = whole.typed(pieces[0].shape.dtype)
    x = draft.add('concatenate', target, *pieces, dimensions=(last,))
    return draft.ending(x, nodes, whole)


def pad(draft: Draft, nodes: int) -> Kernel:
    """Pads the middle dimensions (images), or the last one."""
    shape = draft.activation(rank=2)
    rank = len(shape.dims)
    amount = 1 + int(draft.rng.integers(3))
    padded = (1, 2) if rank == 4 else (rank - 1,)
    padding = tuple((amount, amount) if d in padded else (0, 0) for d in range(rank))
    dims = tuple(s + low + high for s, (low, high) in zip(shape.dims, padding))
    whole = shape._replace(dims=dims)
    x = draft.chain(draft.load(shape), nodes // 2)
    value = draft.add('constant', x.shape.keep(()))
    x = draft.add('pad', whole.typed(x.shape.dtype), x, value, padding=padding)
    return draft.ending(x, nodes, whole)


def slice_(draft: Draft, nodes: int) -> Kernel:
    """Cuts a window out of a larger tensor."""
    shape = draft.activation(rank=2)
    first = pick(draft.rng, range(len(shape.dims) - 1))
    stride = 1 + int(draft.rng.integers(2))
    start = int(draft.rng.integers(4))
    limit = start + shape.dims[first] * stride
    dims, axes = list(shape.dims), list(shape.axes)
    dims[first] = limit + int(draft.rng.integers(3))
    axes[first] = Follow(first, stride)
    source = shape._replace(dims=tuple(dims), axes=tuple(axes))
    cut = [(0, size, 1) for size in shape.dims]
    cut[first] = (start, limit, stride)
    x = draft.load(source)
    x = draft.add('slice', shape.typed(x.shape.dtype), x, slices=tuple(cut))
    return draft.ending(x, nodes, shape)


def gates(draft: Draft, nodes: int) -> Kernel:
    """The element-wise half of a recurrent cell: four slices of one product."""
    rows, size = draft.program.activations[0]
    shape = tensor('f32', (rows, size))
    products = tensor(draft.program.dtype, (rows, 4 * size), axes=(0, Follow(1, 4)))
    given = draft.load(products)
    parts = []
    for i in range(4):
        cut = ((0, rows, 1), (i * size, (i + 1) * size, 1))
        part = draft.add('slice', shape, given, slices=cut)
        part = draft.vector(shape, [1]) + part
        parts.append(part.op('tanh' if i == 2 else 'logistic'))
    keep, write, new, out = parts
    state = keep * draft.load(shape) + write * new
    x = out * state.op('tanh')
    draft.store(state, draft.chain(x, nodes))
    return draft.kernel(shape)


KINDS: Dict[str, Callable[[Draft, int], Kernel]] = {
    kind.__name__.rstrip('_'): kind
    for kind in (
        elementwise, reduce_rows, reduce_features, softmax, update, copy, transpose,
        concatenate, pad, slice_, gates,
    )
}  # fmt: skip
