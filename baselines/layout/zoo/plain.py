"""Graph networks as in their papers, between configurable nodes and neighbours.

References to compare with: of layouts they know the numbers alone, and no layer
has more than its paper says.  Messages go along edges in both directions.
"""

from typing import Any

import tensorflow as tf

from baselines.layout.zoo import neighbourhood


class GCN(neighbourhood.NeighbourhoodModel):
    """Graph convolutional network (Kipf & Welling, ICLR 2017).

        x = activation(D^-1/2 (A + A' + I) D^-1/2 x W + b)

    Args: those of `NeighbourhoodModel`.
    """

    def _make_layer(self) -> tf.keras.layers.Layer:
        return Convolution(self._width, self._activation)


class ChebNet(neighbourhood.NeighbourhoodModel):
    """Chebyshev spectral filters (Defferrard et al., NIPS 2016).

        x = activation(sum over k <= K of T_k(L) x W_k + b)
        L = -D^-1/2 (A + A') D^-1/2,  T_0 = I,  T_1 = L,  T_k = 2 L T_k-1 - T_k-2

    L is the Laplacian, rescaled with its largest possible eigenvalue, 2.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        order: the filters' order K.
        The others are those of `NeighbourhoodModel`.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(self, num_configs: int, num_ops: int, order: int = 2, **options: Any):
        if order < 1:
            raise ValueError(f'order is at least 1, not {order}')
        self._order = order
        super().__init__(num_configs, num_ops, **options)

    def _make_layer(self) -> tf.keras.layers.Layer:
        return Chebyshev(self._width, self._activation, self._order)


class GAT(neighbourhood.NeighbourhoodModel):
    """Graph attention network (Velickovic et al., ICLR 2018).

        alpha_ij = softmax_j LeakyReLU(a . W x_i + b . W x_j)
        x_i = activation(sum_j alpha_ij W x_j)

    over the neighbours j of a node and itself, heads side by side.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        heads: attention heads; they share `hidden_dim`.
        hidden_dim: width of all hidden layers.
        The others are those of `NeighbourhoodModel`.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        heads: int = 4,
        hidden_dim: int = 64,
        **options: Any,
    ):
        if heads < 1 or hidden_dim % heads:
            raise ValueError(
                f'heads divide hidden_dim={hidden_dim}, and {heads} do not'
            )
        self._heads = heads
        super().__init__(num_configs, num_ops, hidden_dim=hidden_dim, **options)

    def _make_layer(self) -> tf.keras.layers.Layer:
        return Attention(self._width, self._activation, self._heads)


