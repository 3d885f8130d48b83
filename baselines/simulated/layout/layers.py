"""Layers of simulated programs: what repeats in convnets, transformers, mixers.

Each takes a value, and the net where it has weights, and returns the new value;
images are [batch, height, width, features], sequences [batch, length, features].
"""

from typing import Sequence

from baselines.simulated.hlo import ConvolutionDims, Instruction, Window
from baselines.simulated.layout.gradients import gradients
from baselines.simulated.layout.ops import (
    Net,
    convolve,
    dot,
    reshape,
    scaled,
    shape,
    transpose,
    windowed,
)


def affine(net: Net, x: Instruction) -> Instruction:
    """x * scale + shift, per feature: the last dimension."""
    return bias(net, bias(net, x, 'multiply'))


def normalise(net: Net, x: Instruction, over: Sequence[int]) -> Instruction:
    """(x - mean) * rsqrt(variance + epsilon) over dimensions, then `affine`."""
    mean = scaled(x.reduce(over))
    kept = [d for d in range(len(x.shape.dims)) if d not in over]
    x = x - mean.broadcast(x.shape, kept)
    variance = scaled((x * x).reduce(over))
    return affine(net, _whiten(x, variance, kept))


def batch_norm(net: Net, x: Instruction) -> Instruction:
    """`normalise` per feature; inference takes the statistics as arguments."""
    last = len(x.shape.dims) - 1
    if net.training:
        return normalise(net, x, range(last))
    mean, variance = (net.parameter((x.shape.dims[last],)) for _ in range(2))
    x = x - mean.broadcast(x.shape, [last])
    return affine(net, _whiten(x, variance, [last]))


def _whiten(x, variance, kept):
    root = (variance + variance.fill()).op('rsqrt')
    return x * root.broadcast(x.shape, kept)


def relu(x: Instruction) -> Instruction:
    return x.op('maximum', x.fill())


def gelu(x: Instruction) -> Instruction:
    """0.5 x (1 + tanh(a (x + b x^3)))."""
    inner = scaled(x + scaled(x * x * x))
    bent = inner.op('tanh') + x.fill()
    return scaled(x) * bent


def bias(net: Net, x: Instruction, opcode: str = 'add') -> Instruction:
    last = len(x.shape.dims) - 1
    return x.op(opcode, net.weight(x.shape.dims[last]).broadcast(x.shape, [last]))


def dense(net: Net, x: Instruction, features: int) -> Instruction:
    """x @ W + b over the last dimension."""
    rows = 'abc'[: len(x.shape.dims) - 1]
    weight = net.weight(x.shape.dims[-1], features)
    return bias(net, dot(f'{rows}k,kn->{rows}n', x, weight))


def dropout(net: Net, x: Instruction) -> Instruction:
    """Random zeros in training; nothing otherwise."""
    if not net.training:
        return x
    limits = [x.home.add('constant', shape('f32', ())) for _ in range(2)]
    drawn = x.home.add('rng', x.shape.typed('f32'), *limits)
    return scaled(drawn.fill().op('compare', drawn).op('select', x, x.fill()))


