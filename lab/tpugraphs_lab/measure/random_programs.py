"""Builds random programs from the parts that real models have.

program = load_random('random_attention_seed0_17')

A program is three random variants of one part of a model, such as attention; two in
five come with their gradients.  Sizes, ranks, axes and types are drawn from the ranges
of real modules, and many of them are odd.  A program is up to 256 times as large as
the smallest, so that kernels take from microseconds to tens of milliseconds.
TensorFlow and XLA infer shapes and fuse, as they do with hand-written programs.
(Parts of real models train the cost models of Kaufman et al., A Learned Performance
Model for TPUs, MLSys 2021.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import re
from typing import TYPE_CHECKING
import zlib

import numpy as np

from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.measure import drawing
from tpugraphs_lab.programs import reader

if TYPE_CHECKING:
    import tensorflow as tf


def convolution(d: drawing.Draw) -> tf.Tensor:
    """Convolves an image, with or without strides, and applies an activation."""
    x = d.image()
    side = d.choice([1, 3, 3, 5])
    filters = d.array(side, side, x.shape[-1], d.size(4, 48))
    y = d.tf.nn.conv2d(x, filters, d.choice([1, 1, 2]), d.choice(['SAME', 'VALID']))
    return d.unary(y + d.array(y.shape[-1]))


def grouped(d: drawing.Draw) -> tf.Tensor:
    """Convolves groups of channels separately."""
    groups, inside = d.choice([2, 3, 4, 8]), d.size(2, 12)
    x = d.image(groups * inside)
    y = d.tf.nn.conv2d(x, d.array(3, 3, inside, groups * d.size(2, 12)), 1, 'SAME')
    return d.unary(y)


def depthwise(d: drawing.Draw) -> tf.Tensor:
    """Convolves each channel by itself, with strides or a multiplier."""
    x, side, stride = d.image(d.size(8, 200)), d.choice([3, 3, 5, 7]), d.choice([1, 2])
    filters = d.array(side, side, x.shape[-1], d.choice([1, 1, 1, 2]))
    y = d.tf.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], 'SAME')
    return d.unary(y * d.array(y.shape[-1]))


def transposed(d: drawing.Draw) -> tf.Tensor:
    """Applies a transposed convolution, which doubles height and width."""
    x, out = d.image(d.size(4, 32)), d.size(3, 24)
    side = d.choice([2, 3, 4])
    shape = [x.shape[0], 2 * x.shape[1], 2 * x.shape[2], out]
    filters = d.array(side, side, out, x.shape[-1])
    return d.unary(d.tf.nn.conv2d_transpose(x, filters, shape, 2))


def sequence(d: drawing.Draw) -> tf.Tensor:
    """Convolves along one axis, with or without dilation, or along three."""
    if d.rng.random() < 0.5:
        channels = d.size(4, 64)
        x = d.array(d.size(1, 8), d.size(48, 256), channels)
        filters = d.array(d.choice([2, 3, 5]), channels, d.size(8, 64))
        y = d.tf.nn.conv1d(x, filters, 1, 'SAME', dilations=d.choice([1, 2]))
        return d.unary(y)
    channels = d.size(2, 16)
    x = d.array(1, d.size(6, 14), d.size(8, 20), d.size(8, 20), channels)
    filters = d.array(3, 3, 3, channels, d.size(4, 16))
    return d.tf.nn.conv3d(x, filters, [1] * 5, 'SAME')


def product(d: drawing.Draw) -> tf.Tensor:
    """Multiplies two matrices, transposed or not, and adds a bias."""
    m, k, n = d.size(48, 384), d.size(8, 384), d.size(48, 384)
    first, second = d.rng.random(2) < 0.3
    a = d.array(k, m) if first else d.array(m, k)
    b = d.array(n, k) if second else d.array(k, n)
    y = d.tf.matmul(a, b, transpose_a=bool(first), transpose_b=bool(second))
    return d.unary(y + d.array(n))


def einsum(d: drawing.Draw) -> tf.Tensor:
    """Contracts arrays of several ranks."""
    equation = d.choice(
        ['bij,jk->bik', 'bijk,kl->bijl', 'bhid,bhjd->bhij', 'bchw,co->bohw']
        + ['bnhd,bmhd->bhnm', 'ij,bjk->bki', 'abij,bcjk->acik', 'btd,de->ebt']
    )
    letters = dict.fromkeys(c for c in equation if c.isalpha())
    longest = max(len(part) for part in re.split(',|->', equation))
    sizes = {c: d.size(3, {2: 256, 3: 64, 4: 28}[longest]) for c in letters}
    left, right = equation.partition('->')[0].split(',')
    return d.tf.einsum(
        equation, *(d.array(*(sizes[c] for c in p)) for p in (left, right))
    )


def small_products(d: drawing.Draw) -> tf.Tensor:
    """Multiplies many small matrices."""
    m, k, n = d.size(2, 9), d.size(2, 9), d.size(2, 9)
    batch = max(64, d.size(drawing.LEAST // 8, drawing.LEAST * 2, 0.75) // (m * n))
    outer = d.choice([1, 2, 4, 6])
    a = d.array(outer, batch, m, k)
    b = d.array(outer, batch, k, n)
    y = d.tf.matmul(a, b)
    return d.choice([y, d.unary(y), d.tf.reduce_sum(y, -1)])


def attention(d: drawing.Draw) -> tf.Tensor:
    """Attends with a mask, causal or not, over few or many heads."""
    tf = d.tf
    batch, heads = d.size(1, 6), d.choice([1, 2, 3, 4, 8])
    length, depth = d.size(12, 80), d.size(6, 48)
    q, k, v = (d.array(batch, length, heads, depth) for _ in range(3))
    logits = tf.einsum('bqhd,bkhd->bhqk', q, k) * tf.cast(depth**-0.5, d.kind)
    mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0) > 0
    if d.rng.random() < 0.5:
        mask = d.array(batch, 1, 1, length, kind=tf.int32) > 0
    logits = tf.where(mask, logits, tf.cast(-1e4, d.kind))
    return tf.einsum('bhqk,bkhd->bqhd', tf.nn.softmax(logits), v)


def rotary(d: drawing.Draw) -> tf.Tensor:
    """Applies rotary position embeddings to the queries of attention."""
    tf = d.tf
    batch, length = d.size(1, 6), d.size(12, 96)
    heads, half = d.size(1, 8), d.size(4, 24)
    x = d.array(batch, length, heads, 2 * half)
    angles = d.array(length, half)
    cosines = tf.concat([tf.cos(angles), tf.cos(angles)], -1)[:, None]
    sines = tf.concat([tf.sin(angles), tf.sin(angles)], -1)[:, None]
    turned = tf.concat([-x[..., half:], x[..., :half]], -1)
    return x * cosines + turned * sines


def norm(d: drawing.Draw) -> tf.Tensor:
    """Normalises over random axes, as layer, batch, instance and group norms do."""
    tf, x = d.tf, d.any_array()
    rank = len(x.shape)
    axes = sorted(d.rng.permutation(rank)[: d.rng.integers(1, rank)].tolist())
    mean = tf.reduce_mean(x, axes, keepdims=True)
    power = tf.reduce_mean(tf.square(x - mean), axes, keepdims=True)
    return (x - mean) * tf.math.rsqrt(power + tf.cast(1e-3, d.kind))


def pooling(d: drawing.Draw) -> tf.Tensor:
    """Applies max or average pooling."""
    x, side = d.image(), d.choice([2, 3, 5])
    pool = d.choice([d.tf.nn.max_pool2d, d.tf.nn.avg_pool2d])
    return d.unary(pool(x, side, d.choice([1, 2]), d.choice(['SAME', 'VALID'])))


def _reduce(d: drawing.Draw, x: tf.Tensor, axis: int) -> tf.Tensor:
    """Reduces an axis of an array with a random reducer."""
    tf = d.tf
    reducer = d.choice(
        [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_logsumexp]
        + [tf.argmax, tf.reduce_prod, tf.reduce_min]
    )
    y = reducer(d.unary(x) if d.rng.random() < 0.5 else x, axis)
    return tf.cast(y, tf.int32) if y.dtype == tf.int64 else y


def reduction_major(d: drawing.Draw) -> tf.Tensor:
    """Reduces a major axis."""
    return _reduce(d, d.any_array(), 0)


def reduction_middle(d: drawing.Draw) -> tf.Tensor:
    """Reduces the second axis of three or more."""
    return _reduce(d, d.any_array(3, 6), 1)


def reduction_minor(d: drawing.Draw) -> tf.Tensor:
    """Reduces a long minor axis."""
    return _reduce(d, d.array(*d.dims(2)), -1)


def reduction_short(d: drawing.Draw) -> tf.Tensor:
    """Reduces a minor axis of 2 to 16 elements."""
    dims = d.dims(int(d.rng.integers(1, 4)), drawing.LEAST // 4, drawing.MOST // 8)
    return _reduce(d, d.array(*dims, int(d.rng.integers(2, 17))), -1)


def maximum_of_pairs(d: drawing.Draw) -> tf.Tensor:
    """Reduces a broadcast sum or difference of two arrays to a maximum or minimum."""
    tf, reducer = d.tf, d.choice([d.tf.reduce_max, d.tf.reduce_max, d.tf.reduce_min])
    a, b, c = d.size(8, 96, 0.3), d.size(8, 96, 0.3), d.size(8, 128, 0.3)
    x, y = d.array(a, b), d.array(b, c)
    joined = d.choice([x[:, :, None] + y[None], tf.abs(x[:, :, None] - y[None])])
    return reducer(joined, d.choice([0, 1, 2]))


def cumulative(d: drawing.Draw) -> tf.Tensor:
    """Computes cumulative sums along an axis."""
    x = d.array(
        *d.dims(int(d.rng.integers(2, 4)), drawing.LEAST // 2, drawing.MOST // 4)
    )
    axes = [axis for axis, size in enumerate(x.shape) if 1 < size <= 128] or [0]
    return d.tf.cumsum(x, d.choice(axes), reverse=bool(d.rng.random() < 0.3))


def gathers(d: drawing.Draw) -> tf.Tensor:
    """Looks up rows or columns of a table, by gathers or by one-hot products."""
    tf, rows, width = d.tf, d.size(30, 2000, 0.75), d.size(4, 96)
    numbers = d.array(d.size(200, 900, 0.75), d.choice([1, 2, 4]), kind=tf.int32)
    kind = d.rng.random()
    if kind < 0.2:
        table = d.array(min(rows, 60), width)
        return tf.einsum(
            'bir,rw->biw', tf.one_hot(numbers, min(rows, 60), dtype=d.kind), table
        )
    y = tf.gather(d.array(rows, width), numbers)
    if kind < 0.4:
        y = tf.gather(d.array(width, rows), numbers[:, 0], axis=1)
    return d.choice([y, d.unary(y) * y, tf.reduce_sum(y, -1), tf.reduce_mean(y, 1)])


def concatenation(d: drawing.Draw) -> tf.Tensor:
    """Joins arrays along an axis, or splits one and joins its halves in reverse."""
    tf, x = d.tf, d.any_array(2, 4)
    axis = int(d.rng.integers(len(x.shape)))
    if d.rng.random() < 0.3 and x.shape[axis] > 1:
        half = x.shape[axis] // 2
        first, second = tf.split(x, [half, x.shape[axis] - half], axis)
        return tf.concat([d.unary(second), first], axis)
    others = []
    for _ in range(d.choice([1, 1, 2, 3])):
        dims = list(x.shape)
        dims[axis] = d.size(1, max(2, 2 * dims[axis]))
        others.append(d.array(*dims))
    return tf.concat([d.unary(x), *others], axis)


def padding(d: drawing.Draw) -> tf.Tensor:
    """Pads, shifts and slices with strides."""
    tf, x = d.tf, d.any_array(2, 4)
    edges = d.rng.integers(0, 4, (len(x.shape), 2)).tolist()
    y = d.unary(tf.pad(x, edges))
    steps = tuple(slice(None, None, d.choice([1, 1, 2])) for _ in x.shape)
    return d.choice([y, y[steps] * 2, x[steps] + 1, tf.reverse(y, [0]) - 1])


def transposition(d: drawing.Draw) -> tf.Tensor:
    """Permutes the axes of an array, alone or between other operations."""
    tf, x = d.tf, d.any_array(2, 6)
    order = d.rng.permutation(len(x.shape))
    y = tf.transpose(x, order)
    return d.choice([y, d.unary(y), y * d.array(y.shape[-1]), y + d.array(*y.shape)])


def resizing(d: drawing.Draw) -> tf.Tensor:
    """Resizes images, by products with weights or by repeating pixels."""
    tf, x = d.tf, d.image(d.size(1, 32))
    if d.rng.random() < 0.4:
        return d.unary(tf.repeat(tf.repeat(x, 2, 1), 2, 2))
    rows = d.array(x.shape[1] * 2, x.shape[1])
    y = tf.einsum('oh,bhwc->bowc', rows, x)
    return tf.einsum('ow,bhwc->bhoc', d.array(x.shape[2] // 2 + 1, x.shape[2]), y)


def integers(d: drawing.Draw) -> tf.Tensor:
    """Quantises, multiplies small integers, shifts, masks and divides."""
    tf = d.tf
    kind = d.rng.random()
    if kind < 0.4:
        x, scale = d.any_array(2, 4), d.array(1)
        rounded = tf.round(x / scale * 16)
        y = tf.cast(tf.clip_by_value(rounded, -127, 127), tf.int8)
        return tf.cast(y, d.kind) * scale
    dims = d.dims(int(d.rng.integers(2, 4)))
    x, y = d.array(*dims, kind=tf.int32), d.array(*dims, kind=tf.int32)
    if kind < 0.7:
        small = tf.cast(d.array(*dims, kind=tf.int8), tf.int32)
        return tf.reduce_sum(small * x, d.choice([0, -1]))
    return tf.where(x > y, (x * 5 + y) % 7, tf.bitwise.bitwise_xor(x, y) // 3)


def selection(d: drawing.Draw) -> tf.Tensor:
    """Compares and selects."""
    tf, x = d.tf, d.any_array()
    y = d.array(*x.shape)
    chosen = tf.where((x > y) & (x < 0.9), d.unary(x), d.unary(y))
    clipped = tf.clip_by_value(chosen, tf.cast(0.2, d.kind), tf.cast(0.8, d.kind))
    return d.choice([chosen, clipped, tf.cast(tf.reduce_any(x > y, -1), tf.int32)])


def loss(d: drawing.Draw) -> tf.Tensor:
    """Computes a loss of predictions and labels."""
    tf = d.tf
    dims = d.dims(int(d.rng.integers(2, 4)))
    x, y = d.array(*dims), d.array(*dims)
    cross = -tf.reduce_sum(tf.nn.log_softmax(x) * y, -1)
    huber = tf.where(tf.abs(x - y) < 0.5, tf.square(x - y), tf.abs(x - y))
    binary = tf.nn.softplus(x) - x * y
    return d.choice([cross, tf.reduce_mean(huber, -1), tf.reduce_sum(binary, 0)])


def pointwise(d: drawing.Draw) -> tf.Tensor:
    """Chains elementwise functions of broadcast arrays, and converts the result."""
    tf, x = d.tf, d.any_array(1, 6)
    for _ in range(d.choice([2, 3, 5])):
        dims = [n if d.rng.random() < 0.6 else 1 for n in x.shape]
        x = d.choice([tf.add, tf.multiply, tf.maximum])(d.unary(x), d.array(*dims))
    return tf.cast(x, d.choice([tf.float32, tf.bfloat16, tf.int32]))


FAMILIES: dict[str, Callable[[drawing.Draw], tf.Tensor]] = {
    function.__name__: function
    for function in (
        convolution, grouped, depthwise, transposed, sequence, product, einsum,
        small_products, attention, rotary, norm, pooling, reduction_major,
        reduction_middle, reduction_minor, reduction_short, maximum_of_pairs,
        cumulative, gathers, concatenation, padding, transposition, resizing,
        integers, selection, loss, pointwise,
    )
}  # fmt: skip


def random_names(count: int, seed: int = 0, families: Sequence[str] = ()) -> list[str]:
    """Returns the names of programs, from one family after the other.

    Args:
        families: keys of `FAMILIES`; empty for all of them.

    Raises:
        ValueError: the count is below 1, or there is no such family.
    """
    if count < 1:
        raise ValueError(f'--random is {count}; it counts programs')
    unknown = sorted(set(families) - set(FAMILIES))
    if unknown:
        raise ValueError(
            f'--families has {unknown[0]!r}; there are {", ".join(FAMILIES)}'
        )
    families = families or list(FAMILIES)
    return [
        f'random_{families[number % len(families)]}_seed{seed}_{number}'
        for number in range(count)
    ]


def _variant(
    draw: drawing.Draw, function: Callable[[drawing.Draw], tf.Tensor]
) -> list[tf.Tensor]:
    """Returns a part's output and, two times in five, its gradients."""
    tf = draw.tf
    start = len(draw.inputs)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        draw.tape = tape
        output = function(draw)
    inputs = [x for x in draw.inputs[start:] if x.dtype.is_floating]
    if draw.rng.random() < 0.6 or not output.dtype.is_floating or not inputs:
        return [output]
    output_gradient = draw.array(*output.shape, kind=output.dtype)
    gradients = tape.gradient(output, inputs, output_gradient)
    # A gradient of a gather is a tf.IndexedSlices.
    dense = (getattr(gradient, 'values', gradient) for gradient in gradients)
    return [output, *(gradient for gradient in dense if gradient is not None)]


