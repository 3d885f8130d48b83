"""Layout models small enough for tests that train and save in a moment."""

import tensorflow as tf
import tensorflow_gnn as tfgnn


class Tiny(tf.keras.Model):
    """Scores = features of all configurable nodes, summed up, @ w."""

    def __init__(self, num_configs, num_ops, start=0.0):
        super().__init__()
        self._num_configs = num_configs
        self._start = tf.constant_initializer(start)

    def build_weights(self, width):
        """Makes the variables, at the first call."""
        self.w = self.add_weight('w', [width, 1], initializer=self._start)

    def call(self, graph, training=False):
        """Scores a batch: float32 [batch, num_configs]."""
        return self.forward(graph, self._num_configs)

    def forward(self, graph, num_configs, dropout=None, backprop=None):
        """Scores any number of configurations."""
        feats = graph.node_sets['nconfig']['feats']
        if not self.weights:
            self.build_weights(feats.shape[-1])
        owner = graph.edge_sets['g_config'].adjacency[tfgnn.SOURCE]
        scores = tf.reshape(feats @ self.w, [-1, num_configs])
        batch = graph.node_sets['g'].sizes.shape[0]
        return tf.math.unsorted_segment_sum(scores, owner, batch)


class Signed(Tiny):
    """Tiny's scores times the last but one column of the nodes less the last one."""

    def forward(self, graph, num_configs, dropout=None, backprop=None):
        """Scores any number of configurations."""
        scores = super().forward(graph, num_configs)
        columns = graph.node_sets['op']['feats'][:, -2:]
        owner = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        batch = graph.node_sets['g'].sizes.shape[0]
        means = tf.math.unsorted_segment_mean(columns, owner, batch)
        return scores * (means[:, :1] - means[:, 1:])
