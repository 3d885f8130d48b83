"""Shared code of the zoo's tile models: kernels as tensors, and layers.

`baselines/tiles/models.py` has some of these layers, too.  It is a drop-in file, which
users may replace, so nothing here is imported from it; and in the published tree it
has to work alone, so it imports nothing from here.  tests/tiles/zoo/test_copies.py
holds the copies equal.
"""

from collections.abc import Callable, Sequence
import copy
import math
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.tiles import implicit

Size: TypeAlias = 'int | tf.Tensor'
# A normalisation, and the layer (x, kernels) -> messages.
_Layer = tuple[tf.keras.layers.Layer, Callable[..., tf.Tensor]]


class KernelBatch:
    """A batch of kernels: the tensors of a GraphTensor, in the shapes that models use.

    n nodes in all kernels of the batch, b kernels, c configurations each.  Values x of
    nodes are [n * columns, h]: `columns` is 1, or c where a node has a row for each
    configuration (`paired`).
    """

    def __init__(self, graph: tfgnn.GraphTensor, num_configs: Size):
        self.batch = graph.node_sets['g'].sizes.shape[0]  # b, static
        self.num_configs = num_configs
        self.columns = 1
        self.ops = graph.node_sets['op']['feats']  # [n, f]
        self.configs = graph.node_sets['config']['feats']  # [b * c, k]
        # Membership of nodes in kernels: one-hot rows, float32 [n, b].
        self.kernel_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        self.member = tf.one_hot(self.kernel_of_node, self.batch)
        self.adjacency = implicit.AdjacencyMultiplier(graph, 'feed')

    def paired(self) -> 'KernelBatch':
        """Returns the batch with a row for every node and configuration."""
        pairs = copy.copy(self)
        pairs.columns = self.num_configs
        return pairs

    def join_columns(self, x: tf.Tensor) -> tf.Tensor:
        """Makes a row per node or kernel: [.. * columns, h] -> [.., columns h]."""
        return tf.reshape(x, [-1, self.columns * x.shape[-1]])

    def times(self, matrix: implicit.Multiplier, x: tf.Tensor) -> tf.Tensor:
        """Multiplies a matrix with every column of x."""
        return tf.reshape(matrix @ self.join_columns(x), [-1, x.shape[-1]])

    def on_nodes(self, x: tf.Tensor) -> tf.Tensor:
        """Copies rows of kernels to nodes: [b * columns, h] -> [n * columns, h]."""
        return tf.reshape(
            tf.matmul(self.member, self.join_columns(x)), [-1, x.shape[-1]]
        )

    def pool(self, x: tf.Tensor, reduction: str = 'sum') -> tf.Tensor:
        """Sums or averages over nodes: [n * columns, h] -> [b * columns, h]."""
        pooled = tf.matmul(self.member, self.join_columns(x), transpose_a=True)
        if reduction == 'mean':
            # [b, 1]: the nodes of each kernel.
            pooled /= tf.expand_dims(tf.reduce_sum(self.member, axis=0), 1)
        return tf.reshape(pooled, [-1, x.shape[-1]])

    def each_config(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to an axis of configurations: [.. * c, h] -> [.., c, h]."""
        return tf.reshape(x, [-1, self.num_configs, x.shape[-1]])

    def scores(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to a row of scores per kernel: [b * c, 1] -> [b, c]."""
        return tf.reshape(x, [self.batch, self.num_configs])

    def means(self) -> list[implicit.Multiplier]:
        """Makes the matrices that average over consumers, and over operands."""
        # Rows of A are operands, columns their consumers.
        a = self.adjacency
        return [a.normalize_left(), a.transpose().normalize_left()]


def at_least(least: int, **options: int) -> None:
    """Raises ValueError for an option below `least`."""
    for option, value in options.items():
        if value < least:
            raise ValueError(f'{option} is at least {least}, not {value}')


def log_features(x: tf.Tensor, scales: Sequence[float]) -> tf.Tensor:
    """Appends log(1 + x / s) / log(1 + 1 / s) for every scale s to x; all in [0, 1].

    Sizes come scaled linearly, so that 8 and 16 of at most 2**20 are nearly the
    same number; float32 keeps them apart, and a logarithm shows it.
    """
    positive = tf.nn.relu(x)  # other splits may leave [0, 1]
    logs = [
        tf.math.log1p(positive / scale) / math.log1p(1.0 / scale) for scale in scales
    ]
    return tf.concat([x, *logs], -1)


def dropout(x: tf.Tensor, share: float, training: bool) -> tf.Tensor:
    """Leaves out a share of values in a training step, and scales up the others.

    The seed is taken from the values: a generator would have a state, which a
    resumed training had lost.
    """
    if not (training and share):
        return x
    # A seed is two integers: the bits of the sum, and 0.
    seed = tf.stack([tf.bitcast(tf.reduce_sum(x), tf.int32), 0])
    return tf.nn.experimental.stateless_dropout(x, share, seed)


class LayerNorm(tf.keras.layers.Layer):
    """Layer normalisation (arXiv 1607.06450) of the last axis.

    In plain operations: the fused kernel behind Keras's layer cannot run side
    by side in a parallel loop (TensorFlow 2.15.1), and scoring is one.
    """

    def build(self, shape: tf.TensorShape):
        self.gain = self.add_weight('gain', [shape[-1]], initializer='ones')
        self.bias = self.add_weight('bias', [shape[-1]], initializer='zeros')

    def call(self, x: tf.Tensor):
        x -= tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(x), -1, keepdims=True)
        # 1e-5 keeps a row of equal values finite.
        return x * (tf.math.rsqrt(variance + 1e-5) * self.gain) + self.bias


