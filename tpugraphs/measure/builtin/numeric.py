"""Programs of statistics, distances, graphs and signals."""


def statistics(tf, array, rows, columns):
    """Moments, standard scores, covariance, soft maxima along both axes."""
    x = array(rows, columns)
    mean, variance = tf.nn.moments(x, [0])
    scores = (x - mean) * tf.math.rsqrt(variance + 1e-6)
    covariance = tf.matmul(x, x * array(rows, 1), transpose_a=True)
    across = tf.reduce_logsumexp(x, 1)
    along = tf.reduce_logsumexp(x, 0)
    skew = tf.reduce_mean(tf.pow(scores, 3.0), 0)
    largest = tf.reduce_max(x, 0) - tf.reduce_min(x, 0)
    return scores, covariance, across, along, skew, largest


def normalisation(tf, array, batch, length, width):
    """Batch, layer, instance and group normalisation of one array."""
    x, scale = array(batch, length, width), array(width)
    results = []
    for axes in ([0, 1], [2], [1]):
        mean = tf.reduce_mean(x, axes, keepdims=True)
        power = tf.reduce_mean(tf.square(x - mean), axes, keepdims=True)
        results.append((x - mean) * tf.math.rsqrt(power + 1e-5) * scale)
    parts = tf.reshape(x, [batch, length, 4, width // 4])
    power = tf.reduce_sum(tf.square(parts), [1, 3], keepdims=True)
    results.append(parts * tf.math.rsqrt(power))
    results.append(tf.reduce_sum(tf.square(x), 0))
    return results


def distances(tf, array, points, centres, width):
    """All distances of points to centres, assignments, new centres."""
    x, c = array(points, width), array(centres, width)
    squared = tf.reduce_sum(tf.square(x), 1, keepdims=True)
    squared += tf.reduce_sum(tf.square(c), 1)
    squared -= 2.0 * tf.matmul(x, c, transpose_b=True)
    soft = tf.nn.softmax(-squared)
    weights = tf.reduce_sum(soft, 0)
    new = tf.matmul(soft, x, transpose_a=True) / weights[:, None]
    kernel = tf.exp(-0.5 * squared)
    near = tf.reduce_min(squared, 1)
    manhattan = tf.reduce_sum(tf.abs(x[:64, None] - c[None]), -1)
    return new, kernel, near, manhattan, tf.transpose(kernel) * 2.0


def graph(tf, array, nodes, edges, width):
    """Two rounds of messages: rows by number, dense adjacency, attention."""
    x, adjacency = array(nodes, width), array(nodes, nodes)
    sources, targets = array(edges, integers=True), array(edges, integers=True)
    degree = tf.reduce_sum(adjacency, 1, keepdims=True)
    y = tf.matmul(adjacency / (degree + 1.0), x)
    y = tf.nn.relu(tf.matmul(y, array(width, width)))
    a = tf.gather(y, sources)
    b = tf.gather(y, targets)
    logits = tf.reduce_sum(tf.nn.leaky_relu(a + b), -1)
    messages = tf.matmul(tf.concat([a, b], -1), array(width * 2, width))
    messages = tf.nn.sigmoid(messages) * b
    scores = tf.matmul(y, y, transpose_b=True) * adjacency
    z = tf.matmul(tf.nn.softmax(scores), tf.matmul(y, array(width, width)))
    z = tf.nn.elu(z)
    return logits, messages, z, tf.reduce_max(z, 0)


def signal(tf, array, batch, length, taps):
    """Frames, windows, a Fourier transform as a product, filters, energies."""
    x = array(batch, length)
    frames = tf.reshape(x, [batch, length // taps, taps]) * array(taps)
    real = tf.einsum('bft,tk->bfk', frames, array(taps, taps // 2))
    imaginary = tf.einsum('bft,tk->bfk', frames, array(taps, taps // 2))
    power = tf.square(real) + tf.square(imaginary)
    decibels = tf.math.log(power + 1e-6) * 4.3429
    smooth = tf.nn.conv1d(power, array(5, taps // 2, 32), 1, 'SAME')
    energy = tf.reduce_sum(tf.square(frames), -1)
    return decibels, smooth, energy, tf.transpose(power, [0, 2, 1])


def layout(tf, array, rows, columns, depth):
    """Transposes and copies, joined with some arithmetic."""
    x = array(rows, columns, depth)
    y, z = array(rows * 8, columns * 8), array(columns * 8, rows * 8)
    swapped = tf.transpose(x, [1, 0, 2])
    turned = tf.transpose(x, [2, 1, 0]) * 0.5
    flat = tf.transpose(y) * z
    joined = tf.concat([y, tf.reverse(y, [1])], 1)
    halves = tf.tanh(joined[:, ::2]) + y
    minor = tf.reduce_sum(tf.square(x), 2)
    major = tf.reduce_sum(tf.square(x), 0)
    return swapped, turned, flat, halves, minor, major


def particles(tf, array, count, others):
    """Forces between particles, from the differences of all pairs."""
    x, y = array(count, 3), array(others, 3)
    masses, velocity = array(others), array(count, 3)
    apart = y[None] - x[:, None]
    squared = tf.reduce_sum(tf.square(apart), -1) + 1e-2
    strength = masses * tf.math.rsqrt(squared) / squared
    force = tf.reduce_sum(apart * strength[:, :, None], 1)
    back = tf.reduce_sum(apart * strength[:, :, None], 0)
    potential = tf.reduce_sum(masses * tf.math.rsqrt(squared), 1)
    return velocity + 0.01 * force, back, potential, tf.reduce_min(squared, 0)


def options(tf, array, paths, steps):
    """Prices of options: by drawn paths, and by the formula for many strikes."""
    normals, rates = array(steps, paths), array(steps, 1)
    spots, strikes = array(96), array(96)
    growth = tf.exp(normals * 0.2 + rates)
    last = tf.exp(tf.reduce_sum(normals, 0) * 0.2)
    payoff = tf.nn.relu(spots[:, None] * last - strikes[:, None])
    price = tf.reduce_mean(payoff, 1)
    ratio = tf.math.log(tf.abs(spots[:, None] / strikes[None]) + 1e-3) / 0.2
    formula = 0.5 * (1.0 + tf.math.tanh(ratio + 0.04 * ratio * ratio * ratio))
    path = tf.reduce_mean(growth, 1)
    highest = tf.reduce_max(growth, 0)
    return price, formula * spots[:, None], path, highest, tf.transpose(growth)


def quantisation(tf, array, rows, columns, width):
    """Arrays to eight bits and back, by row and by column, and what that loses."""

    def levels(x, axis):
        scale = tf.reduce_max(tf.abs(x), axis, keepdims=True) / 127.0 + 1e-9
        steps = tf.clip_by_value(tf.round(x / scale), -128.0, 127.0)
        return tf.cast(steps, tf.int32), scale

    x, w = array(rows, columns), array(columns, width)
    by_column, scale = levels(x, 0)
    by_row, row_scale = levels(x, 1)
    restored = tf.cast(by_column, tf.float32) * scale
    product = tf.matmul(tf.cast(by_row, tf.float32), w) * row_scale
    lost = tf.reduce_sum(tf.square(x - restored), 0)
    return by_column, product, lost, tf.reduce_sum(by_row, 0)


def wavelet(tf, array, batch, rows, columns):
    """Two levels of a Haar transform along both axes, shrunk and joined again."""

    def halves(x, axis):
        at = [slice(None)] * 3
        even, odd = list(at), list(at)
        even[axis], odd[axis] = slice(0, None, 2), slice(1, None, 2)
        low, high = x[tuple(even)] + x[tuple(odd)], x[tuple(even)] - x[tuple(odd)]
        return low * 0.7071, high * 0.7071

    x = array(batch, rows, columns)
    low, high = halves(x, 1)
    first, second = halves(low, 2)
    third, fourth = halves(high, 2)
    joined = tf.concat(
        [tf.concat([first, second], 2), tf.concat([third, fourth], 2)], 1
    )
    shrunk = tf.sign(joined) * tf.nn.relu(tf.abs(joined) - 0.1)
    tiny, rest = halves(first, 1)
    energy = tf.reduce_sum(tf.square(shrunk), 0)
    return shrunk, tf.concat([tiny, rest], 2), energy, tf.transpose(x, [2, 1, 0])


def classes(tf, array, rows, count, width):
    """Sums by class through one-hot rows, cross-entropy, confusion."""
    x, logits = array(rows, width), array(rows, count)
    numbers, guesses = array(rows, integers=True), array(rows, integers=True)
    hot = tf.one_hot(numbers, count)
    other = tf.one_hot(guesses, count)
    sums = tf.matmul(hot, x, transpose_a=True)
    centres = sums / (tf.reduce_sum(hot, 0)[:, None] + 1.0)
    loss = -tf.reduce_sum(tf.nn.log_softmax(logits) * hot, 1)
    near = x - tf.gather(centres, numbers)
    confusion = tf.matmul(hot, other, transpose_a=True)
    return centres, loss, tf.square(near), confusion, tf.reduce_max(logits, 0)


TABLE = {
    'statistics_tall': (statistics, dict(rows=1024, columns=96)),
    'statistics_wide': (statistics, dict(rows=160, columns=512)),
    'normalisation_batch_8': (normalisation, dict(batch=8, length=64, width=192)),
    'normalisation_batch_24': (normalisation, dict(batch=24, length=96, width=64)),
    'distances_small': (distances, dict(points=512, centres=96, width=32)),
    'distances_large': (distances, dict(points=1536, centres=40, width=16)),
    'graph_small': (graph, dict(nodes=192, edges=1024, width=64)),
    'graph_large': (graph, dict(nodes=384, edges=1536, width=32)),
    'signal_batch_4': (signal, dict(batch=4, length=12800, taps=128)),
    'signal_batch_16': (signal, dict(batch=16, length=4096, taps=64)),
    'layout_small': (layout, dict(rows=32, columns=48, depth=64)),
    'layout_large': (layout, dict(rows=48, columns=40, depth=96)),
    'particles_small': (particles, dict(count=256, others=192)),
    'particles_large': (particles, dict(count=512, others=320)),
    'options_few': (options, dict(paths=2048, steps=48)),
    'options_many': (options, dict(paths=8192, steps=24)),
    'quantisation_tall': (quantisation, dict(rows=1536, columns=128, width=64)),
    'quantisation_wide': (quantisation, dict(rows=256, columns=640, width=96)),
    'wavelet_batch_4': (wavelet, dict(batch=4, rows=128, columns=192)),
    'wavelet_batch_12': (wavelet, dict(batch=12, rows=96, columns=64)),
    'classes_few': (classes, dict(rows=2048, count=24, width=64)),
    'classes_many': (classes, dict(rows=768, count=192, width=96)),
}
