"""The published formulas, written down plainly: the reference for speed.

Configuration features are copied onto every node, messages are gathered and
summed edge by edge, and nothing is shared between configurations.  Weights are
taken, by position, from a model of ours.
"""

import tensorflow as tf
import tensorflow_gnn as tfgnn


class TileModel:
    """Scores one kernel with the weights of `model`, as the formulas read.

    Args:
        model: one of the five published models of ours, default options.
    """

    def __init__(self, model: tf.keras.Model):
        self._kind = type(model).__name__
        self._variables: list[tf.Variable] = model.trainable_variables

    def __call__(self, op, feats, edges, configs, graph_of_node, num_graphs):
        """Scores kernels.

        Args:
            op: uint8 [n].
            feats: float32 [n, f].
            edges: int64 [m, 2], (consumer, producer).
            configs: float32 [graphs, c, k].
            graph_of_node: int [n].
            num_graphs: number of kernels.

        Returns:
            float32 [graphs, c].
        """
        table, *weights = self._variables
        nodes = [tf.gather(table, tf.cast(op, tf.int32)), feats]
        c = tf.shape(configs)[1]
        pool = lambda x: tf.math.unsorted_segment_sum(x, graph_of_node, num_graphs)
        if self._kind == 'MLP':
            pooled = pool(tf.concat(nodes[::-1], -1))
            return _mlp(_per_config(pooled, configs), weights)[..., 0]
        early = self._kind.startswith('Early')
        if early:
            copied = [tf.repeat(x[:, None], c, axis=1) for x in nodes]
            copied.insert(1, tf.gather(configs, graph_of_node))
            x = tf.concat(copied, -1)
        else:
            x = tf.concat(nodes, -1)
        if self._kind.endswith('SAGE'):
            x, head = _sage(x, edges, weights)
        else:
            x, head = _resgcn(x, edges, weights)
        pooled = pool(x)
        if not early:
            pooled = _per_config(pooled, configs)
        return _mlp(pooled, head)[..., 0]


def _per_config(pooled, configs):
    copied = tf.repeat(pooled[:, None], tf.shape(configs)[1], axis=1)
    return tf.concat([copied, configs], -1)


def _mlp(x, weights):
    for i in range(0, len(weights), 2):
        if i:
            x = tf.nn.leaky_relu(x)
        x = tf.tensordot(x, weights[i], 1) + weights[i + 1]
    return x


def _sum_messages(x, sources, targets):
    return tf.math.unsorted_segment_sum(tf.gather(x, sources), targets, tf.shape(x)[0])


def _sage(x, edges, weights):
    for i in range(0, 6, 2):
        y = _sum_messages(x, edges[:, 0], edges[:, 1]) + _sum_messages(
            x, edges[:, 1], edges[:, 0]
        )
        z = tf.tensordot(tf.concat([y, x], -1), weights[i], 1) + weights[i + 1]
        x = tf.nn.l2_normalize(tf.nn.leaky_relu(z), -1)
    return x, weights[6:]


def _resgcn(x, edges, weights):
    layers, pre, head = weights[:12], weights[12:16], weights[16:]
    ones = tf.ones([tf.shape(x)[0]])
    degree = 1.0 + _sum_messages(ones, edges[:, 0], edges[:, 1])
    inverse = 1.0 / tf.reshape(
        degree, tf.concat([[-1], tf.ones([tf.rank(x) - 1], tf.int32)], 0)
    )
    x = _mlp(x, pre)
    for i in range(0, 12, 4):
        y = tf.nn.leaky_relu(x)
        down = inverse * (_sum_messages(y, edges[:, 0], edges[:, 1]) + y)
        scaled = inverse * y
        up = _sum_messages(scaled, edges[:, 1], edges[:, 0]) + scaled
        x = x + _mlp(down + up + y, layers[i : i + 4])
    return tf.nn.leaky_relu(x), head


def layout_scores(model: tf.keras.Model, graph: tfgnn.GraphTensor, num_configs):
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
    embedding = tf.gather(table, tf.cast(ops['op'], tf.int32))
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
