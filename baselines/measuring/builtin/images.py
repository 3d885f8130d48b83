"""Programs on images: convolutions of several kinds, resizing, stencils."""


def convnet(tf, batch, size, width):
    """Three convolutions with pooling, and a classifier."""

    def run(x, k1, k2, k3, w, b):
        x = tf.nn.relu(tf.nn.conv2d(x, k1, 1, 'SAME'))
        x = tf.nn.max_pool2d(x, 2, 2, 'VALID')
        x = tf.nn.relu(tf.nn.conv2d(x, k2, 1, 'SAME'))
        x = tf.nn.avg_pool2d(x, 2, 2, 'VALID')
        x = tf.tanh(tf.nn.conv2d(x, k3, 2, 'SAME'))
        x = tf.reshape(x, [batch, -1])
        return tf.nn.softmax(tf.matmul(x, w) + b)

    last = (size // 8) ** 2 * width * 2
    return run, [
        (batch, size, size, 4), (3, 3, 4, width), (3, 3, width, width * 2),
        (3, 3, width * 2, width * 2), (last, 128), (128,),
    ]  # fmt: skip


def depthwise(tf, batch, size, width):
    """Two blocks of depthwise and pointwise convolution with normalisation."""

    def block(x, depth, point, scale, offset):
        x = tf.nn.depthwise_conv2d(x, depth, [1, 1, 1, 1], 'SAME')
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        x = (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + offset
        return tf.nn.swish(tf.nn.conv2d(tf.nn.relu6(x), point, 1, 'SAME'))

    def run(x, d1, p1, d2, p2, scale1, offset1, scale2, offset2):
        x = block(x, d1, p1, scale1, offset1)
        x = block(x, d2, p2, scale2, offset2)
        return tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, [1, 2])

    return run, [
        (batch, size, size, width), (3, 3, width, 1), (1, 1, width, width * 2),
        (5, 5, width * 2, 1), (1, 1, width * 2, width * 2), (width,), (width,),
        (width * 2,), (width * 2,),
    ]  # fmt: skip


def residual(tf, batch, size, width):
    """A residual block with batch statistics, and its squeeze-and-excite gate."""

    def normalised(x):
        mean = tf.reduce_mean(x, [0, 1, 2], keepdims=True)
        squared = tf.reduce_mean(tf.square(x), [0, 1, 2], keepdims=True)
        return (x - mean) * tf.math.rsqrt(squared - tf.square(mean) + 1e-3)

    def run(x, k1, k2, w1, w2):
        y = tf.nn.relu(normalised(tf.nn.conv2d(x, k1, 1, 'SAME')))
        y = normalised(tf.nn.conv2d(y, k2, 1, 'SAME'))
        gate = tf.reduce_mean(y, [1, 2])
        gate = tf.sigmoid(tf.matmul(tf.nn.relu(tf.matmul(gate, w1)), w2))
        y = tf.nn.elu(x + y * gate[:, None, None, :])
        y = tf.nn.max_pool2d(y, 3, 2, 'SAME')
        return tf.transpose(y, [0, 3, 1, 2])

    return run, [
        (batch, size, size, width), (3, 3, width, width), (3, 3, width, width),
        (width, width), (width, width),
    ]  # fmt: skip


def resize(tf, batch, size, channels):
    """Bilinear resizing as two products, colours, blur and contrast."""

    def run(x, rows, columns, colours):
        x = tf.einsum('oh,bhwc->bowc', rows, x)
        x = tf.einsum('ow,bhwc->bhoc', columns, x)
        grey = tf.reduce_sum(x * colours, -1)
        flipped = tf.reverse(x, [2])
        wide = tf.pad(grey, [[0, 0], [1, 1], [1, 1]])
        blurred = (wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1]) * 0.25
        blurred += (wide[:, 1:-1, :-2] + wide[:, 1:-1, 2:]) * 0.25
        mean = tf.reduce_mean(grey, [1, 2], keepdims=True)
        edges = tf.abs(wide[:, 2:, 2:] - wide[:, :-2, :-2])
        planes = tf.transpose(flipped, [0, 3, 1, 2])
        return (grey - mean) * 1.5 + blurred, tf.sqrt(edges + 1e-3), planes

    return run, [
        (batch, size, size, channels), (size * 2, size), (size * 2, size), (channels,),
    ]  # fmt: skip