class Messages(tf.keras.layers.Layer):
    """Directed GraphSAGE: x W + mean(consumers) W' + mean(operands) W'' + b."""

    def __init__(self, dim: int, **options: Any):
        super().__init__(**options)
        self._self = tf.keras.layers.Dense(dim)
        self._others = [tf.keras.layers.Dense(dim, use_bias=False) for _ in range(2)]

    def call(self, x: tf.Tensor, kernels: KernelBatch):
        y = self._self(x)
        for mean, dense in zip(kernels.means(), self._others):
            y += dense(kernels.times(mean, x))
        return y


class ResidualModel(tf.keras.Model):
    """Residual layers of messages between nodes, features also as logarithms.

        n = W [features, embedding],  n = n + f(norm(n))      for each layer

    f is activation(messages).

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        hidden_dim: width of what is computed per node.
        op_embed_dim: width of the opcode embedding.
        hidden_activation: a Keras activation.
        log_scales: features are also shown as log(1 + x / scale), scaled, for
            each of these; none shows them as they come.
        dropout: share of the hidden values that a training step leaves out.

    Raises:
        ValueError: an option is out of range.
    """

    is_base = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        hidden_dim: int = 64,
        op_embed_dim: int = 32,
        hidden_activation: str = 'leaky_relu',
        log_scales: Sequence[float] = (1e-3, 1e-6),
        dropout: float = 0.0,
    ):
        super().__init__()
        self._num_configs = num_configs
        at_least(1, hidden_dim=hidden_dim)
        if not 0 <= dropout < 1:
            raise ValueError(f'dropout is from 0 to below 1, not {dropout}')
        if not all(scale > 0 for scale in log_scales):
            raise ValueError(f'log_scales are above 0, not {list(log_scales)}')
        self._log_scales = tuple(float(scale) for scale in log_scales)
        self._dropout = dropout
        self._width = hidden_dim
        self._activation = tf.keras.activations.get(hidden_activation)
        self._op_embedding = tf.keras.layers.Embedding(num_ops, op_embed_dim)
        self._input = tf.keras.layers.Dense(hidden_dim)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training)

    def _node_inputs(
        self, graph: tfgnn.GraphTensor, kernels: KernelBatch
    ) -> list[tf.Tensor]:
        """Gathers the features of nodes, also as logarithms, and embedded opcodes."""
        ops = graph.node_sets['op']
        return [
            log_features(kernels.ops, self._log_scales),
            self._op_embedding(tf.cast(ops['op'], tf.int32)),
        ]

    def _encode(
        self,
        layers: Sequence[_Layer],
        x: tf.Tensor,
        kernels: KernelBatch,
        training: bool,
    ):
        """Applies residual layers of messages to x, [n * columns, h]."""
        for norm, messages in layers:
            y = self._activation(messages(norm(x), kernels))
            x += dropout(y, self._dropout, training)
        return x
