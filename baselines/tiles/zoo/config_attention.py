"""A tile model that compares the configurations of a list."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.tiles.zoo import kernels as kernels_lib


class GatedMessages(kernels_lib.Messages):
    """GraphSAGE with gates on channels: y sigmoid(MLP(mean over nodes of y)).

    Squeeze-excite (Hu et al., CVPR 2018).
    """

    def __init__(self, dim: int, **options: Any):
        super().__init__(dim, **options)
        self._gate = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(max(dim // 8, 1), 'relu'),
                tf.keras.layers.Dense(dim, 'sigmoid'),
            ]
        )

    def call(self, x: tf.Tensor, kernels: kernels_lib.KernelBatch):
        y = super().call(x, kernels)
        return y * kernels.on_nodes(self._gate(kernels.pool(y, 'mean')))


class AcrossConfigs(tf.keras.layers.Layer):
    """Attention across the configurations of a graph, channel by channel.

        z = norm(x);  x + activation([z, z c softmax over them of z / t] W + b)

    with c configurations and a learned temperature t (after TGraph, the first
    place of the Kaggle competition).
    """

    def __init__(self, dim: int, activation: Callable, **options: Any):
        super().__init__(**options)
        self._norm = kernels_lib.LayerNorm()
        self._compare = tf.keras.layers.Dense(dim, activation)

    def build(self, shape: tf.TensorShape):
        # Its exponential is positive whatever is learned, and 1 at first.
        self._log_temperature = self.add_weight(
            'log_temperature', [], initializer='zeros'
        )

    def call(self, x: tf.Tensor):
        """Compares x, [graphs, configurations, dim]: the same shape."""
        z = self._norm(x)
        weights = tf.nn.softmax(z * tf.exp(-self._log_temperature), axis=1)
        # Their mean over configurations is 1, however long the list is.
        weights *= tf.cast(tf.shape(x)[1], tf.float32)
        return x + self._compare(tf.concat([z, z * weights], -1))


class ConfigAttentionSAGE(kernels_lib.ResidualModel):
    """GraphSAGE with gated channels, and attention between configurations.

        n = W [features, embedding],  n = n + f(norm(n))      node_gnns times
        x = activation(n + Q q + (U n) * (V q))               every pair
        x = x + f(norm(x))                                    num_gnns times
        score = MLP(z),  z = sum of x over nodes, compared by `AcrossConfigs`

    q are the configuration's features, f is activation(`GatedMessages`).  The scores
    depend on the list: they compare its configurations, and say nothing about others.

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: message-passing layers after the configuration has joined;
            they cost most.
        node_gnns: message-passing layers before.
        reduction: 'sum' or 'mean' over the nodes of a kernel.
        The others are those of `ResidualModel`.

    Raises:
        ValueError: an option is out of range.
    """

    joins_early = True
    scores_depend_on_list = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 0,
        node_gnns: int = 2,
        reduction: str = 'sum',
        **options: Any,
    ):
        super().__init__(num_configs, num_ops, **options)
        kernels_lib.at_least(0, num_gnns=num_gnns, node_gnns=node_gnns)
        if reduction not in ('sum', 'mean'):
            raise ValueError(f"reduction is 'sum' or 'mean', not {reduction!r}")
        self._reduction = reduction
        dense, width = tf.keras.layers.Dense, self._width
        self._of_config = dense(width, use_bias=False)
        self._node_gate = dense(width)
        self._config_gate = dense(width, use_bias=False)
        self._node_layers = [
            (kernels_lib.LayerNorm(), GatedMessages(width)) for _ in range(node_gnns)
        ]
        self._pair_layers = [
            (kernels_lib.LayerNorm(), GatedMessages(width)) for _ in range(num_gnns)
        ]
        layers = [dense(width, self._activation) for _ in range(2)]
        self._head = tf.keras.Sequential([*layers, dense(1)])
        self._across = AcrossConfigs(width, self._activation)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: kernels_lib.Size,
        training: bool = False,
    ):
        kernels = kernels_lib.KernelBatch(graph, num_configs)
        pairs = kernels.paired()
        x = self._input(tf.concat(self._node_inputs(graph, kernels), -1))
        x = self._encode(self._node_layers, x, kernels, training)
        x = self._join(pairs, x)  # [n * c, h]
        x = self._encode(self._pair_layers, x, pairs, training)
        pooled = kernels.each_config(pairs.pool(x, self._reduction))  # [b, c, h]
        compared = tf.reshape(self._across(pooled), [-1, self._width])
        return kernels.scores(self._head(compared))

    def _join(self, pairs: kernels_lib.KernelBatch, nodes: tf.Tensor) -> tf.Tensor:
        """Joins every node, [n, h], with every configuration: [n * c, h]."""
        configs = kernels_lib.log_features(pairs.configs, self._log_scales)
        of_config = pairs.on_nodes(self._of_config(configs))  # [n * c, h]
        x = pairs.each_config(of_config) + tf.expand_dims(nodes, 1)  # [n, c, h]
        gates = tf.expand_dims(self._node_gate(nodes), 1)  # [n, 1, h]
        x += pairs.each_config(pairs.on_nodes(self._config_gate(configs))) * gates
        return tf.reshape(self._activation(x), [-1, self._width])
