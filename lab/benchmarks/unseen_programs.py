"""Programs of families that the shipped measured collection does not have.

  tpugraphs lab collect lab/benchmarks/unseen_programs.py:convnext ... out --split none

They were written after the features of measured kernels, and nothing was changed
for them.
"""

import tensorflow as tf


def S(*dims):
    return tf.TensorSpec(dims, tf.float32)


def jit(*signature):
    return tf.function(input_signature=list(signature))


def _ln(x, axis=-1):
    m = tf.reduce_mean(x, axis, keepdims=True)
    v = tf.reduce_mean(tf.square(x - m), axis, keepdims=True)
    return (x - m) * tf.math.rsqrt(v + 1e-6)


@jit(S(2, 24, 24, 48), S(7, 7, 48, 1), S(48, 192), S(192, 48), S(48))
def convnext(x, d, up, down, gamma):
    y = tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], 'SAME')
    y = _ln(y)
    y = tf.einsum('bhwc,cd->bhwd', y, up)
    y = tf.nn.gelu(y, approximate=True)
    y = tf.einsum('bhwd,dc->bhwc', y, down) * gamma
    return x + y, tf.reduce_mean(y, [1, 2])


@jit(S(8, 512, 32), S(2, 32, 64), S(2, 32, 64), S(1, 32, 32))
def wavenet(x, k1, k2, mix):
    out = 0.0
    for k, rate in ((k1, 1), (k2, 4)):
        p = tf.pad(x, [[0, 0], [rate, 0], [0, 0]])
        y = tf.nn.conv1d(p, k, 1, 'VALID', dilations=rate)
        a, b = tf.split(y, 2, -1)
        z = tf.tanh(a) * tf.sigmoid(b)
        x = x + tf.nn.conv1d(z, mix, 1, 'SAME')
        out = out + z
    return x, tf.nn.relu(out), tf.reduce_max(out, 1)


@jit(S(64, 96), S(96, 96), S(24, 64, 96))
def viterbi(start, moves, emissions):
    score = start
    for t in range(4):
        score = tf.reduce_max(score[:, :, None] + moves[None], 1) + emissions[t]
    total = tf.reduce_logsumexp(emissions, 0)
    return score, total, tf.reduce_max(emissions, [0, 1])


@jit(S(4, 192, 4, 32), S(4, 192, 4, 32), S(4, 192, 4, 32))
def linear_attention(q, k, v):
    q, k = tf.nn.elu(q) + 1.0, tf.nn.elu(k) + 1.0
    kv = tf.einsum('bnhd,bnhe->bhde', k, v)
    norm = tf.einsum('bnhd,bhd->bnh', q, tf.reduce_sum(k, 1))
    y = tf.einsum('bnhd,bhde->bnhe', q, kv) / norm[..., None]
    return tf.transpose(y, [0, 2, 1, 3]), tf.reduce_sum(tf.square(y), [1, 3])


@jit(S(3, 64, 64, 6), S(3, 64, 64, 6), S(5, 5, 6, 1))
def ssim(x, y, w):
    def blur(a):
        return tf.nn.depthwise_conv2d(a, w, [1, 1, 1, 1], 'SAME')

    mx, my = blur(x), blur(y)
    sx, sy, sxy = blur(x * x) - mx * mx, blur(y * y) - my * my, blur(x * y) - mx * my
    value = (2 * mx * my + 1e-4) * (2 * sxy + 9e-4)
    value /= (mx * mx + my * my + 1e-4) * (sx + sy + 9e-4)
    return value, tf.reduce_mean(value, [1, 2, 3]), tf.reduce_min(value, 0)


@jit(S(700, 160), S(160, 8))
def subspace(x, v):
    x = x - tf.reduce_mean(x, 0)
    for _ in range(2):
        v = tf.matmul(x, tf.matmul(x, v), transpose_a=True)
        v = v * tf.math.rsqrt(tf.reduce_sum(tf.square(v), 0) + 1e-9)
    gram = tf.matmul(x, x, transpose_a=True)
    spread = tf.math.reduce_std(x, 0)
    return v, gram / (spread[:, None] * spread[None]), tf.transpose(x) / spread[:, None]


@jit(S(400, 4), S(240, 4), S(400, 240))
def boxes(a, b, prior):
    low = tf.maximum(a[:, None, :2], b[None, :, :2])
    high = tf.minimum(a[:, None, 2:], b[None, :, 2:])
    inside = tf.reduce_prod(tf.nn.relu(high - low), -1)
    area = lambda c: tf.reduce_prod(tf.abs(c[:, 2:] - c[:, :2]), -1)
    union = area(a)[:, None] + area(b)[None] - inside + 1e-6
    iou = inside / union * prior
    return iou, tf.reduce_max(iou, 0), tf.reduce_max(iou, 1), tf.reduce_sum(iou, 0)


@jit(S(6, 128, 128), S(128, 40), S(40, 40))
def mel(frames, bank, cosines):
    power = tf.square(frames)
    bands = tf.math.log(tf.einsum('btf,fm->btm', power, bank) + 1e-5)
    bands = bands - tf.reduce_mean(bands, 1, keepdims=True)
    cepstra = tf.einsum('btm,mc->btc', bands, cosines)
    delta = cepstra[:, 2:] - cepstra[:, :-2]
    return (
        tf.concat([cepstra[:, 1:-1], delta], -1),
        tf.transpose(power, [0, 2, 1]),
        tf.reduce_max(power, 0),
    )


@jit(S(2, 16, 40, 40), S(3, 3, 16, 16), S(16))
def channels_first(x, k, scale):
    y = tf.transpose(x, [0, 2, 3, 1])
    y = tf.nn.conv2d(y, k, 1, 'SAME')
    m = tf.reduce_mean(y, [0, 1, 2])
    y = tf.nn.leaky_relu((y - m) * scale)
    y = tf.nn.avg_pool2d(y, 2, 2, 'VALID')
    joined = tf.concat([y, y[:, ::-1], y[:, :, ::-1]], -1)
    return tf.transpose(joined, [0, 3, 1, 2]), tf.reduce_max(joined, [1, 2])
