"""A models.py of one small model, for tests that train and save in a moment."""

import tensorflow as tf


class Tiny(tf.keras.Model):
    """Scores = configuration features @ w, plus the size of the graph."""

    def __init__(self, num_configs, num_ops, start=0.0):
        super().__init__()
        self._num_configs = num_configs
        self._start = start
        self._num_ops = num_ops

    def build_weights(self, width):
        """Makes the variables, at the first call."""
        self.table = self.add_weight('table', [self._num_ops, 1])
        self.w = self.add_weight('w', [width, 1])
        self.b = self.add_weight(
            'b', [], initializer=tf.constant_initializer(self._start)
        )

    def call(self, graph, training=False):
        """Scores a batch: float32 [batch, num_configs]."""
        return self.forward(graph, self._num_configs, training)

    def forward(self, graph, num_configs, training=False):
        """Scores any number of configurations."""
        feats = graph.node_sets['config']['feats']
        if not self.weights:
            self.build_weights(feats.shape[1])
        sizes = graph.node_sets['op'].sizes
        opcodes = tf.cast(graph.node_sets['op']['op'], tf.int32)
        ops = tf.gather(self.table, opcodes)
        kernels = tf.reduce_sum(ops) / tf.cast(tf.reduce_sum(sizes), tf.float32)
        scores = tf.reshape(feats @ self.w, [sizes.shape[0], num_configs])
        return scores + kernels + self.b
