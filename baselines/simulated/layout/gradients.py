"""Reverse-mode differentiation of a computation under construction.

Walks the instructions of `net.here` backwards and appends those of the
gradients, the way training graphs come about in the real programs.
"""

from typing import Callable, Dict, List, Sequence

import numpy as np

from baselines.simulated.hlo import ConvolutionDims, Instruction, Window
from baselines.simulated.layout.ops import Net


def gradients(
    net: Net,
    results: Sequence[Instruction],
    seeds: Sequence[Instruction],
    wanted: Sequence[Instruction],
) -> List[Instruction]:
    """Appends the gradients of `results` with respect to `wanted`, one for each.

    All of them are in `net.here`; `seeds` are the gradients of the results.

    Raises:
        ValueError: no result depends on one of them.
    """
    tape = list(net.here.instructions)
    depends = {id(w) for w in wanted}
    for node in tape:
        if any(id(o) in depends for o in node.operands):
            depends.add(id(node))
    found: Dict[int, Instruction] = {}

    def give(node: Instruction, gradient: Instruction) -> None:
        if id(node) in depends:
            known = found.get(id(node))
            found[id(node)] = net.op('add', known, gradient) if known else gradient

    for result, seed in zip(results, seeds):
        give(result, seed)
    stop = {id(w) for w in wanted}
    for node in reversed(tape):
        gradient = found.get(id(node))
        if gradient is None or id(node) in stop:
            continue
        if id(node) in net.custom:
            for earlier, part in net.custom[id(node)](gradient):
                give(earlier, part)
        elif node.opcode in _RULES:
            # What an operand gets is added before the next one's is made.
            parts = _RULES[node.opcode](net, node, gradient)
            for operand, part in zip(node.operands, parts):
                if part is not None:
                    give(operand, part)
    missing = [w.opcode for w in wanted if id(w) not in found]
    if missing:
        raise ValueError(f'the results do not depend on {", ".join(missing)}')
    return [found[id(w)] for w in wanted]


# A rule gives what each operand of `node` gets, in their order, of its gradient `g`;
# those after the last one that it gives get nothing.


def _subtract(net, node, g):
    yield g
    yield net.op('negate', g)


def _divide(net, node, g):
    part = net.op('divide', g, node.operands[1])
    yield part
    yield net.op('negate', net.op('multiply', part, node))


def _select(net, node, g):
    seen = node.operands[0]
    yield None
    yield net.op('select', seen, g, net.fill(g))
    yield net.op('select', seen, net.fill(g), g)


def _squash(net, node, g):
    """tanh' = 1 - y^2, logistic' = y (1 - y)."""
    other = node if node.opcode == 'tanh' else net.fill(node)
    rest = net.op('subtract', other, net.op('multiply', node, node))
    yield net.op('multiply', g, rest)


def _broadcast(net, node, g):
    over = [d for d in range(len(g.shape.dims)) if d not in node.dimensions]
    yield net.reduce(g, over)


def _reduce(net, node, g):
    x = node.operands[0]
    kept = [d for d in range(len(x.shape.dims)) if d not in node.dimensions]
    wide = net.along(g, x, kept)
    if node.calls[0].root.opcode == 'maximum':
        seen = net.op('compare', x, net.along(node, x, kept))
        wide = net.op('select', seen, wide, net.fill(wide))
    yield wide


def _slice(net, node, g):
    x = node.operands[0]
    padding = tuple(
        (start, size - limit)
        for (start, limit, _), size in zip(node.slices, x.shape.dims)
    )
    zero = net.here.add('constant', g.shape.keep(()))
    yield net.here.add('pad', x.shape, g, zero, padding=padding)


def _concatenate(net, node, g):
    start, [joined] = 0, node.dimensions
    for x in node.operands:
        slices = [(0, size, 1) for size in x.shape.dims]
        slices[joined] = (start, start + x.shape.dims[joined], 1)
        yield net.here.add('slice', x.shape, g, slices=tuple(slices))
        start += x.shape.dims[joined]


