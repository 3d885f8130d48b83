"""Reverse-mode differentiation of a computation under construction.

Walks the instructions of `net.here` backwards and appends those of the
gradients, the way training graphs come about in the real programs.
"""

from typing import Callable, Dict, List, Sequence

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
        elif node.opcode in _UNARY:
            give(node.operands[0], _UNARY[node.opcode](net, node, gradient))
        elif node.opcode in _RULES:
            _RULES[node.opcode](net, node, gradient, give)
    missing = [w.opcode for w in wanted if id(w) not in found]
    if missing:
        raise ValueError(f'the results do not depend on {", ".join(missing)}')
    return [found[id(w)] for w in wanted]


def _add(net, node, g, give):
    for operand in node.operands:
        give(operand, g)


def _subtract(net, node, g, give):
    give(node.operands[0], g)
    give(node.operands[1], net.op('negate', g))


def _maximum(net, node, g, give):
    x, y = node.operands
    seen = net.op('compare', x, y)
    give(x, net.op('select', seen, g, net.fill(g)))


def _multiply(net, node, g, give):
    x, y = node.operands
    give(x, net.op('multiply', g, y))
    give(y, net.op('multiply', g, x))


def _divide(net, node, g, give):
    x, y = node.operands
    part = net.op('divide', g, y)
    give(x, part)
    give(y, net.op('negate', net.op('multiply', part, node)))


def _rsqrt(net, node, g):
    cube = net.op('divide', node, node.operands[0])
    return net.scaled(net.op('multiply', g, cube))


def _squash(net, node, g):
    """tanh' = 1 - y^2, logistic' = y (1 - y)."""
    other = node if node.opcode == 'tanh' else net.fill(node)
    rest = net.op('subtract', other, net.op('multiply', node, node))
    return net.op('multiply', g, rest)


def _broadcast(net, node, g, give):
    x = node.operands[0]
    over = [d for d in range(len(g.shape.dims)) if d not in node.dimensions]
    give(x, net.reduce(g, over))


def _reduce(net, node, g, give):
    x = node.operands[0]
    kept = [d for d in range(len(x.shape.dims)) if d not in node.dimensions]
    wide = net.along(g, x, kept)
    if node.calls[0].root.opcode == 'maximum':
        seen = net.op('compare', x, net.along(node, x, kept))
        wide = net.op('select', seen, wide, net.fill(wide))
    give(x, wide)


def _transpose(net, node, g):
    return net.transpose(g, [node.dimensions.index(d) for d in sorted(node.dimensions)])


def _slice(net, node, g, give):
    x = node.operands[0]
    padding = tuple(
        (start, size - limit)
        for (start, limit, _), size in zip(node.slices, x.shape.dims)
    )
    zero = net.here.add('constant', g.shape.keep(()))
    give(x, net.here.add('pad', x.shape, g, zero, padding=padding))


def _concatenate(net, node, g, give):
    start = 0
    for x in node.operands:
        end = start + x.shape.dims[node.dimensions[0]]
        slices = tuple(
            (start, end, 1) if d == node.dimensions[0] else (0, size, 1)
            for d, size in enumerate(x.shape.dims)
        )
        give(x, net.here.add('slice', x.shape, g, slices=slices))
        start = end


def _pool(net, node, g, give):
    x, window = node.operands[0], node.window[1:-1]
    opcode = 'select-and-scatter'
    give(x, net.windowed(opcode, x.shape.dims, x, g, window=window, calls='add'))


def _gather(net, node, g, give):
    table, indices = node.operands
    zeros, calls = net.fill(table), (net.reducer('add', g.shape.dtype),)
    give(table, net.here.add('scatter', table.shape, zeros, indices, g, calls=calls))


def _dot(net, node, g, give):
    x, y = node.operands
    left, right, out = node.spec.replace('->', ',').split(',')
    give(x, net.dot(f'{out},{right}->{left}', g, y))
    give(y, net.dot(f'{left},{out}->{right}', x, g))


def _convolution(net, node, g, give):
    """Gradients of a 'same' convolution of images [N, H, W, C]."""
    x, kernel = node.operands
    g = _spread(net, g, x, node.window)
    batch, height, width, inputs = x.shape.dims
    turned = net.here.add('reverse', kernel.shape, kernel, dimensions=(0, 1))
    back = [Window(w.size, 1, w.size - 1 - w.low, w.low) for w in node.window]
    numbers = ConvolutionDims(0, 3, (1, 2), 3, 2, (0, 1), 0, 3)
    roles = 'mssn', 'mssk', 'wwnk'
    give(x, net.convolve(g, turned, numbers, x.shape.dims, back, roles))
    # The kernel's gradient slides the images over each other: batch is summed,
    # the input's features stand where the batch stood.
    across = [
        Window(size, 1, w.low, w.size - 1 - w.low)
        for size, w in zip((height, width), node.window)
    ]
    numbers = ConvolutionDims(3, 0, (1, 2), 0, 3, (1, 2), 2, 3)
    roles = 'ssmn', 'kssm', 'kwwn'
    give(kernel, net.convolve(x, g, numbers, kernel.shape.dims, across, roles))


def _spread(net, g, x, window) -> Instruction:
    """Undoes a stride: zeros between the elements, by interior padding."""
    if all(w.stride == 1 for w in window):
        return g
    dims = (*x.shape.dims[:3], g.shape.dims[3])
    zero = net.here.add('constant', g.shape.keep(()))
    wide = g.shape._replace(dims=dims)
    return net.here.add('pad', wide, g, zero, padding=((0, 0),) * 4)


def _select(net, node, g, give):
    seen, x, y = node.operands
    give(x, net.op('select', seen, g, net.fill(g)))
    give(y, net.op('select', seen, net.fill(g), g))


# How the gradient `g` of a node goes on to its operands: of those with one, what
# they get; of others, a function that gives each its own.
_UNARY: Dict[str, Callable] = {
    'convert': lambda net, node, g: net.here.convert(g, node.operands[0].shape.dtype),
    'exponential': lambda net, node, g: net.op('multiply', g, node),
    'log': lambda net, node, g: net.op('divide', g, node.operands[0]),
    'logistic': _squash,
    'negate': lambda net, node, g: net.op('negate', g),
    'reshape': lambda net, node, g: net.reshape(g, node.operands[0].shape.dims),
    'rsqrt': _rsqrt,
    'tanh': _squash,
    'transpose': _transpose,
}
_RULES: Dict[str, Callable] = {
    'add': _add,
    'broadcast': _broadcast,
    'concatenate': _concatenate,
    'convolution': _convolution,
    'divide': _divide,
    'dot': _dot,
    'gather': _gather,
    'maximum': _maximum,
    'multiply': _multiply,
    'reduce': _reduce,
    'reduce-window': _pool,
    'select': _select,
    'slice': _slice,
    'subtract': _subtract,
}