def load_random(
    name: str, variants: int = 3, largest: int = drawing.LARGEST
) -> reader.Program:
    """Builds the program of a name; equal names give equal programs.

    Args:
        variants: number of variants of its part in the program.
        largest: largest scale of the program, see `drawing.Draw`.

    Raises:
        ValueError: XLA cannot compile it.
    """
    import tensorflow as tf

    family = name[len('random_') :].rpartition('_seed')[0]
    signature: list[tf.TensorSpec] = []

    def compute(new_input: Callable[..., tf.Tensor]) -> list[tf.Tensor]:
        """Returns the outputs of the program on inputs from `new_input`."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        draw = drawing.Draw(tf, rng, new_input, largest)
        results: list[tf.Tensor] = []
        for _ in range(variants):
            results += _variant(draw, FAMILIES[family])
        return results

    def declare_input(dims: Sequence[int], kind: tf.DType) -> tf.Tensor:
        """Adds an input to the signature; returns zeros as its value."""
        signature.append(tf.TensorSpec(dims, kind))
        return tf.zeros(dims, kind)

    # The first run declares the inputs; the second one takes them as arguments.
    with tf.Graph().as_default():
        compute(declare_input)

    @tf.function(input_signature=signature)
    @tf.autograph.experimental.do_not_convert  # takes longer than all the rest
    def traced(*arrays: tf.Tensor) -> list[tf.Tensor]:
        inputs = iter(arrays)
        return compute(lambda dims, kind: next(inputs))

    return preparation.load(traced, name=name)