def autoencoder(tf, batch, size, width):
    """Down by strided convolutions, up by transposed ones."""

    def run(x, k1, k2, k3, k4):
        low = tf.nn.leaky_relu(tf.nn.conv2d(x, k1, 2, 'SAME'))
        code = tf.nn.leaky_relu(tf.nn.conv2d(low, k2, 2, 'SAME'))
        half = [batch, size // 2, size // 2, width]
        up = tf.nn.relu(tf.nn.conv2d_transpose(code, k3, half, 2))
        joined = tf.concat([up, low], -1)
        out = tf.sigmoid(tf.nn.conv2d_transpose(joined, k4, x.shape, 2))
        return out, tf.reduce_mean(tf.square(out - x), [1, 2, 3])

    return run, [
        (batch, size, size, 3), (4, 4, 3, width), (4, 4, width, width * 2),
        (4, 4, width, width * 2), (4, 4, 3, width * 2),
    ]  # fmt: skip


def stencil(tf, rows, columns):
    """Steps of heat and waves on a grid, and their energies."""

    def laplace(u):
        wide = tf.pad(u, [[1, 1], [1, 1]])
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        return around - 4.0 * u

    def run(u, v, speed):
        heat = u + 0.1 * laplace(u)
        wave = 2.0 * u - v + speed * laplace(u)
        slope = tf.square(u[1:, :] - u[:-1, :])
        across = tf.reduce_sum(tf.square(heat), 0)
        along = tf.reduce_max(tf.abs(wave), 1)
        return heat, wave, tf.sqrt(slope), across, along, tf.transpose(wave) * 0.5

    return run, [(rows, columns)] * 3


def inverted(tf, batch, size, width):
    """An inverted residual block: wide depthwise convolutions, one with a stride."""

    def run(x, up, d1, mid, d2, down):
        y = tf.nn.relu6(tf.nn.conv2d(x, up, 1, 'SAME'))
        y = tf.nn.relu6(tf.nn.depthwise_conv2d(y, d1, [1, 2, 2, 1], 'SAME'))
        y = tf.nn.conv2d(y, mid, 1, 'SAME')
        z = tf.nn.depthwise_conv2d(y, d2, [1, 1, 1, 1], 'SAME')
        z = tf.nn.conv2d(tf.nn.swish(z), down, 1, 'SAME')
        return y + z, tf.reduce_mean(z, [1, 2])

    return run, [
        (batch, size, size, width), (1, 1, width, width * 4), (3, 3, width * 4, 1),
        (1, 1, width * 4, width), (3, 3, width, 1), (1, 1, width, width),
    ]  # fmt: skip


def pyramid(tf, batch, size, width):
    """Depthwise convolutions with holes of three sizes, joined, and a gate."""

    def run(x, d1, d2, d3, point, gate):
        parts = []
        for kernel, rate in ((d1, 1), (d2, 2), (d3, 4)):
            y = tf.nn.depthwise_conv2d(
                x, kernel, [1, 1, 1, 1], 'SAME', dilations=[rate, rate]
            )
            parts.append(tf.nn.relu(y))
        joined = tf.concat(parts, -1)
        y = tf.nn.conv2d(joined, point, 1, 'SAME')
        scale = tf.sigmoid(tf.matmul(tf.reduce_mean(joined, [1, 2]), gate))
        return y * scale[:, None, None], tf.reduce_max(joined, [1, 2])

    return run, [
        (batch, size, size, width), *[(3, 3, width, 1)] * 3,
        (1, 1, width * 3, width), (width * 3, width),
    ]  # fmt: skip


def inception(tf, batch, size, width):
    """Branches of convolutions of three sizes and a pooling, joined by channel."""

    def run(x, a, b1, b2, c1, c2, d):
        pooled = tf.nn.max_pool2d(x, 3, 1, 'SAME')
        branches = [
            tf.nn.conv2d(x, a, 1, 'SAME'),
            tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, b1, 1, 'SAME')), b2, 1, 'SAME'),
            tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, c1, 1, 'SAME')), c2, 1, 'SAME'),
            tf.nn.conv2d(pooled, d, 1, 'SAME'),
        ]
        y = tf.nn.relu(tf.concat(branches, -1))
        return tf.nn.avg_pool2d(y, 2, 2, 'VALID'), tf.transpose(y, [0, 3, 1, 2])

    return run, [
        (batch, size, size, width), (1, 1, width, width), (1, 1, width, width // 2),
        (3, 3, width // 2, width), (1, 1, width, width // 4),
        (5, 5, width // 4, width // 2), (1, 1, width, width // 2),
    ]  # fmt: skip


def shuffle(tf, batch, size, width):
    """Two halves of the channels, one convolved by depth, dealt out in turn."""
    half = width // 2

    def deal(x):
        x = tf.reshape(x, [batch, size, size, 2, half])
        return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [batch, size, size, width])

    def run(x, p1, d1, p2):
        for _ in range(2):
            kept, y = x[..., :half], x[..., half:]
            y = tf.nn.relu(tf.nn.conv2d(y, p1, 1, 'SAME'))
            y = tf.nn.depthwise_conv2d(y, d1, [1, 1, 1, 1], 'SAME')
            y = tf.nn.relu(tf.nn.conv2d(y, p2, 1, 'SAME'))
            x = deal(tf.concat([kept, y], -1))
        return x, tf.reduce_mean(tf.square(x), 0)

    return run, [
        (batch, size, size, width), (1, 1, half, half), (3, 3, half, 1),
        (1, 1, half, half),
    ]  # fmt: skip


TABLE = {
    'convnet_batch_4': (convnet, dict(batch=4, size=32, width=16)),
    'convnet_batch_16': (convnet, dict(batch=16, size=24, width=8)),
    'depthwise_batch_2': (depthwise, dict(batch=2, size=32, width=24)),
    'depthwise_batch_8': (depthwise, dict(batch=8, size=16, width=32)),
    'residual_batch_2': (residual, dict(batch=2, size=28, width=32)),
    'residual_batch_8': (residual, dict(batch=8, size=20, width=16)),
    'resize_batch_2': (resize, dict(batch=2, size=80, channels=3)),
    'resize_batch_6': (resize, dict(batch=6, size=36, channels=8)),
    'autoencoder_batch_4': (autoencoder, dict(batch=4, size=32, width=12)),
    'autoencoder_batch_12': (autoencoder, dict(batch=12, size=16, width=24)),
    'inverted_batch_1': (inverted, dict(batch=1, size=48, width=16)),
    'inverted_batch_6': (inverted, dict(batch=6, size=20, width=24)),
    'pyramid_batch_2': (pyramid, dict(batch=2, size=32, width=32)),
    'pyramid_batch_4': (pyramid, dict(batch=4, size=24, width=20)),
    'inception_batch_2': (inception, dict(batch=2, size=28, width=48)),
    'inception_batch_8': (inception, dict(batch=8, size=16, width=32)),
    'shuffle_batch_2': (shuffle, dict(batch=2, size=28, width=64)),
    'shuffle_batch_6': (shuffle, dict(batch=6, size=24, width=24)),
    'stencil_wide': (stencil, dict(rows=192, columns=768)),
    'stencil_tall': (stencil, dict(rows=640, columns=320)),
}
