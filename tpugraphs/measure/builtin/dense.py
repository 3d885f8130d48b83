"""Programs of matrix products: attention, mixers, recurrent nets, training."""


def transformer(tf, array, batch, length, width, heads):
    """An encoder layer: attention and a feed-forward part, with layer norms."""

    def norm(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5)

    def split(x):
        x = tf.reshape(x, [batch, length, heads, width // heads])
        return tf.transpose(x, [0, 2, 1, 3])

    x = array(batch, length, width)
    q, k, v, o = (array(width, width) for _ in range(4))
    y = tf.reshape(norm(x), [-1, width])
    logits = tf.matmul(split(tf.matmul(y, q)), split(tf.matmul(y, k)), transpose_b=True)
    weights = tf.nn.softmax(logits * (heads / width) ** 0.5)
    mixed = tf.matmul(weights, split(tf.matmul(y, v)))
    mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, width])
    x = tf.reshape(x, [-1, width]) + tf.matmul(mixed, o)
    hidden = tf.matmul(norm(x), array(width, width * 4))
    hidden = tf.nn.gelu(hidden, approximate=True)
    return x + tf.matmul(hidden, array(width * 4, width))


def mixer(tf, array, batch, patches, width):
    """Products along patches, then along channels."""

    def norm(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-5)

    x = array(batch, patches, width)
    y = tf.transpose(norm(x), [0, 2, 1])
    y = tf.nn.relu(tf.matmul(y, array(patches, patches * 2)))
    y = tf.matmul(y, array(patches * 2, patches))
    x = x + tf.transpose(y, [0, 2, 1])
    y = tf.nn.softplus(tf.einsum('bpc,cd->bpd', norm(x), array(width, width * 2)))
    x = x + tf.einsum('bpd,dc->bpc', y, array(width * 2, width))
    return tf.reduce_mean(x, 1), x


