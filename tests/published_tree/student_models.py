"""A models.py as a student writes it for the published tree; not derived from ours."""

import tensorflow as tf
import tensorflow_gnn as tfgnn
from tpu_graphs.baselines.tiles import implicit


class _Gate(tf.keras.layers.Layer):
    """Lets a learnt share of a message through."""

    def __init__(self, width):
        super().__init__()
        self.gate = tf.keras.layers.Dense(width, activation='sigmoid')
        self.message = tf.keras.layers.Dense(width, activation='tanh')

    def call(self, x):
        return self.gate(x) * self.message(x)


class GatedPool(tf.keras.Model):
    """Gated messages on nodes that know their configuration; [n, c, d] throughout.

    It needs the number of configurations as a Python number, and has a moving mean.
    """

    def __init__(self, num_configs, num_ops, width=12, rounds=2):
        super().__init__()
        self.num_configs = num_configs
        self.opcodes = tf.keras.layers.Embedding(num_ops, width)
        self.start = tf.keras.layers.Dense(width, activation='relu')
        self.gates = [_Gate(width) for _ in range(rounds)]
        self.norm = tf.keras.layers.BatchNormalization(momentum=0.5)
        self.score = tf.keras.layers.Dense(1)

    def call(self, graph, training=False):
        return self.forward(graph, self.num_configs, training)

    def forward(self, graph, num_configs, training=False):
        batch = graph.node_sets['g'].sizes.shape[0]
        ops = graph.node_sets['op']
        configs = graph.node_sets['config']['feats']
        configs = tf.reshape(configs, [batch, num_configs, configs.shape[-1]])
        on_ops = tfgnn.broadcast(
            graph, tfgnn.SOURCE, edge_set_name='g_op', feature_value=configs
        )
        nodes = tf.concat([self.opcodes(ops['op']), ops['feats']], axis=-1)
        nodes = tf.stack([nodes] * num_configs, axis=1)
        x = self.start(tf.concat([nodes, on_ops], axis=-1))
        feed = implicit.AdjacencyMultiplier(graph, 'feed')
        average = (feed + feed.transpose()).add_eye().normalize_symmetric()
        for gate in self.gates:
            x = self.norm(x + gate(average @ x), training=training)
        pooled = tfgnn.pool(
            graph,
            tfgnn.SOURCE,
            edge_set_name='g_op',
            reduce_type='mean',
            feature_value=x,
        )
        return tf.squeeze(self.score(pooled), axis=-1)