class SAGE(neighbourhood.NeighbourhoodModel):
    """GraphSAGE (Hamilton et al., NIPS 2017), the baseline of the TpuGraphs paper.

        x_i = unit(activation(W x_i + U mean over neighbours j of x_j + b))

    unit divides by the Euclidean norm.  The features of a configuration are
    concatenated to those of its node, zeros to those of other nodes: the input layer
    of `NeighbourhoodModel` computes the same sum of products.  As in all models here
    only configurable nodes and their neighbours pass messages; in the paper all nodes
    of a segment do.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of layers.
        The others are those of `NeighbourhoodModel`.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(
        self, num_configs: int, num_ops: int, num_gnns: int = 3, **options: Any
    ):
        super().__init__(num_configs, num_ops, num_gnns=num_gnns, **options)

    def _make_layer(self) -> tf.keras.layers.Layer:
        return Sage(self._width, self._activation)


class ChebSAGE(ChebNet):
    """Chebyshev filters next to GraphSAGE, as the tile model, on configurable nodes.

        x = activation(sum over k <= K of T_k(L) x W_k + M x U + b)

    T_k and L are those of `ChebNet`; M x is the mean over neighbours, as in `SAGE`.

    Args: those of `ChebNet`.
    """

    def _make_layer(self) -> tf.keras.layers.Layer:
        return ChebyshevSage(self._width, self._activation, self._order)


class Convolution(tf.keras.layers.Layer):
    """A layer of `GCN`."""

    def __init__(self, dim: int, activation: Any):
        super().__init__()
        self._dense = tf.keras.layers.Dense(dim)
        self._activation = activation

    def call(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        matrix = part.both_ways.add_eye().normalize_symmetric()
        return self._activation(self._dense(matrix @ x))


class Chebyshev(tf.keras.layers.Layer):
    """A layer of `ChebNet`."""

    def __init__(self, dim: int, activation: Any, order: int):
        super().__init__()
        dense = tf.keras.layers.Dense
        self._zeroth = dense(dim)
        self._others = [dense(dim, use_bias=False) for _ in range(order)]
        self._activation = activation

    def call(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        return self._activation(self._filter(x, part))

    def _filter(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        """Applies the filters to x, float32 [n, c, h], without the activation."""
        matrix = part.both_ways.normalize_symmetric()
        y = self._zeroth(x)
        before, last = tf.zeros_like(x), x
        for number, dense in enumerate(self._others):
            # T_1 = L x, then T_k = 2 L T_k-1 - T_k-2; `matrix` is -L.
            factor = 2.0 if number else 1.0
            before, last = last, -factor * (matrix @ last) - before
            y += dense(last)
        return y


class ChebyshevSage(Chebyshev):
    """A layer of `ChebSAGE`."""

    def __init__(self, dim: int, activation: Any, order: int):
        super().__init__(dim, activation, order)
        self._of_neighbours = tf.keras.layers.Dense(dim, use_bias=False)

    def call(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        means = part.both_ways.normalize_left() @ x
        y = self._filter(x, part) + self._of_neighbours(means)
        return self._activation(y)


class Sage(tf.keras.layers.Layer):
    """A layer of `SAGE`."""

    def __init__(self, dim: int, activation: Any):
        super().__init__()
        self._own = tf.keras.layers.Dense(dim)
        self._of_neighbours = tf.keras.layers.Dense(dim, use_bias=False)
        self._activation = activation

    def call(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        means = part.both_ways.normalize_left() @ x
        y = self._activation(self._own(x) + self._of_neighbours(means))
        return tf.nn.l2_normalize(y, -1)


class Attention(tf.keras.layers.Layer):
    """A layer of `GAT`."""

    def __init__(self, dim: int, activation: Any, heads: int):
        super().__init__()
        dense = tf.keras.layers.Dense
        self._values = dense(dim, use_bias=False)
        self._of_receiver = dense(heads, use_bias=False)
        self._of_sender = dense(heads, use_bias=False)
        self._activation = activation
        self._shape = (heads, dim // heads)

    def call(self, x: tf.Tensor, part: neighbourhood.Neighbourhood) -> tf.Tensor:
        n, values = tf.size(part.nodes), self._values(x)  # values: [n, c, h]
        # Both directions of every edge, and a loop at every node: [2 m + n].
        receiver = tf.concat([part.consumer, part.producer, tf.range(n)], 0)
        sender = tf.concat([part.producer, part.consumer, tf.range(n)], 0)
        # [2 m + n, c, heads]: a . W x_i + b . W x_j is a sum of two numbers per node,
        # which are computed once and then gathered.
        logits = tf.nn.leaky_relu(
            tf.gather(self._of_receiver(values), receiver)
            + tf.gather(self._of_sender(values), sender),
            0.2,  # the slope of the paper
        )
        # A softmax over the messages to a node; the largest logit is taken off first,
        # so that no exponential overflows.
        highest = tf.math.unsorted_segment_max(logits, receiver, n)  # [n, c, heads]
        shares = tf.exp(logits - tf.gather(tf.stop_gradient(highest), receiver))
        total = tf.math.unsorted_segment_sum(shares, receiver, n)
        shares /= tf.gather(total, receiver)
        in_heads = tf.reshape(values, [n, -1, *self._shape])  # [n, c, heads, h / heads]
        messages = tf.gather(in_heads, sender) * shares[..., tf.newaxis]
        y = tf.math.unsorted_segment_sum(messages, receiver, n)
        return self._activation(tf.reshape(y, tf.shape(values)))
