"""`PhysicalModel`, as it is and with more layers of messages between nodes."""

from typing import List

import tensorflow as tf

from baselines.layout import sparse
from baselines.layout.zoo import options
from baselines.layout.zoo import physical


class HybridSAGE(physical.PhysicalModel):
    """`PhysicalModel` as it is; unlike the tile model, without an estimate of time.

    Args: those of `PhysicalModel`.
    """


class Layered(physical.PhysicalModel):
    """`PhysicalModel` with more layers of messages between configurable nodes.

    Each layer:  x = x + activation(norm(messages(x)))

    The graph is the pruned one of `PhysicalModel`: an edge goes from a
    configurable node to every one that its layout reaches.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of layers.
        join: 'late': they encode nodes, and layouts join afterwards; 'early':
            they pass on what layouts do, once per configuration.
        norm: 'layer' or 'none', before the activation.
        others: those of `PhysicalModel`.

    Raises:
        ValueError: an option is not one of those.
    """

    is_base = True
    _hops_per_layer = 1

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 2,
        join: str = 'late',
        norm: str = 'layer',
        **others,
    ):
        super().__init__(num_configs, num_ops, **others)
        options.one_of('join', join, ('early', 'late'))
        options.one_of('norm', norm, ('layer', 'none'))
        options.at_least_1(num_gnns=num_gnns)
        self._early, self._norm = join == 'early', norm
        self._gnn_layers = [self._kernels() for _ in range(num_gnns)]

    @property
    def num_gnns(self) -> int:
        """Number of times that cells pass messages."""
        return 1 + self._early * len(self._gnn_layers) * self._hops_per_layer

    def _kernels(self) -> List[tf.keras.layers.Layer]:
        """Makes the weights of a layer."""
        raise NotImplementedError

    def _messages(self, kernels, x, messages):
        """What a layer of these kernels adds to x [cells, h] before the activation.

        Returns:
            x and the messages, where the layer ends.
        """
        raise NotImplementedError

    def _encode_nodes(self, x, messages):
        return x if self._early else self._encode(x, messages)

    def _encode_cells(self, x, cells, messages):
        return self._encode(x, messages) if self._early else x

    def _encode(self, x, messages):
        for kernels in self._gnn_layers:
            x, y = self._messages(kernels, x, messages)
            if self._norm == 'layer':
                y = _normalized(y)
            x += self._activation(y)
        return x

    def _connect(self, matrices):
        rows, cols, values = (tf.concat(part, 0) for part in zip(*matrices))
        return [*matrices, sparse.Matrix(cols, rows, values)]


class ResSAGE(Layered):
    """Residual GraphSAGE on configurable nodes (the tile model: on all).

        y = W x + U mean over sources + V mean over targets

    Args: those of `Layered`.
    """

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width), *_without_bias(self._width)]

    def _messages(self, kernels, x, messages):
        mine, inwards, outwards = kernels
        y_in, y_out = messages.sums(inwards(x), outwards(x))
        d_in, d_out = tf.split(tf.maximum(messages.degrees(), 1.0), 2, 1)
        x = messages.here(x)
        return x, mine(x) + y_in / d_in + y_out / d_out


class GCN(Layered):
    """Graph convolution on configurable nodes (the tile model: on all).

        y = D^-1/2 (A + A' + I) D^-1/2 x W

    Args: those of `Layered`.
    """

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width)]

    def _messages(self, kernels, x, messages):
        y = x * messages.scale(1.0)
        y = tf.add_n(messages.sums(y, y))
        x = messages.here(x)
        scale = messages.scale(1.0)
        return x, kernels[0](scale * (y + scale * x))


class ChebSAGE(Layered):
    """Chebyshev filters of order 2 alone (the tile model: next to GraphSAGE).

        y = sum_k T_k(L) x W_k,  L = -D^-1/2 (A + A') D^-1/2

    Args: those of `Layered`.
    """

    _hops_per_layer = 2

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width), *_without_bias(self._width)]

    def _messages(self, kernels, x, messages):
        first = self._laplacian(x, messages)
        x = messages.here(x)
        second = 2.0 * self._laplacian(first, messages)
        x, first = messages.here(x), messages.here(first)
        zeroth, *more = kernels
        return x, zeroth(x) + more[0](first) + more[1](second - x)

    def _laplacian(self, x, messages):
        y = x * messages.scale(0.0)
        y = tf.add_n(messages.sums(y, y))
        return -y * messages.scale(0.0)


class AttentionSAGE(Layered):
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


class ConfigAttentionSAGE(ResSAGE):
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

    def _encode_cells(self, x, cells, messages):
        x = super()._encode_cells(x, cells, messages)
        x *= self._excite(self._squeeze(x))
        return x + x * cells.softmax(x * tf.exp(-self._temperature))


def _normalized(x: tf.Tensor) -> tf.Tensor:
    """Layer normalisation in plain operations: Keras's fused one is not thread-safe."""
    x -= tf.reduce_mean(x, -1, keepdims=True)
    return x * tf.math.rsqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-3)


def _without_bias(width: int) -> List[tf.keras.layers.Layer]:
    return [tf.keras.layers.Dense(width, use_bias=False) for _ in range(2)]
