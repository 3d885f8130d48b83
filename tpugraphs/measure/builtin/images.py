"""Programs on images: convolutions of several kinds, resizing, stencils."""


def convnet(tf, array, batch, size, width):
    """Three convolutions with pooling, and a classifier."""
    x = array(batch, size, size, 4)
    x = tf.nn.relu(tf.nn.conv2d(x, array(3, 3, 4, width), 1, 'SAME'))
    x = tf.nn.max_pool2d(x, 2, 2, 'VALID')
    x = tf.nn.relu(tf.nn.conv2d(x, array(3, 3, width, width * 2), 1, 'SAME'))
    x = tf.nn.avg_pool2d(x, 2, 2, 'VALID')
    x = tf.tanh(tf.nn.conv2d(x, array(3, 3, width * 2, width * 2), 2, 'SAME'))
    x = tf.reshape(x, [batch, -1])
    return tf.nn.softmax(tf.matmul(x, array(x.shape[1], 128)) + array(128))


def depthwise(tf, array, batch, size, width):
    """Two blocks of depthwise and pointwise convolution with normalisation."""

    def block(x, depth, point, scale, offset):
        x = tf.nn.depthwise_conv2d(x, depth, [1, 1, 1, 1], 'SAME')
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        x = (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + offset
        return tf.nn.swish(tf.nn.conv2d(tf.nn.relu6(x), point, 1, 'SAME'))

    x = array(batch, size, size, width)
    d1, p1 = array(3, 3, width, 1), array(1, 1, width, width * 2)
    d2, p2 = array(5, 5, width * 2, 1), array(1, 1, width * 2, width * 2)
    x = block(x, d1, p1, array(width), array(width))
    x = block(x, d2, p2, array(width * 2), array(width * 2))
    return tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, [1, 2])


def residual(tf, array, batch, size, width):
    """A residual block with batch statistics, and its squeeze-and-excite gate."""

    def normalised(x):
        mean = tf.reduce_mean(x, [0, 1, 2], keepdims=True)
        squared = tf.reduce_mean(tf.square(x), [0, 1, 2], keepdims=True)
        return (x - mean) * tf.math.rsqrt(squared - tf.square(mean) + 1e-3)

    x = array(batch, size, size, width)
    y = tf.nn.conv2d(x, array(3, 3, width, width), 1, 'SAME')
    y = tf.nn.relu(normalised(y))
    y = normalised(tf.nn.conv2d(y, array(3, 3, width, width), 1, 'SAME'))
    gate = tf.nn.relu(tf.matmul(tf.reduce_mean(y, [1, 2]), array(width, width)))
    gate = tf.sigmoid(tf.matmul(gate, array(width, width)))
    y = tf.nn.elu(x + y * gate[:, None, None, :])
    y = tf.nn.max_pool2d(y, 3, 2, 'SAME')
    return tf.transpose(y, [0, 3, 1, 2])


def resize(tf, array, batch, size, channels):
    """Bilinear resizing as two products, colours, blur and contrast."""
    x = array(batch, size, size, channels)
    x = tf.einsum('oh,bhwc->bowc', array(size * 2, size), x)
    x = tf.einsum('ow,bhwc->bhoc', array(size * 2, size), x)
    grey = tf.reduce_sum(x * array(channels), -1)
    flipped = tf.reverse(x, [2])
    wide = tf.pad(grey, [[0, 0], [1, 1], [1, 1]])
    blurred = (wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1]) * 0.25
    blurred += (wide[:, 1:-1, :-2] + wide[:, 1:-1, 2:]) * 0.25
    mean = tf.reduce_mean(grey, [1, 2], keepdims=True)
    edges = tf.abs(wide[:, 2:, 2:] - wide[:, :-2, :-2])
    planes = tf.transpose(flipped, [0, 3, 1, 2])
    return (grey - mean) * 1.5 + blurred, tf.sqrt(edges + 1e-3), planes


