"""A tile model whose configurations join the kernel in the head alone."""

from typing import Any

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.tiles.zoo import kernels as kernels_lib


def fill_bins(x: tf.Tensor, count: int) -> tf.Tensor:
    """Encodes numbers piecewise linearly: how far each of `count` equal bins is filled.

    [.., d] -> [.., d * count], in [0, 1].  A dense layer on it is any function of
    a column that is linear within the bins: thresholds, and what is not monotone
    (Gorishniy et al., NeurIPS 2022).
    """
    starts = tf.range(count, dtype=tf.float32)
    # [.., d, count]: bin i reaches from i / count to (i + 1) / count.
    filled = tf.clip_by_value(tf.expand_dims(x, -1) * count - starts, 0.0, 1.0)
    # Static where it is known: the dense layer that follows needs it.
    width = tf.shape(x)[1] if x.shape[-1] is None else x.shape[-1]
    return tf.reshape(filled, [tf.shape(x)[0], count * width])


class LateJoinResSAGE(kernels_lib.ResidualModel):
    """Residual, directed GraphSAGE on the kernel; a residual head compares tiles.

        n = W [features, embedding],  n = n + f(norm(n))      node_gnns times
        z = [mean of n, maximum of n]
        e = Q q
        x = e + Z z + (U z) * (V e)
        x = x + MLP(norm(activation(x)))                      head_blocks times
        score = w activation(x)

    q are the configuration's features: as they are, as logarithms, and in bins.
    What a head can know of how a tile fits its arrays has to be among them: this
    is made for `--columns=tile`.  Nothing is computed per pair of node and
    configuration.

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        node_gnns: message-passing layers on the kernel.
        hidden_dim: width of what is computed per node.
        op_embed_dim: width of the opcode embedding.
        head_dim: width of what is computed per configuration.
        head_blocks: residual blocks of the head.
        bins: number of bins in the piecewise-linear encoding of a configuration
            feature; 0 leaves it out.
        log_scales: scales of the logarithms of features; see `ResidualModel`.
        hidden_activation: a Keras activation.
        dropout: share of the head's hidden values that a training step leaves out.

    Raises:
        ValueError: an option is out of range.
    """

    joins_early = False

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        node_gnns: int = 2,
        head_dim: int = 128,
        head_blocks: int = 2,
        bins: int = 8,
        **options: Any,
    ):
        super().__init__(num_configs, num_ops, **options)
        kernels_lib.at_least(0, node_gnns=node_gnns, head_blocks=head_blocks, bins=bins)
        kernels_lib.at_least(1, head_dim=head_dim)
        self._head_width = head_dim
        self._bins = bins
        dense, activation = tf.keras.layers.Dense, self._activation
        self._node_layers = [
            (kernels_lib.LayerNorm(), kernels_lib.Messages(self._width))
            for _ in range(node_gnns)
        ]
        self._of_kernel = dense(head_dim)
        self._kernel_gate = dense(head_dim)
        self._of_config = dense(head_dim, use_bias=False)
        self._config_gate = dense(head_dim, use_bias=False)
        self._blocks = [
            (kernels_lib.LayerNorm(), dense(head_dim, activation), dense(head_dim))
            for _ in range(head_blocks)
        ]
        self._score = dense(1)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: kernels_lib.Size,
        training: bool = False,
    ):
        kernels = kernels_lib.KernelBatch(graph, num_configs)
        z = self._encode_kernels(graph, kernels)  # [b, 2 * hidden_dim]
        x = self._join(kernels, z)  # [b * c, head_dim]
        for norm, first, second in self._blocks:
            y = first(norm(self._activation(x)))
            x += second(kernels_lib.dropout(y, self._dropout, training))
        return kernels.scores(self._score(self._activation(x)))

    def _join(self, kernels: kernels_lib.KernelBatch, z: tf.Tensor) -> tf.Tensor:
        """Joins each configuration with its kernel: [b * c, head_dim]."""
        shape = [kernels.batch, -1, self._head_width]
        x = self._of_config(self._encode_configs(kernels.configs))  # [b * c, head_dim]
        gate = tf.expand_dims(self._kernel_gate(z), 1)  # [b, 1, head_dim]
        joined = tf.reshape(x, shape) + tf.expand_dims(self._of_kernel(z), 1)
        joined += tf.reshape(self._config_gate(x), shape) * gate
        return tf.reshape(joined, [-1, self._head_width])

    def _encode_configs(self, configs: tf.Tensor) -> tf.Tensor:
        """Encodes features: as they are, as logarithms, and in bins."""
        x = kernels_lib.log_features(configs, self._log_scales)
        return tf.concat([x, fill_bins(configs, self._bins)], -1) if self._bins else x

    def _encode_kernels(
        self, graph: tfgnn.GraphTensor, kernels: kernels_lib.KernelBatch
    ) -> tf.Tensor:
        """Encodes kernels by the mean and the maximum of nodes: [b, 2 * hidden_dim]."""
        x = self._input(tf.concat(self._node_inputs(graph, kernels), -1))
        x = self._activation(self._encode(self._node_layers, x, kernels, False))
        largest = tf.math.unsorted_segment_max(x, kernels.kernel_of_node, kernels.batch)
        return tf.concat([kernels.pool(x, 'mean'), largest], -1)
