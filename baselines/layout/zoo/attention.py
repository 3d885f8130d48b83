"""The models with attention."""

import tensorflow as tf

from baselines.layout.zoo import families
from baselines.layout.zoo import layered


class AttentionSAGE(layered.Layered):
    """Attention between configurable nodes (the tile model: between all).

    Over sources, targets and the node itself, several heads:

        alpha_ij = softmax_j LeakyReLU(a . W x_i + b . W x_j),  sum_j alpha_ij W x_j

    Args:
        heads: attention heads; they share `hidden_dim`.
        The others are those of `Layered`.
    """

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        heads: int = 4,
        hidden_dim: int = 32,
        **options,
    ):
        if heads < 1 or hidden_dim % heads:
            raise ValueError(
                f'heads divide hidden_dim={hidden_dim}, and {heads} do not'
            )
        self._heads = heads
        super().__init__(num_configs, num_ops, hidden_dim=hidden_dim, **options)

    def _kernels(self):
        dense = tf.keras.layers.Dense
        return [dense(self._width), dense(self._heads), dense(self._heads)]

    def _messages(self, kernels, x, messages):
        project, own, other = kernels
        values = project(x)
        heads = tf.reshape(values, [-1, self._heads, self._width // self._heads])
        y = messages.attend(own(values), other(values), heads)
        return messages.here(x), tf.reshape(y, [-1, self._width])


class ConfigAttentionSAGE(families.ResSAGE):
    """`ResSAGE` whose configurations see each other (the tile model: at its head).

    Before the last sum:

        x = x * sigmoid(V relu(U x))                 squeeze and excite channels
        x = x + x * softmax over configurations of (x / temperature)

    The temperature is learned.  The scores depend on the list: they compare its
    configurations, and say nothing about others.

    Args: those of `Layered`.
    """

    scores_depend_on_list = True

    def __init__(self, num_configs: int, num_ops: int, **options):
        super().__init__(num_configs, num_ops, **options)
        dense = tf.keras.layers.Dense
        self._squeeze = dense(max(self._width // 8, 1), activation='relu')
        self._excite = dense(self._width, activation='sigmoid')
        self._temperature = self.add_weight('log_temperature', [], initializer='zeros')

    # Parts alone do not give its scores: `forward` needs all configurations.
    def forward(self, graph, num_configs, dropout=None, backprop=None, training=False):
        return super().forward(graph, num_configs, dropout, backprop, training)

    def _encode_cells(self, x, cells, messages):
        x = super()._encode_cells(x, cells, messages)
        x *= self._excite(self._squeeze(x))
        return x + x * cells.softmax(x * tf.exp(-self._temperature))