def lstm(tf, array, batch, steps, width):
    """A few steps of an LSTM, unrolled."""
    x = array(batch, steps, width)
    w, u = array(width, width * 4), array(width, width * 4)
    b, start = array(width * 4), array(batch, width)
    h, c = start, start * 0.5
    projected = tf.reshape(
        tf.matmul(tf.reshape(x, [-1, width]), w), [batch, steps, width * 4]
    )
    for step in range(steps):
        gates = projected[:, step] + tf.matmul(h, u) + b
        i, f, g, o = tf.split(gates, 4, -1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
    return h, tf.reduce_sum(tf.square(projected), 0)


def gru(tf, array, batch, steps, width):
    """A few steps of a GRU on a sequence with time first, unrolled."""
    x = array(steps, batch, width)
    w, u = array(width, width * 3), array(width, width * 3)
    h = array(batch, width)
    for at in range(steps):
        both = tf.matmul(x[at], w)
        inner = tf.matmul(h, u)
        z = tf.sigmoid(both[:, :width] + inner[:, :width])
        r = tf.sigmoid(both[:, width : width * 2] + inner[:, width : width * 2])
        new = tf.tanh(both[:, width * 2 :] + r * inner[:, width * 2 :])
        h = z * h + (1.0 - z) * new
    return h, tf.reduce_max(x, 0), tf.nn.log_softmax(h)


def training(tf, array, batch, width, hidden):
    """A step of Adam on a perceptron with cross-entropy."""
    x, labels = array(batch, width), array(batch, 64)
    layers = [(width, hidden), (hidden, hidden), (hidden, 64)]
    weights, first, second = ([array(*layer) for layer in layers] for _ in range(3))
    with tf.GradientTape() as tape:
        tape.watch(weights)
        y = tf.nn.relu(tf.matmul(x, weights[0]))
        y = tf.tanh(tf.matmul(y, weights[1]))
        loss = tf.nn.log_softmax(tf.matmul(y, weights[2])) * labels
        loss = -tf.reduce_mean(tf.reduce_sum(loss, -1))
    results = []
    gradients = tape.gradient(loss, weights)
    for w, g, m, v in zip(weights, gradients, first, second):
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * tf.square(g)
        results += [w - 1e-3 * m / (tf.sqrt(v) + 1e-7), m, v]
    return results


def recommender(tf, array, users, rows, width):
    """Rows of tables by number, their products, and a perceptron."""
    table, other = array(rows, width), array(rows, width)
    numbers, others = array(users, integers=True), array(users, 16, integers=True)
    a = tf.gather(table, numbers)
    b = tf.gather(other, others)
    pooled = tf.reduce_sum(b, 1)
    joined = tf.concat([a, pooled, a * pooled], -1)
    hidden = tf.nn.relu(tf.matmul(joined, array(width * 3, 256)))
    products = tf.einsum('bif,bjf->bij', b, b)
    score = tf.sigmoid(tf.matmul(hidden, array(256, 32)))
    return score, tf.reduce_max(products, -1), tf.norm(b, axis=-1)


def decoder(tf, array, batch, length, width, heads):
    """Causal attention with turned positions, after keys and values of before."""
    depth = width // heads

    def split(x):
        return tf.reshape(x, [batch, length, heads, depth])

    def turned(x, cosines, sines):
        low, high = tf.split(x, 2, -1)
        rotated = tf.concat([-high, low], -1)
        return x * cosines[:, None] + rotated * sines[:, None]

    x = array(batch, length, width)
    qkv, out = array(width, width * 3), array(width, width)
    cosines, sines = array(length, depth), array(length, depth)
    mask = array(length, length * 2)
    old_keys, old_values = (array(batch, length, heads, depth) for _ in range(2))
    flat = tf.matmul(tf.reshape(x, [-1, width]), qkv)
    q, k, v = (split(part) for part in tf.split(flat, 3, -1))
    q, k = turned(q, cosines, sines), turned(k, cosines, sines)
    keys = tf.concat([old_keys, k], 1)
    values = tf.concat([old_values, v], 1)
    logits = tf.einsum('bqhd,bkhd->bhqk', q, keys) * depth**-0.5 + mask
    weights = tf.nn.softmax(logits)
    mixed = tf.einsum('bhqk,bkhd->bqhd', weights, values)
    y = tf.matmul(tf.reshape(mixed, [-1, width]), out)
    return y, keys, values, tf.reduce_mean(weights, [0, 1])


def experts(tf, array, tokens, width, hidden, count):
    """A mixture of experts, all of them asked, and how evenly they are used."""
    x = array(tokens, width)
    gates = tf.nn.softmax(tf.matmul(x, array(width, count)))
    y = tf.nn.silu(tf.einsum('nd,edh->enh', x, array(count, width, hidden)))
    y = tf.einsum('enh,ehd->end', y, array(count, hidden, width))
    mixed = tf.reduce_sum(y * tf.transpose(gates)[:, :, None], 0)
    power = tf.reduce_sum(tf.square(y), [1, 2])
    return mixed + x, tf.reduce_mean(gates, 0), power


def contrastive(tf, array, batch, width, inner):
    """Two towers, all similarities, and soft maxima both ways."""

    def tower(x):
        hidden = tf.nn.gelu(tf.matmul(x, array(width, inner)), approximate=True)
        y = tf.matmul(hidden, array(inner, inner))
        return y * tf.math.rsqrt(tf.reduce_sum(tf.square(y), -1, keepdims=True) + 1e-6)

    a, b = array(batch, width), array(batch, width)
    logits = tf.matmul(tower(a), tower(b), transpose_b=True) * 20.0
    rows = tf.nn.log_softmax(logits)
    columns = tf.nn.log_softmax(tf.transpose(logits))
    both = rows + tf.transpose(columns)
    hardest = tf.reduce_max(logits, 0) - tf.reduce_min(logits, 0)
    return tf.linalg.diag_part(both), both, columns, hardest


TABLE = {
    'transformer_batch_2': (transformer, dict(batch=2, length=96, width=128, heads=4)),
    'transformer_batch_4': (transformer, dict(batch=4, length=48, width=96, heads=2)),
    'mixer_batch_4': (mixer, dict(batch=4, patches=64, width=128)),
    'mixer_batch_16': (mixer, dict(batch=16, patches=48, width=64)),
    'lstm_batch_32': (lstm, dict(batch=32, steps=6, width=128)),
    'lstm_batch_128': (lstm, dict(batch=128, steps=4, width=96)),
    'gru_batch_64': (gru, dict(batch=64, steps=8, width=128)),
    'gru_batch_192': (gru, dict(batch=192, steps=6, width=64)),
    'training_batch_128': (training, dict(batch=128, width=192, hidden=256)),
    'training_batch_48': (training, dict(batch=48, width=384, hidden=320)),
    'recommender_small': (recommender, dict(users=256, rows=2000, width=48)),
    'recommender_large': (recommender, dict(users=768, rows=6000, width=24)),
    'decoder_batch_2': (decoder, dict(batch=2, length=96, width=128, heads=4)),
    'decoder_batch_6': (decoder, dict(batch=6, length=40, width=96, heads=6)),
    'experts_small': (experts, dict(tokens=128, width=96, hidden=128, count=4)),
    'experts_large': (experts, dict(tokens=256, width=48, hidden=96, count=8)),
    'contrastive_small': (contrastive, dict(batch=256, width=128, inner=96)),
    'contrastive_large': (contrastive, dict(batch=512, width=64, inner=48)),
}
