"""Layers of simulated programs: what repeats in convnets, transformers, mixers.

Each takes the net and a value and returns the new value; images are
[batch, height, width, features], sequences [batch, length, features].
"""

from typing import Sequence

from baselines.simulated.hlo import ConvolutionDims, Instruction, Window
from baselines.simulated.layout.gradients import gradients
from baselines.simulated.layout.ops import Net, shape


def affine(net: Net, x: Instruction) -> Instruction:
    """x * scale + shift, per feature: the last dimension."""
    return bias(net, bias(net, x, 'multiply'))


def normalise(net: Net, x: Instruction, over: Sequence[int]) -> Instruction:
    """(x - mean) * rsqrt(variance + epsilon) over dimensions, then `affine`."""
    mean = net.scaled(net.reduce(x, over))
    kept = [d for d in range(len(x.shape.dims)) if d not in over]
    x = net.op('subtract', x, net.along(mean, x, kept))
    variance = net.scaled(net.reduce(net.op('multiply', x, x), over))
    return affine(net, _whiten(net, x, variance, kept))


def batch_norm(net: Net, x: Instruction) -> Instruction:
    """`normalise` per feature; inference takes the statistics as arguments."""
    last = len(x.shape.dims) - 1
    if net.training:
        return normalise(net, x, list(range(last)))
    mean, variance = (net.parameter((x.shape.dims[last],)) for _ in range(2))
    x = net.op('subtract', x, net.along(mean, x, [last]))
    return affine(net, _whiten(net, x, variance, [last]))


def _whiten(net, x, variance, kept):
    root = net.op('rsqrt', net.op('add', variance, net.fill(variance)))
    return net.op('multiply', x, net.along(root, x, kept))


def relu(net: Net, x: Instruction) -> Instruction:
    return net.op('maximum', x, net.fill(x))


def gelu(net: Net, x: Instruction) -> Instruction:
    """0.5 x (1 + tanh(a (x + b x^3)))."""
    cube = net.op('multiply', net.op('multiply', x, x), x)
    inner = net.scaled(net.op('add', x, net.scaled(cube)))
    bent = net.op('add', net.op('tanh', inner), net.fill(x))
    return net.op('multiply', net.scaled(x), bent)


def bias(net: Net, x: Instruction, opcode: str = 'add') -> Instruction:
    last = len(x.shape.dims) - 1
    return net.op(opcode, x, net.along(net.weight(x.shape.dims[last]), x, [last]))


def dense(net: Net, x: Instruction, features: int) -> Instruction:
    """x @ W + b over the last dimension."""
    rows = 'abc'[: len(x.shape.dims) - 1]
    weight = net.weight(x.shape.dims[-1], features)
    return bias(net, net.dot(f'{rows}k,kn->{rows}n', x, weight))


def dropout(net: Net, x: Instruction) -> Instruction:
    """Random zeros in training; nothing otherwise."""
    if not net.training:
        return x
    limits = [net.here.add('constant', shape('f32', ())) for _ in range(2)]
    drawn = net.here.add('rng', x.shape.typed('f32'), *limits)
    kept = net.op('compare', net.fill(drawn), drawn)
    return net.scaled(net.op('select', kept, x, net.fill(x)))


