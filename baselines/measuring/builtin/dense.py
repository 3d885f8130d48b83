"""Programs of matrix products: attention, mixers, recurrent nets, training."""


def transformer(tf, batch, length, width, heads):
    """An encoder layer: attention and a feed-forward part, with layer norms."""

    def norm(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5)

    def split(x):
        x = tf.reshape(x, [batch, length, heads, width // heads])
        return tf.transpose(x, [0, 2, 1, 3])

    def run(x, q, k, v, o, up, down):
        y = norm(x)
        y = tf.reshape(y, [-1, width])
        logits = tf.matmul(
            split(tf.matmul(y, q)), split(tf.matmul(y, k)), transpose_b=True
        )
        weights = tf.nn.softmax(logits * (heads / width) ** 0.5)
        mixed = tf.matmul(weights, split(tf.matmul(y, v)))
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, width])
        x = tf.reshape(x, [-1, width]) + tf.matmul(mixed, o)
        hidden = tf.nn.gelu(tf.matmul(norm(x), up), approximate=True)
        return x + tf.matmul(hidden, down)

    return run, [
        (batch, length, width), *[(width, width)] * 4, (width, width * 4),
        (width * 4, width),
    ]  # fmt: skip


def mixer(tf, batch, patches, width):
    """Products along patches, then along channels."""

    def norm(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-5)

    def run(x, a1, a2, b1, b2):
        y = tf.transpose(norm(x), [0, 2, 1])
        y = tf.matmul(tf.nn.relu(tf.matmul(y, a1)), a2)
        x = x + tf.transpose(y, [0, 2, 1])
        y = tf.nn.softplus(tf.einsum('bpc,cd->bpd', norm(x), b1))
        x = x + tf.einsum('bpd,dc->bpc', y, b2)
        return tf.reduce_mean(x, 1), x

    return run, [
        (batch, patches, width), (patches, patches * 2), (patches * 2, patches),
        (width, width * 2), (width * 2, width),
    ]  # fmt: skip


def lstm(tf, batch, steps, width):
    """A few steps of an LSTM, unrolled."""

    def run(x, w, u, b, start):
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

    return run, [
        (batch, steps, width), (width, width * 4), (width, width * 4), (width * 4,),
        (batch, width),
    ]  # fmt: skip


def gru(tf, batch, steps, width):
    """A few steps of a GRU on a sequence with time first, unrolled."""

    def run(x, w, u, start):
        h = start
        for at in range(steps):
            both = tf.matmul(x[at], w)
            inner = tf.matmul(h, u)
            z = tf.sigmoid(both[:, :width] + inner[:, :width])
            r = tf.sigmoid(both[:, width : width * 2] + inner[:, width : width * 2])
            new = tf.tanh(both[:, width * 2 :] + r * inner[:, width * 2 :])
            h = z * h + (1.0 - z) * new
        return h, tf.reduce_max(x, 0), tf.nn.log_softmax(h)

    return run, [
        (steps, batch, width), (width, width * 3), (width, width * 3), (batch, width),
    ]  # fmt: skip


def training(tf, batch, width, hidden):
    """A step of Adam on a perceptron with cross-entropy."""

    def run(x, labels, w1, w2, w3, m1, m2, m3, v1, v2, v3):
        weights = [w1, w2, w3]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            y = tf.nn.relu(tf.matmul(x, w1))
            y = tf.tanh(tf.matmul(y, w2))
            loss = tf.nn.log_softmax(tf.matmul(y, w3)) * labels
            loss = -tf.reduce_mean(tf.reduce_sum(loss, -1))
        results = []
        gradients = tape.gradient(loss, weights)
        for w, g, m, v in zip(weights, gradients, (m1, m2, m3), (v1, v2, v3)):
            m = 0.9 * m + 0.1 * g
            v = 0.99 * v + 0.01 * tf.square(g)
            results += [w - 1e-3 * m / (tf.sqrt(v) + 1e-7), m, v]
        return results

    layers = [(width, hidden), (hidden, hidden), (hidden, 64)]
    return run, [(batch, width), (batch, 64), *layers * 3]


def recommender(tf, users, rows, width):
    """Rows of tables by number, their products, and a perceptron."""

    def run(table, other, numbers, others, w1, w2):
        a = tf.gather(table, numbers)
        b = tf.gather(other, others)
        pooled = tf.reduce_sum(b, 1)
        joined = tf.concat([a, pooled, a * pooled], -1)
        hidden = tf.nn.relu(tf.matmul(joined, w1))
        products = tf.einsum('bif,bjf->bij', b, b)
        score = tf.sigmoid(tf.matmul(hidden, w2))
        return score, tf.reduce_max(products, -1), tf.norm(b, axis=-1)

    return run, [
        (rows, width), (rows, width), (users, 'int'), (users, 16, 'int'),
        (width * 3, 256), (256, 32),
    ]  # fmt: skip


def decoder(tf, batch, length, width, heads):
    """Causal attention with turned positions, after keys and values of before."""
    depth = width // heads

    def split(x):
        return tf.reshape(x, [batch, length, heads, depth])

    def turned(x, cosines, sines):
        low, high = tf.split(x, 2, -1)
        rotated = tf.concat([-high, low], -1)
        return x * cosines[:, None] + rotated * sines[:, None]

    def run(x, qkv, out, cosines, sines, mask, old_keys, old_values):
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

    before = (batch, length, heads, depth)
    return run, [
        (batch, length, width), (width, width * 3), (width, width), (length, depth),
        (length, depth), (length, length * 2), before, before,
    ]  # fmt: skip


def experts(tf, tokens, width, hidden, count):
    """A mixture of experts, all of them asked, and how evenly they are used."""

    def run(x, gate, up, down):
        gates = tf.nn.softmax(tf.matmul(x, gate))
        y = tf.nn.silu(tf.einsum('nd,edh->enh', x, up))
        y = tf.einsum('enh,ehd->end', y, down)
        mixed = tf.reduce_sum(y * tf.transpose(gates)[:, :, None], 0)
        power = tf.reduce_sum(tf.square(y), [1, 2])
        return mixed + x, tf.reduce_mean(gates, 0), power

    return run, [
        (tokens, width), (width, count), (count, width, hidden), (count, hidden, width),
    ]  # fmt: skip


def contrastive(tf, batch, width, inner):
    """Two towers, all similarities, and soft maxima both ways."""

    def tower(x, w1, w2):
        y = tf.matmul(tf.nn.gelu(tf.matmul(x, w1), approximate=True), w2)
        return y * tf.math.rsqrt(tf.reduce_sum(tf.square(y), -1, keepdims=True) + 1e-6)

    def run(a, b, a1, a2, b1, b2):
        logits = tf.matmul(tower(a, a1, a2), tower(b, b1, b2), transpose_b=True) * 20.0
        rows = tf.nn.log_softmax(logits)
        columns = tf.nn.log_softmax(tf.transpose(logits))
        both = rows + tf.transpose(columns)
        hardest = tf.reduce_max(logits, 0) - tf.reduce_min(logits, 0)
        return tf.linalg.diag_part(both), both, columns, hardest

    return run, [
        (batch, width), (batch, width), *[(width, inner), (inner, inner)] * 2,
    ]  # fmt: skip


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