def _pool(net, node, g):
    x, window = node.operands[0], node.window[1:-1]
    opcode = 'select-and-scatter'
    yield net.windowed(opcode, x.shape.dims, x, g, window=window, calls='add')


def _gather(net, node, g):
    table, indices = node.operands
    zeros, calls = net.fill(table), (net.reducers['add', g.shape.dtype],)
    yield net.here.add('scatter', table.shape, zeros, indices, g, calls=calls)


def _dot(net, node, g):
    x, y = node.operands
    left, right, out = node.spec.replace('->', ',').split(',')
    yield net.dot(f'{out},{right}->{left}', g, y)
    yield net.dot(f'{left},{out}->{right}', x, g)


def _convolution(net, node, g):
    """Gradients of a 'same' convolution of images [N, H, W, C]."""
    x, kernel = node.operands
    g = _spread(net, g, x, node.window)
    _, height, width, _ = x.shape.dims
    turned = net.here.add('reverse', kernel.shape, kernel, dimensions=(0, 1))
    padding = [(w.padding_low, w.size - 1 - w.padding_low) for w in node.window]
    back = [
        Window(w.size, 1, high, low) for w, (low, high) in zip(node.window, padding)
    ]
    numbers = ConvolutionDims(0, 3, (1, 2), 3, 2, (0, 1), 0, 3)
    roles = 'mssn', 'mssk', 'wwnk'
    yield net.convolve(g, turned, numbers, x.shape.dims, back, roles)
    # The kernel's gradient slides the images over each other: batch is summed,
    # the input's features stand where the batch stood.
    across = [Window(size, 1, *ends) for size, ends in zip((height, width), padding)]
    numbers = ConvolutionDims(3, 0, (1, 2), 0, 3, (1, 2), 2, 3)
    roles = 'ssmn', 'kssm', 'kwwn'
    yield net.convolve(x, g, numbers, kernel.shape.dims, across, roles)


def _spread(net, g, x, window) -> Instruction:
    """Undoes a stride: zeros between the elements, by interior padding."""
    if all(w.stride == 1 for w in window):
        return g
    dims = (*x.shape.dims[:3], g.shape.dims[3])
    zero = net.here.add('constant', g.shape.keep(()))
    wide = g.shape._replace(dims=dims)
    return net.here.add('pad', wide, g, zero, padding=((0, 0),) * 4)


_RULES: Dict[str, Callable] = {
    'add': lambda net, node, g: [g] * len(node.operands),
    'broadcast': _broadcast,
    'concatenate': _concatenate,
    'convert': lambda net, node, g: [net.here.convert(g, node.operands[0].shape.dtype)],
    'convolution': _convolution,
    'divide': _divide,
    'dot': _dot,
    'exponential': lambda net, node, g: [net.op('multiply', g, node)],
    'gather': _gather,
    'log': lambda net, node, g: [net.op('divide', g, node.operands[0])],
    'logistic': _squash,
    'maximum': lambda net, node, g: [
        net.op('select', net.op('compare', *node.operands), g, net.fill(g))
    ],
    'multiply': lambda net, node, g: (
        net.op('multiply', g, other) for other in reversed(node.operands)
    ),
    'negate': lambda net, node, g: [net.op('negate', g)],
    'reduce': _reduce,
    'reduce-window': _pool,
    'reshape': lambda net, node, g: [net.reshape(g, node.operands[0].shape.dims)],
    'rsqrt': lambda net, node, g: [
        net.scaled(net.op('multiply', g, net.op('divide', node, node.operands[0])))
    ],
    'select': _select,
    'slice': _slice,
    'subtract': _subtract,
    'tanh': _squash,
    'transpose': lambda net, node, g: [net.transpose(g, np.argsort(node.dimensions))],
}