def conv(net: Net, x: Instruction, features: int, size: int, stride: int = 1):
    """A 'same' convolution with `size` x `size` windows."""
    batch, height, width, inputs = x.shape.dims
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    return net.convolve(
        x,
        net.weight(size, size, inputs, features),
        ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
        (batch, -(-height // stride), -(-width // stride), features),
        [Window(size, stride, low, high)] * 2,
        ('mssn', 'mssk', 'wwkn'),
    )


def conv_block(net: Net, x, features: int, size: int, stride: int = 1, act=True):
    """Convolution, batch normalisation, relu."""
    x = conv(net, x, features, size, stride)
    x = batch_norm(net, x)
    return relu(net, x) if act else x


def residual_block(net: Net, x, features: int, stride: int, bottleneck: bool):
    """Two 3 x 3 convolutions, or 1 x 1, 3 x 3, 1 x 1, beside a shortcut."""
    if bottleneck:
        y = conv_block(net, x, features, 1)
        y = conv_block(net, y, features, 3, stride)
        y = conv_block(net, y, 4 * features, 1, act=False)
    else:
        y = conv_block(net, x, features, 3, stride)
        y = conv_block(net, y, features, 3, act=False)
    if x.shape.dims != y.shape.dims:
        x = conv_block(net, x, y.shape.dims[3], 1, stride, act=False)
    return relu(net, net.op('add', x, y))


def max_pool(net: Net, x: Instruction) -> Instruction:
    batch, height, width, features = x.shape.dims
    dims = (batch, -(-height // 2), -(-width // 2), features)
    return net.windowed('reduce-window', dims, x, window=[Window(3, 2, 0, 1)] * 2)


def softmax(net: Net, x: Instruction) -> Instruction:
    last = len(x.shape.dims) - 1
    kept = list(range(last))
    peak = net.reduce(x, [last], 'maximum')
    x = net.op('exponential', net.op('subtract', x, net.along(peak, x, kept)))
    return net.op('divide', x, net.along(net.reduce(x, [last]), x, kept))


def attention(net: Net, x: Instruction, heads: int, masked: bool) -> Instruction:
    """Multi-head self-attention of [batch, length, features]."""
    batch, length, features = x.shape.dims
    depth = features // heads
    dims = (batch, length, heads, depth)
    split = [net.reshape(dense(net, x, features), dims) for _ in range(3)]
    query, key, value = [net.transpose(part, (0, 2, 1, 3)) for part in split]
    scores = net.scaled(net.dot('bhik,bhjk->bhij', query, key))
    if masked:
        mask = net.parameter((length, length), 'pred')
        mask = net.along(mask, scores, [2, 3])
        scores = net.op('select', mask, scores, net.fill(scores))
    weights = dropout(net, softmax(net, scores))
    y = net.dot('bhij,bhjk->bhik', weights, value)
    y = net.reshape(net.transpose(y, (0, 2, 1, 3)), x.shape.dims)
    return dense(net, y, features)


def transformer_block(net: Net, x, heads: int, inner: int, before: bool, masked: bool):
    """Attention and a dense pair, each with a residual and a layer norm."""
    y = normalise(net, x, [2]) if before else x
    x = net.op('add', x, dropout(net, attention(net, y, heads, masked)))
    x = x if before else normalise(net, x, [2])
    y = normalise(net, x, [2]) if before else x
    y = dense(net, gelu(net, dense(net, y, inner)), x.shape.dims[2])
    x = net.op('add', x, dropout(net, y))
    return x if before else normalise(net, x, [2])


def mixer_block(net: Net, x: Instruction, tokens: int, inner: int) -> Instruction:
    """Dense pairs over the patches, then over the features."""
    batch, patches, features = x.shape.dims
    y = net.transpose(normalise(net, x, [2]), (0, 2, 1))
    y = dense(net, gelu(net, dense(net, y, tokens)), patches)
    x = net.op('add', x, net.transpose(y, (0, 2, 1)))
    y = normalise(net, x, [2])
    return net.op('add', x, dense(net, gelu(net, dense(net, y, inner)), features))


def embedding(net: Net, batch: int, length: int, words: int, features: int):
    """Rows of a table, plus one per position."""
    indices = net.parameter((batch, length), 's32')
    table = net.weight(words, features)
    rows = shape(net.dtype, (batch, length, features))
    x = net.here.add('gather', rows, table, indices)
    return net.op('add', x, net.along(net.weight(length, features), x, [1, 2]))


def cell(net: Net, x, h, c, weight, shift):
    """One step of an LSTM; returns the new h and c, [batch, features] each."""
    batch, features = h.shape.dims
    joined = shape(net.dtype, (batch, x.shape.dims[1] + features))
    joined = net.here.add('concatenate', joined, x, h, dimensions=(1,))
    gates = net.dot('mk,kn->mn', joined, weight)
    gates = net.op('add', gates, net.along(shift, gates, [1]))
    cuts = [(i * features, (i + 1) * features, 1) for i in range(4)]
    parts = [
        net.here.add('slice', h.shape, gates, slices=((0, batch, 1), cut))
        for cut in cuts
    ]
    keep, take, show = [net.op('logistic', part) for part in parts[:3]]
    new = net.op('multiply', take, net.op('tanh', parts[3]))
    c = net.op('add', net.op('multiply', keep, c), new)
    return net.op('multiply', show, net.op('tanh', c)), c


def recurrent(net: Net, x: Instruction, features: int, label: str) -> Instruction:
    """An LSTM over x [length, batch, inputs]; returns [length, batch, features].

    Both directions are while loops; the backward one computes each step again
    from the states that the forward one kept.
    """
    length, batch, inputs = x.shape.dims
    weight = net.weight(inputs + features, 4 * features)
    shift = net.weight(4 * features)

    def zeros(*dims):
        return net.broadcast(net.here.add('constant', shape(net.dtype, ())), dims, ())

    outputs, state = zeros(length, batch, features), zeros(batch, features)

    def forward(net, i, x, weight, shift, hs, cs, h, c):
        h, c = cell(net, _at(net, x, i), h, c, weight, shift)
        return x, weight, shift, _put(net, hs, h, i), _put(net, cs, c, i), h, c

    carried = (x, weight, shift, outputs, outputs, state, state)
    done = net.loop(carried, length, forward, f'{label}_forward')
    hs, cs = done[3], done[4]

    def backward(net, i, x, weight, shift, hs, cs, dhs, dxs, dweight, dshift, dh, dc):
        given = [_at(net, x, i), _at(net, hs, i), _at(net, cs, i), weight, shift]
        dh = net.op('add', dh, _at(net, dhs, i))
        new = gradients(net, cell(net, *given), (dh, dc), given)
        dxs = _put(net, dxs, new[0], i)
        dweight, dshift = net.op('add', dweight, new[3]), net.op('add', dshift, new[4])
        return x, weight, shift, hs, cs, dhs, dxs, dweight, dshift, new[1], new[2]

    def gradient(g):
        sums = [net.fill(v) for v in (x, weight, shift)]
        carried = (x, weight, shift, hs, cs, g, *sums, state, state)
        done = net.loop(carried, length, backward, f'{label}_backward')
        return list(zip((x, weight, shift), done[6:9]))

    net.custom[id(hs)] = gradient
    return hs


def _at(net: Net, x: Instruction, i: Instruction) -> Instruction:
    """Row i of a sequence, without the leading dimension."""
    row = x.shape._replace(dims=(1, *x.shape.dims[1:]))
    zero = net.here.add('constant', i.shape)
    row = net.here.add('dynamic-slice', row, x, i, zero, zero)
    return net.reshape(row, x.shape.dims[1:])


def _put(net: Net, x: Instruction, row: Instruction, i: Instruction) -> Instruction:
    """Puts `row` at position i of a sequence."""
    row = net.reshape(row, (1, *row.shape.dims))
    zero = net.here.add('constant', i.shape)
    return net.here.add('dynamic-update-slice', x.shape, x, row, i, zero, zero)