def autoencoder(tf, array, batch, size, width):
    """Down by strided convolutions, up by transposed ones."""
    x = array(batch, size, size, 3)
    low = tf.nn.leaky_relu(tf.nn.conv2d(x, array(4, 4, 3, width), 2, 'SAME'))
    code = tf.nn.conv2d(low, array(4, 4, width, width * 2), 2, 'SAME')
    code = tf.nn.leaky_relu(code)
    up = array(4, 4, width, width * 2)
    up = tf.nn.conv2d_transpose(code, up, [batch, size // 2, size // 2, width], 2)
    joined = tf.concat([tf.nn.relu(up), low], -1)
    out = tf.nn.conv2d_transpose(joined, array(4, 4, 3, width * 2), x.shape, 2)
    out = tf.sigmoid(out)
    return out, tf.reduce_mean(tf.square(out - x), [1, 2, 3])


def stencil(tf, array, rows, columns):
    """Steps of heat and waves on a grid, and their energies."""

    def laplace(u):
        wide = tf.pad(u, [[1, 1], [1, 1]])
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        return around - 4.0 * u

    u, v, speed = (array(rows, columns) for _ in range(3))
    heat = u + 0.1 * laplace(u)
    wave = 2.0 * u - v + speed * laplace(u)
    slope = tf.square(u[1:, :] - u[:-1, :])
    across = tf.reduce_sum(tf.square(heat), 0)
    along = tf.reduce_max(tf.abs(wave), 1)
    return heat, wave, tf.sqrt(slope), across, along, tf.transpose(wave) * 0.5


def inverted(tf, array, batch, size, width):
    """An inverted residual block: wide depthwise convolutions, one with a stride."""
    x = array(batch, size, size, width)
    y = tf.nn.relu6(tf.nn.conv2d(x, array(1, 1, width, width * 4), 1, 'SAME'))
    y = tf.nn.depthwise_conv2d(y, array(3, 3, width * 4, 1), [1, 2, 2, 1], 'SAME')
    y = tf.nn.conv2d(tf.nn.relu6(y), array(1, 1, width * 4, width), 1, 'SAME')
    z = tf.nn.depthwise_conv2d(y, array(3, 3, width, 1), [1, 1, 1, 1], 'SAME')
    z = tf.nn.conv2d(tf.nn.swish(z), array(1, 1, width, width), 1, 'SAME')
    return y + z, tf.reduce_mean(z, [1, 2])


def pyramid(tf, array, batch, size, width):
    """Depthwise convolutions with holes of three sizes, joined, and a gate."""
    x = array(batch, size, size, width)
    parts = []
    for rate in (1, 2, 4):
        y = tf.nn.depthwise_conv2d(
            x, array(3, 3, width, 1), [1, 1, 1, 1], 'SAME', dilations=[rate, rate]
        )
        parts.append(tf.nn.relu(y))
    joined = tf.concat(parts, -1)
    y = tf.nn.conv2d(joined, array(1, 1, width * 3, width), 1, 'SAME')
    gate = tf.matmul(tf.reduce_mean(joined, [1, 2]), array(width * 3, width))
    y *= tf.sigmoid(gate)[:, None, None]
    return y, tf.reduce_max(joined, [1, 2])


def inception(tf, array, batch, size, width):
    """Branches of convolutions of three sizes and a pooling, joined by channel."""
    x = array(batch, size, size, width)
    half, quarter = width // 2, width // 4

    def convolved(x, reach, before, after):
        return tf.nn.conv2d(x, array(reach, reach, before, after), 1, 'SAME')

    pooled = tf.nn.max_pool2d(x, 3, 1, 'SAME')
    branches = [
        convolved(x, 1, width, width),
        convolved(tf.nn.relu(convolved(x, 1, width, half)), 3, half, width),
        convolved(tf.nn.relu(convolved(x, 1, width, quarter)), 5, quarter, half),
        convolved(pooled, 1, width, half),
    ]
    y = tf.nn.relu(tf.concat(branches, -1))
    return tf.nn.avg_pool2d(y, 2, 2, 'VALID'), tf.transpose(y, [0, 3, 1, 2])


def shuffle(tf, array, batch, size, width):
    """Two halves of the channels, one convolved by depth, dealt out in turn."""
    half = width // 2

    def deal(x):
        x = tf.reshape(x, [batch, size, size, 2, half])
        return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [batch, size, size, width])

    x = array(batch, size, size, width)
    p1, d1, p2 = array(1, 1, half, half), array(3, 3, half, 1), array(1, 1, half, half)
    for _ in range(2):
        kept, y = x[..., :half], x[..., half:]
        y = tf.nn.relu(tf.nn.conv2d(y, p1, 1, 'SAME'))
        y = tf.nn.depthwise_conv2d(y, d1, [1, 1, 1, 1], 'SAME')
        y = tf.nn.relu(tf.nn.conv2d(y, p2, 1, 'SAME'))
        x = deal(tf.concat([kept, y], -1))
    return x, tf.reduce_mean(tf.square(x), 0)


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
