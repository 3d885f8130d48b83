"""The simulated whole programs: networks of repeated blocks, drawn at random.

Two sources as in the real data: `xla` (convnets, mixers, recurrent networks,
some transformers) and `nlp` (transformers only).  A program is the forward pass
of a network, or a training step with gradients and updates of all weights.

Every name begins with `sim_` and spells out all parameters; which split a
program belongs to follows from its name alone, so that no program can be in two.
"""

import functools
import hashlib
from typing import Callable, Dict, List, NamedTuple, Tuple

import numpy as np

from baselines.data.collections import SPLITS
from baselines.simulated.hlo import Computation
from baselines.simulated.layout import layers
from baselines.simulated.layout.gradients import gradients
from baselines.simulated.layout.ops import Net, reshape, scaled, shape

SOURCES = ('xla', 'nlp')
MIN_NODES = 200
MAX_NODES = 8000

_FAMILIES = {
    'xla': ('convnet', 'recurrent', 'mixer', 'bottleneck', 'transformer', 'pyramid'),
    'nlp': ('transformer', 'decoder', 'transformer', 'albert'),
}


class Program(NamedTuple):
    """A network and what is done with it."""

    source: str  # one of `SOURCES`
    family: str  # key of the networks below
    training: bool  # whether gradients and updates are part of it
    optimizer: str  # 'momentum' or 'adam'
    dtype: str  # of activations and weights, 'f32' or 'bf16'
    # of the network, in the order in which its function takes them
    sizes: Tuple[Tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The graph id."""
        sizes = '_'.join(f'{key}{value}' for key, value in self.sizes)
        what = f'train_{self.optimizer}' if self.training else 'infer'
        return f'sim_{self.family}_{sizes}_{self.dtype}_{what}'

    @property
    def split(self) -> str:
        """Where it belongs: two thirds train, one sixth valid, one sixth test."""
        place = hashlib.sha256(self.name.encode()).digest()[0] % 6
        return {0: 'valid', 1: 'test'}.get(place, 'train')

    def build(self) -> List[Computation]:
        """Returns its computations, callees first; the last is the entry."""
        net = Net(self.training, self.dtype)
        build, _ = _NETWORKS[self.family]
        result = build(net, *(size for _, size in self.sizes))
        if not self.training:
            return net.finish([result])
        loss = _loss(net, result)
        found = gradients([loss], [loss.fill()], net.trainable)
        update = {'momentum': _momentum, 'adam': _adam}[self.optimizer]
        results = [loss]
        for weight, gradient in zip(list(net.trainable), found):
            results += update(net, weight, gradient)
        return net.finish(results)


def draw_programs(source: str, split: str, count: int, seed: int) -> List[Program]:
    """Draws different programs of one split; the first ones do not depend on `count`.

    Raises:
        ValueError: there are not that many.
    """
    place = SOURCES.index(source), SPLITS.index(split)
    rng = np.random.default_rng([seed, *place])
    found: Dict[str, Program] = {}
    families = _FAMILIES[source]
    for _ in range(1000 + 100 * count):
        if len(found) == count:
            break
        program = _draw(rng, source, families[len(found) % len(families)])
        if program.name in found or program.split != split:
            continue
        nodes = sum(len(c.instructions) for c in program.build())
        if MIN_NODES <= nodes <= MAX_NODES:
            found[program.name] = program
    if len(found) < count:
        raise ValueError(
            f'only {len(found)} different {source} programs found for {split}, '
            f'not {count}: ask for fewer'
        )
    return list(found.values())


# What sizes are drawn from; a transformer's width is of one head.
_IMAGES = dict(
    stages=(2, 3, 4), depth=(1, 2, 3, 4), batch=(4, 8, 16, 32, 64, 128),
    side=(32, 48, 56, 64), width=(24, 32, 48, 64, 96),
)  # fmt: skip
_TOKENS = dict(
    depth=(2, 3, 4, 6, 8), batch=(4, 8, 16, 32), length=(32, 64, 100, 128, 192),
    heads=(2, 4, 6, 8, 12), width=(32, 48, 64), words=(4000, 8000, 16000),
)  # fmt: skip


def _draw(rng: np.random.Generator, source: str, family: str) -> Program:
    def pick(values):
        return values[rng.integers(len(values))]

    training = bool(rng.random() < 0.6)
    sizes = dict(_NETWORKS[family][1])
    # Heads come first, so that a seed gives the same programs as ever.
    for name in sorted(sizes, key=lambda name: name != 'heads'):
        sizes[name] = pick(sizes[name])
    if 'heads' in sizes:
        sizes['width'] *= sizes['heads']
    optimizer = pick(('momentum', 'adam'))
    dtype = pick(('f32', 'f32', 'bf16'))
    sizes = tuple(sizes.items())
    return Program(source, family, training, optimizer, dtype, sizes)


def _convnet(net, stages, depth, batch, side, width, bottleneck=False):
    x = net.parameter((batch, side, side, 3))
    x = layers.conv_block(net, x, width, 3)
    if side >= 56:
        x = layers.max_pool(x)
    for stage in range(stages):
        for block in range(depth):
            stride = 2 if stage and not block else 1
            x = layers.residual_block(net, x, width << stage, stride, bottleneck)
    return layers.dense(net, _mean(x, [1, 2]), 1000)


def _pyramid(net, levels, depth, batch, side, width):
    """Down by pooling, up by repeating; each level sees its way down again."""
    x, seen = net.parameter((batch, side, side, 3)), []
    for level in range(levels):
        for _ in range(depth):
            x = layers.conv_block(net, x, width << level, 3)
        seen.append(x)
        x = layers.max_pool(x)
    x = layers.conv_block(net, x, width << levels, 3)
    for level in reversed(range(levels)):
        x, other = _double(x), seen[level]
        dims = (*other.shape.dims[:3], other.shape.dims[3] + x.shape.dims[3])
        joined = x.shape._replace(dims=dims)
        x = x.home.add('concatenate', joined, other, x, dimensions=(3,))
        for _ in range(depth):
            x = layers.conv_block(net, x, width << level, 3)
    x = layers.conv_block(net, x, width, 1)
    return layers.dense(net, _mean(x, [1, 2]), 10)


def _double(x):
    """Repeats every row and column of an image."""
    batch, height, width, features = x.shape.dims
    wide = shape('', (batch, height, 2, width, 2, features))
    x = x.broadcast(wide, (0, 1, 3, 5))
    return reshape(x, (batch, 2 * height, 2 * width, features))


def _mixer(net, depth, batch, patches, width, tokens):
    x = net.parameter((batch, patches, 192))
    x = layers.dense(net, x, width)
    for _ in range(depth):
        x = layers.mixer_block(net, x, tokens, 4 * width)
    return layers.dense(net, _mean(layers.normalise(net, x, [2]), [1]), 1000)


def _transformer(net, depth, batch, length, heads, width, words, decoder=False):
    x = layers.embedding(net, batch, length, words, width)
    for _ in range(depth):
        x = layers.transformer_block(net, x, heads, 4 * width, decoder, decoder)
    return layers.dense(net, _mean(x, [1]), 1000)


def _albert(net, depth, batch, length, heads, width, words):
    """A transformer with narrow embeddings."""
    x = layers.dense(net, layers.embedding(net, batch, length, words, 128), width)
    for _ in range(depth):
        x = layers.transformer_block(net, x, heads, 4 * width, False, True)
    x = layers.dense(net, _mean(x, [1]), width).op('tanh')
    return layers.dense(net, x, 2)


def _recurrent(net, depth, batch, length, hidden, words):
    x = layers.embedding(net, length, batch, words, hidden)
    for layer in range(depth):
        x = layers.recurrent(net, x, hidden, str(layer))
    return layers.dense(net, _mean(x, [0]), 1000)


# By family: what builds it, and what its sizes are drawn from.
_NETWORKS: Dict[str, Tuple[Callable, Dict[str, Tuple[int, ...]]]] = {
    'recurrent': (_recurrent, dict(
        layers=(2, 3, 4, 5, 6), batch=(8, 16, 20, 64, 128), length=(16, 24, 35, 50),
        hidden=(128, 200, 256, 384, 512), words=(1000, 4000, 8000, 10000))),
    'convnet': (_convnet, _IMAGES),
    'bottleneck': (functools.partial(_convnet, bottleneck=True), _IMAGES),
    'pyramid': (_pyramid, dict(
        levels=(2, 3, 4), depth=(1, 2, 3), batch=(2, 4, 8, 16), side=(64, 96, 128),
        width=(16, 24, 32, 48))),
    'mixer': (_mixer, dict(
        depth=(2, 4, 6, 8), batch=(8, 16, 32, 64), patches=(64, 100, 144, 196),
        width=(96, 192, 256, 384, 512), tokens=(48, 64, 96, 128, 192))),
    'transformer': (_transformer, _TOKENS),
    'decoder': (functools.partial(_transformer, decoder=True), _TOKENS),
    'albert': (_albert, _TOKENS),
}  # fmt: skip


def _mean(x, over):
    return scaled(x.reduce(over))


def _loss(net, logits):
    """Mean cross entropy of [batch, classes] and given one-hot labels."""
    labels = net.parameter(logits.shape.dims)
    x = logits - logits.reduce([1], 'maximum').broadcast(logits.shape, [0])
    total = x.op('exponential').reduce([1]).op('log')
    x = x - total.broadcast(x.shape, [0])
    return -_mean(x * labels, [0, 1])


def _momentum(net, weight, gradient):
    speed = net.parameter(weight.shape.dims)
    speed = scaled(speed) + gradient
    return weight - scaled(speed), speed


def _adam(net, weight, gradient):
    first, second = (net.parameter(weight.shape.dims) for _ in range(2))
    square = gradient * gradient
    first = scaled(first) + scaled(gradient)
    second = scaled(second) + scaled(square)
    root = scaled(second).op('sqrt')
    step = scaled(first) / (root + root.fill())
    return weight - scaled(step), first, second
