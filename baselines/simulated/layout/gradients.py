"""Reverse-mode differentiation of a computation under construction.

Walks the instructions backwards and appends those of the gradients, the way
training graphs come about in the real programs.
"""

from typing import Callable, Dict, List, Sequence

import numpy as np

from baselines.simulated.hlo import ConvolutionDims, Instruction, Window
from baselines.simulated.layout.ops import (
    convolve,
    dot,
    reshape,
    scaled,
    transpose,
    windowed,
)


def gradients(
    results: Sequence[Instruction],
    seeds: Sequence[Instruction],
    wanted: Sequence[Instruction],
) -> List[Instruction]:
    """Appends the gradients of `results` with respect to `wanted`, one for each.

    All of them are in one computation; `seeds` are the gradients of the results.

    Raises:
        ValueError: no result depends on one of them.
    """
    tape = list(results[0].home.instructions)
    depends = {id(w) for w in wanted}
    for node in tape:
        if any(id(o) in depends for o in node.operands):
            depends.add(id(node))
    found: Dict[int, Instruction] = {}

    def give(node: Instruction, gradient: Instruction) -> None:
        if id(node) in depends:
            known = found.get(id(node))
            found[id(node)] = known + gradient if known else gradient

    for result, seed in zip(results, seeds):
        give(result, seed)
    stop = {id(w) for w in wanted}
    for node in reversed(tape):
        gradient = found.get(id(node))
        if gradient is None or id(node) in stop:
            continue
        if node.gradient:
            for earlier, part in node.gradient(gradient):
                give(earlier, part)
        elif node.opcode in _RULES:
            # What an operand gets is added before the next one's is made.
            parts = _RULES[node.opcode](node, gradient)
            for operand, part in zip(node.operands, parts):
                if part is not None:
                    give(operand, part)
    missing = [w.opcode for w in wanted if id(w) not in found]
    if missing:
        raise ValueError(f'the results do not depend on {", ".join(missing)}')
    return [found[id(w)] for w in wanted]


# A rule gives what each operand of `node` gets, in their order, of its gradient `g`;
# those after the last one that it gives get nothing.


def _subtract(node, g):
    yield g
    yield -g


def _divide(node, g):
    part = g / node.operands[1]
    yield part
    yield -(part * node)


def _select(node, g):
    seen = node.operands[0]
    yield None
    yield seen.op('select', g, g.fill())
    yield seen.op('select', g.fill(), g)


def _squash(node, g):
    """tanh' = 1 - y^2, logistic' = y (1 - y)."""
    other = node if node.opcode == 'tanh' else node.fill()
    yield g * (other - node * node)


def _broadcast(node, g):
    yield g.reduce([d for d in range(len(g.shape.dims)) if d not in node.dimensions])


def _reduce(node, g):
    x = node.operands[0]
    kept = [d for d in range(len(x.shape.dims)) if d not in node.dimensions]
    wide = g.broadcast(x.shape, kept)
    if node.calls[0].root.opcode == 'maximum':
        seen = x.op('compare', node.broadcast(x.shape, kept))
        wide = seen.op('select', wide, wide.fill())
    yield wide


def _slice(node, g):
    x = node.operands[0]
    padding = tuple(
        (start, size - limit)
        for (start, limit, _), size in zip(node.slices, x.shape.dims)
    )
    yield _padded(g, x.shape.dims, padding)


def _concatenate(node, g):
    start, [joined] = 0, node.dimensions
    for x in node.operands:
        slices = [(0, size, 1) for size in x.shape.dims]
        slices[joined] = (start, start + x.shape.dims[joined], 1)
        yield g.home.add('slice', x.shape, g, slices=tuple(slices))
        start += x.shape.dims[joined]


def _pool(node, g):
    x, window = node.operands[0], node.window[1:-1]
    opcode = 'select-and-scatter'
    yield windowed(opcode, x.shape.dims, x, g, window=window, calls='add')


def _gather(node, g):
    table, indices = node.operands
    zeros, calls = table.fill(), (g.home.reducers['add', g.shape.dtype],)
    yield g.home.add('scatter', table.shape, zeros, indices, g, calls=calls)


def _dot(node, g):
    x, y = node.operands
    left, right, out = node.spec.replace('->', ',').split(',')
    yield dot(f'{out},{right}->{left}', g, y)
    yield dot(f'{left},{out}->{right}', x, g)


def _convolution(node, g):
    """Gradients of a 'same' convolution of images [N, H, W, C]."""
    x, kernel = node.operands
    if any(w.stride > 1 for w in node.window):
        # Undoes the stride: zeros between the elements, by interior padding.
        dims = (*x.shape.dims[:3], g.shape.dims[3])
        g = _padded(g, dims, ((0, 0),) * 4)
    _, height, width, _ = x.shape.dims
    turned = g.home.add('reverse', kernel.shape, kernel, dimensions=(0, 1))
    padding = [(w.padding_low, w.size - 1 - w.padding_low) for w in node.window]
    back = [
        Window(w.size, 1, high, low) for w, (low, high) in zip(node.window, padding)
    ]
    numbers = ConvolutionDims(0, 3, (1, 2), 3, 2, (0, 1), 0, 3)
    roles = 'mssn', 'mssk', 'wwnk'
    yield convolve(g, turned, numbers, x.shape.dims, back, roles)
    # The kernel's gradient slides the images over each other: batch is summed,
    # the input's features stand where the batch stood.
    across = [Window(size, 1, *ends) for size, ends in zip((height, width), padding)]
    numbers = ConvolutionDims(3, 0, (1, 2), 0, 3, (1, 2), 2, 3)
    roles = 'ssmn', 'kssm', 'kwwn'
    yield convolve(x, g, numbers, kernel.shape.dims, across, roles)


def _padded(g, dims, padding) -> Instruction:
    zero = g.home.add('constant', g.shape.keep(()))
    wide = g.shape._replace(dims=dims)
    return g.home.add('pad', wide, g, zero, padding=padding)


_RULES: Dict[str, Callable] = {
    'add': lambda node, g: [g] * len(node.operands),
    'broadcast': _broadcast,
    'concatenate': _concatenate,
    'convert': lambda node, g: [g.convert(node.operands[0].shape.dtype)],
    'convolution': _convolution,
    'divide': _divide,
    'dot': _dot,
    'exponential': lambda node, g: [g * node],
    'gather': _gather,
    'log': lambda node, g: [g / node.operands[0]],
    'logistic': _squash,
    'maximum': lambda node, g: [
        node.operands[0].op('compare', node.operands[1]).op('select', g, g.fill())
    ],
    'multiply': lambda node, g: (g * other for other in reversed(node.operands)),
    'negate': lambda node, g: [-g],
    'reduce': _reduce,
    'reduce-window': _pool,
    'reshape': lambda node, g: [reshape(g, node.operands[0].shape.dims)],
    'rsqrt': lambda node, g: [scaled(g * (node / node.operands[0]))],
    'select': _select,
    'slice': _slice,
    'subtract': _subtract,
    'tanh': _squash,
    'transpose': lambda node, g: [transpose(g, np.argsort(node.dimensions))],
}