def conv(net: Net, x: Instruction, features: int, size: int, stride: int = 1):
    """A 'same' convolution with `size` x `size` windows."""
    batch, height, width, inputs = x.shape.dims
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    return convolve(
        x,
        net.weight(size, size, inputs, features),
        ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
        (batch, -(-height // stride), -(-width // stride), features),
        [Window(size, stride, low, high)] * 2,
        ('mssn', 'mssk', 'wwkn'),
    )


def conv_block(net: Net, x, features: int, size: int, stride: int = 1, act=True):
    """Convolution, batch normalisation, relu."""
    x = batch_norm(net, conv(net, x, features, size, stride))
    return relu(x) if act else x


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
    return relu(x + y)


def max_pool(x: Instruction) -> Instruction:
    batch, height, width, features = x.shape.dims
    dims = (batch, -(-height // 2), -(-width // 2), features)
    return windowed('reduce-window', dims, x, window=[Window(3, 2, 0, 1)] * 2)


def softmax(x: Instruction) -> Instruction:
    last = len(x.shape.dims) - 1
    peak = x.reduce([last], 'maximum')
    x = (x - peak.broadcast(x.shape, range(last))).op('exponential')
    return x / x.reduce([last]).broadcast(x.shape, range(last))


def attention(net: Net, x: Instruction, heads: int, masked: bool) -> Instruction:
    """Multi-head self-attention of [batch, length, features]."""
    batch, length, features = x.shape.dims
    dims = (batch, length, heads, features // heads)
    split = [reshape(dense(net, x, features), dims) for _ in range(3)]
    query, key, value = [transpose(part, (0, 2, 1, 3)) for part in split]
    scores = scaled(dot('bhik,bhjk->bhij', query, key))
    if masked:
        mask = net.parameter((length, length), 'pred').broadcast(scores.shape, [2, 3])
        scores = mask.op('select', scores, scores.fill())
    y = dot('bhij,bhjk->bhik', dropout(net, softmax(scores)), value)
    y = reshape(transpose(y, (0, 2, 1, 3)), x.shape.dims)
    return dense(net, y, features)


def dense_pair(net: Net, x: Instruction, inner: int, features: int) -> Instruction:
    """Two dense layers with a GELU in between."""
    return dense(net, gelu(dense(net, x, inner)), features)


def transformer_block(net: Net, x, heads: int, inner: int, before: bool, masked: bool):
    """Attention and a dense pair, each with a residual and a layer norm."""
    features = x.shape.dims[2]
    for layer in (
        lambda y: attention(net, y, heads, masked),
        lambda y: dense_pair(net, y, inner, features),
    ):
        y = normalise(net, x, [2]) if before else x
        x = x + dropout(net, layer(y))
        x = x if before else normalise(net, x, [2])
    return x


def mixer_block(net: Net, x: Instruction, tokens: int, inner: int) -> Instruction:
    """Dense pairs over the patches, then over the features."""
    _, patches, features = x.shape.dims
    y = transpose(normalise(net, x, [2]), (0, 2, 1))
    x = x + transpose(dense_pair(net, y, tokens, patches), (0, 2, 1))
    return x + dense_pair(net, normalise(net, x, [2]), inner, features)


def embedding(net: Net, batch: int, length: int, words: int, features: int):
    """Rows of a table, plus one per position."""
    indices = net.parameter((batch, length), 's32')
    table = net.weight(words, features)
    rows = shape(net.dtype, (batch, length, features))
    x = table.home.add('gather', rows, table, indices)
    return x + net.weight(length, features).broadcast(x.shape, [1, 2])


def cell(x, h, c, weight, shift):
    """One step of an LSTM; returns the new h and c, [batch, features] each."""
    batch, features = h.shape.dims
    joined = shape(x.shape.dtype, (batch, x.shape.dims[1] + features))
    joined = x.home.add('concatenate', joined, x, h, dimensions=(1,))
    gates = dot('mk,kn->mn', joined, weight)
    gates = gates + shift.broadcast(gates.shape, [1])
    cuts = [(i * features, (i + 1) * features, 1) for i in range(4)]
    parts = [
        gates.home.add('slice', h.shape, gates, slices=((0, batch, 1), cut))
        for cut in cuts
    ]
    keep, take, show = [part.op('logistic') for part in parts[:3]]
    new = take * parts[3].op('tanh')
    c = keep * c + new
    return show * c.op('tanh'), c


def recurrent(net: Net, x: Instruction, features: int, label: str) -> Instruction:
    """An LSTM over x [length, batch, inputs]; returns [length, batch, features].

    Both directions are while loops; the backward one computes each step again
    from the states that the forward one kept.
    """
    length, batch, inputs = x.shape.dims
    weight = net.weight(inputs + features, 4 * features)
    shift = net.weight(4 * features)
    outputs, state = net.zeros(length, batch, features), net.zeros(batch, features)

    def forward(i, x, weight, shift, hs, cs, h, c):
        h, c = cell(_at(x, i), h, c, weight, shift)
        return x, weight, shift, _put(hs, h, i), _put(cs, c, i), h, c

    carried = (x, weight, shift, outputs, outputs, state, state)
    done = net.loop(carried, length, forward, f'{label}_forward')
    hs, cs = done[3], done[4]

    def backward(i, x, weight, shift, hs, cs, dhs, dxs, dweight, dshift, dh, dc):
        given = [_at(x, i), _at(hs, i), _at(cs, i), weight, shift]
        dh = dh + _at(dhs, i)
        new = gradients(cell(*given), (dh, dc), given)
        dxs = _put(dxs, new[0], i)
        dweight, dshift = dweight + new[3], dshift + new[4]
        return x, weight, shift, hs, cs, dhs, dxs, dweight, dshift, new[1], new[2]

    def gradient(g):
        sums = [v.fill() for v in (x, weight, shift)]
        carried = (x, weight, shift, hs, cs, g, *sums, state, state)
        done = net.loop(carried, length, backward, f'{label}_backward')
        return list(zip((x, weight, shift), done[6:9]))

    hs.gradient = gradient
    return hs


def _at(x: Instruction, i: Instruction) -> Instruction:
    """Row i of a sequence, without the leading dimension."""
    row = x.shape._replace(dims=(1, *x.shape.dims[1:]))
    zero = i.fill()
    return reshape(x.home.add('dynamic-slice', row, x, i, zero, zero), row.dims[1:])


def _put(x: Instruction, row: Instruction, i: Instruction) -> Instruction:
    """Puts `row` at position i of a sequence."""
    row = reshape(row, (1, *row.shape.dims))
    zero = i.fill()
    return x.home.add('dynamic-update-slice', x.shape, x, row, i, zero, zero)
