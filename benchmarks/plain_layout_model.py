"""The published formula of ResModel, written down plainly: reference for speed.

Every configuration has every node: features, embeddings and configurations are
repeated and concatenated, messages are gathered and summed edge by edge.
"""

import tensorflow as tf
import tensorflow_gnn as tfgnn


def forward(model: tf.keras.Model, graph: tfgnn.GraphTensor, num_configs):
    """Scores one program with the weights of a model.

    Args:
        model: our ResModel, adjacency 'sym', two dense layers in every MLP.
        graph: one program, no segment selected.
        num_configs: configurations in it, c.

    Returns:
        float32 [c].
    """
    table, *weights, head_0, head_1 = model.trainable_variables
    ops = graph.node_sets['op']
    n = tf.shape(ops['op'])[0]
    configurable = graph.edge_sets['config'].adjacency[tfgnn.TARGET]
    feats = graph.node_sets['nconfig']['feats'] * 100.0
    shape = tf.stack([n, num_configs, feats.shape[-1]])
    c = tf.scatter_nd(configurable[:, tf.newaxis], feats, shape)

    def on_all(x):
        return tf.repeat(x[:, tf.newaxis], num_configs, 1)

    def mlp(x):
        for _ in range(2):
            kernel, bias = weights.pop(0), weights.pop(0)
            x = tf.nn.leaky_relu(tf.tensordot(x, kernel, 1) + bias)
        return x

    feed = graph.edge_sets['feed'].adjacency
    u, v, node = feed[tfgnn.SOURCE], feed[tfgnn.TARGET], tf.range(n)
    rows, cols = tf.concat([v, u, node], 0), tf.concat([u, v, node], 0)
    degree = tf.math.unsorted_segment_sum(tf.ones(tf.shape(rows)), rows, n)
    scale = tf.reshape(tf.math.rsqrt(degree), [-1, 1, 1])
    embedding = tf.gather(table, ops['op'])
    x = mlp(tf.concat([c, on_all(ops['feats']), on_all(embedding)], -1))
    while weights:
        z = tf.gather(scale * tf.concat([c, x], -1), cols)
        x = x + mlp(scale * tf.math.unsorted_segment_sum(z, rows, n))
    total = tf.reduce_sum(x, 0)
    read_out = [
        total / tf.cast(n, tf.float32),
        tf.nn.l2_normalize(total, -1),
        tf.nn.l2_normalize(tf.reduce_sum(tf.gather(x, configurable), 0), -1),
    ]
    hidden = tf.nn.leaky_relu(tf.matmul(tf.concat(read_out, -1), head_0))
    return tf.matmul(hidden, head_1)[:, 0]
