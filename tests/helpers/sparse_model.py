"""A models.py as others publish it: it multiplies by a tf.SparseTensor of the edges.

Indices of a SparseTensor are int64, the type of edges in the published tile pipeline.
"""

import tensorflow as tf
import tensorflow_gnn as tfgnn


class Sparse(tf.keras.Model):
    """Adds consumers' embeddings to their producers', and joins configurations late."""

    def __init__(self, num_configs, num_ops):
        super().__init__()
        self._num_configs = num_configs
        self._embedding = tf.keras.layers.Embedding(num_ops, 4)
        self._dense = tf.keras.layers.Dense(1)

    def call(self, graph, training=False):
        """Scores a batch: float32 [batch, num_configs]."""
        return self.forward(graph, self._num_configs)

    def forward(self, graph, num_configs):
        """Scores any number of configurations."""
        edges = graph.edge_sets['feed'].adjacency
        x = self._embedding(tf.cast(graph.node_sets['op']['op'], tf.int32))
        nodes = tf.shape(x, out_type=tf.int64)[0]
        pairs = tf.stack([edges.source, edges.target], 1)
        matrix = tf.SparseTensor(pairs, tf.ones(tf.shape(pairs)[:1]), [nodes, nodes])
        x += tf.sparse.sparse_dense_matmul(tf.sparse.reorder(matrix), x)
        pooled = tfgnn.pool_nodes_to_context(graph, 'op', 'sum', feature_value=x)
        size = graph.node_sets['g'].sizes.shape[0]
        configs = graph.node_sets['config']['feats']
        configs = tf.reshape(configs, [size, -1, configs.shape[-1]])
        pooled = tf.stack([pooled] * num_configs, 1)
        return tf.squeeze(self._dense(tf.concat([pooled, configs], -1)), -1)
