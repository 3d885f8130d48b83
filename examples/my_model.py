"""A tile model and a loss of your own.

python tiles_train.py --sample_data --models_file=examples/my_model.py --model=MyModel \
    --losses=examples/my_model.py:my_loss:1
"""

import tensorflow as tf


class MyModel(tf.keras.Model):
    """score = MLP(mean over nodes of (features, opcode embedding), configuration)."""

    joins_early = False  # nothing is computed for each node in each configuration

    def __init__(self, num_configs, num_ops, hidden=64):
        super().__init__()
        self._num_configs = num_configs
        self._opcodes = tf.keras.layers.Embedding(num_ops, 16)
        self._mlp = tf.keras.Sequential(
            [tf.keras.layers.Dense(hidden, 'relu') for _ in range(2)]
            + [tf.keras.layers.Dense(1, use_bias=False)]
        )

    def call(self, graph, training=False):
        return self.forward(graph, self._num_configs)

    def forward(self, graph, num_configs):
        nodes = graph.node_sets['op']
        kernels = nodes.sizes.shape[0]
        x = tf.concat([nodes['feats'], self._opcodes(nodes['op'])], axis=-1)
        kernel_of_node = tf.repeat(tf.range(kernels), nodes.sizes)
        pooled = tf.math.unsorted_segment_mean(x, kernel_of_node, kernels)
        configs = graph.node_sets['config']['feats']
        both = tf.concat([tf.repeat(pooled, num_configs, axis=0), configs], axis=-1)
        return tf.reshape(self._mlp(both), [kernels, num_configs])


def my_loss(labels, scores):
    """Pairwise logistic loss: a slower configuration should have the higher score."""
    gap = scores[:, :, tf.newaxis] - scores[:, tf.newaxis, :]
    slower = labels[:, :, tf.newaxis] > labels[:, tf.newaxis, :]
    return tf.reduce_mean(tf.where(slower, tf.nn.softplus(-gap), 0.0))
