"""The tile models: every public `tf.keras.Model` class here is a `--model`.

A model sees kernels as a GraphTensor (node sets `op`, `config`, `g`; edge set
`feed`) and gives every configuration of a kernel a score; lower means
predicted faster.  Contract of each class:

    Model(num_configs, num_ops, **kwargs)
    call(graph, training=False)   -> float32 [batch, num_configs]
    forward(graph, num_configs)   -> the same for any number of configurations
    joins_early                   whether configurations enter before the last
                                  pooling, so that what is computed grows with
                                  nodes x configurations

    scores_depend_on_list         True where a configuration's score depends on
                                  which others are scored with it; may be absent

The first five architectures are those of the TpuGraphs paper (arXiv
2308.13490), and their variables stand in the published order, so that weights
can be exchanged by position.  What differs is the order of evaluation: a
product with a concatenation is split into the sum of products with its parts,
so that what does not depend on the configuration is computed once per node, and
what does not depend on the node once per configuration.

The other two share `_NodesFirst`: message passing on the kernel alone, then the
configuration joins every node, then message passing on pairs of both.  Further models
are in `zoo/`.

This file imports nothing but TensorFlow, TF-GNN and its sibling `implicit`: it
works unchanged inside the published code.
"""

import copy
import math
from typing import Any, Callable, List, Sequence, Tuple, Union

import tensorflow as tf
import tensorflow_gnn as tfgnn

from . import implicit

_L2 = 1e-4
_Size = Union[int, tf.Tensor]
# A normalisation, and the layer (x, kernels) -> messages.
_Layer = Tuple[tf.keras.layers.Layer, Callable[..., tf.Tensor]]


def _mlp(
    dims: Sequence[int],
    hidden_activation: str,
    l2reg: float = _L2,
    use_bias: bool = True,
) -> tf.keras.Sequential:
    """Makes dense layers of widths `dims`, with the activation between them."""
    layers = []
    for i, dim in enumerate(dims):
        if i > 0:
            layers.append(tf.keras.layers.Activation(hidden_activation))
        layers.append(_dense(dim, l2reg, use_bias))
    return tf.keras.Sequential(layers)


def _dense(dim: int, l2reg: float = _L2, use_bias: bool = True):
    """Makes a dense layer with an L2 penalty."""
    regularizer = tf.keras.regularizers.l2(l2reg)
    return tf.keras.layers.Dense(dim, kernel_regularizer=regularizer, use_bias=use_bias)


class _OpEmbedding(tf.keras.Model):
    """Adds the feature `op_e`, an embedding of the opcode, to the ops.

    The embeddings, not their table, carry an L2 penalty, divided by the number
    of nodes in the batch.
    """

    def __init__(self, num_ops: int, embed_d: int, l2reg: float = _L2):
        super().__init__()
        self.embedding_layer = tf.keras.layers.Embedding(
            num_ops, embed_d, activity_regularizer=tf.keras.regularizers.l2(l2reg)
        )

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        ops = graph.node_sets['op']
        features = dict(ops.features)
        features['op_e'] = self.embedding_layer(tf.cast(ops['op'], tf.int32))
        return graph.replace_features(node_sets={'op': features})


def _split_kernel(
    layer: tf.keras.layers.Dense, widths: Sequence[int]
) -> List[tf.Tensor]:
    """Splits the kernel of `layer` into the rows for each concatenated input."""
    if not layer.built:
        layer.build(tf.TensorShape([None, sum(widths)]))
    return tf.split(layer.kernel, widths, axis=0)


def _width(x: tf.Tensor) -> int:
    return x.shape[-1]


class _KernelBatch:
    """A batch of kernels: the tensors of a GraphTensor, in the shapes that models use.

    n nodes in all kernels of the batch, b kernels, c configurations each.  Values x of
    nodes are [n * columns, h]: `columns` is 1, or c where a node has a row for each
    configuration (`paired`).
    """

    def __init__(self, graph: tfgnn.GraphTensor, num_configs: _Size):
        self.batch = graph.node_sets['g'].sizes.shape[0]
        self.num_configs = num_configs
        self.columns = 1
        self.ops = graph.node_sets['op']['feats']  # [n, f]
        self.configs = graph.node_sets['config']['feats']  # [b * c, k]
        # Membership of nodes in kernels: one-hot rows, float32 [n, b].
        self.kernel_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        self.member = tf.one_hot(self.kernel_of_node, self.batch)
        self.adjacency = implicit.AdjacencyMultiplier(graph, 'feed')
        self._feed = graph.edge_sets['feed'].adjacency

    def paired(self) -> '_KernelBatch':
        """Returns the batch with a row for every node and configuration."""
        pairs = copy.copy(self)
        pairs.columns = self.num_configs
        return pairs

    def join_columns(self, x: tf.Tensor) -> tf.Tensor:
        """Makes a row per node or kernel: [.. * columns, h] -> [.., columns h]."""
        return tf.reshape(x, [-1, self.columns * _width(x)])

    def times(self, matrix: implicit.Multiplier, x: tf.Tensor) -> tf.Tensor:
        """Multiplies a matrix with every column of x."""
        return tf.reshape(matrix @ self.join_columns(x), [-1, _width(x)])

    def on_nodes(self, x: tf.Tensor) -> tf.Tensor:
        """Copies rows of kernels to nodes: [b * columns, h] -> [n * columns, h]."""
        return tf.reshape(tf.matmul(self.member, self.join_columns(x)), [-1, _width(x)])

    def pool(self, x: tf.Tensor, reduction: str = 'sum') -> tf.Tensor:
        """Sums or averages over nodes: [n * columns, h] -> [b * columns, h]."""
        pooled = tf.matmul(self.member, self.join_columns(x), transpose_a=True)
        if reduction == 'mean':
            pooled /= tf.expand_dims(tf.reduce_sum(self.member, axis=0), 1)
        return tf.reshape(pooled, [-1, _width(x)])

    def each_config(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to an axis of configurations: [.. * c, h] -> [.., c, h]."""
        return tf.reshape(x, [-1, self.num_configs, _width(x)])

    def add_to_each(self, x: tf.Tensor, of_all: tf.Tensor) -> tf.Tensor:
        """Adds `of_all`, [.., h], to each configuration of x, [.. * c, h]."""
        x = self.each_config(x) + tf.expand_dims(of_all, 1)
        return tf.reshape(x, [-1, _width(of_all)])

    def scores(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to a row of scores per kernel: [b * c, 1] -> [b, c]."""
        return tf.reshape(x, [self.batch, self.num_configs])

    def means(self) -> List[implicit.Multiplier]:
        """Makes the matrices that average over consumers, and over operands."""
        # Rows of A are operands, columns their consumers.
        a = self.adjacency
        return [a.normalize_left(), a.transpose().normalize_left()]

    def symmetric(self) -> implicit.Multiplier:
        """Makes the matrix D^-1/2 (A + A') D^-1/2."""
        both = self.adjacency + self.adjacency.transpose()
        return both.normalize_symmetric()

    def neighbours(self) -> List[tf.Tensor]:
        """Returns receivers and senders of messages, both ways and loops: int32 [e]."""
        node = tf.range(tf.shape(self.ops)[0])
        ends = [
            tf.cast(self._feed[tag], tf.int32) for tag in (tfgnn.TARGET, tfgnn.SOURCE)
        ]
        return [tf.concat([*pair, node], 0) for pair in (ends, ends[::-1])]


def _at_least(least: int, **options: int) -> None:
    """Raises ValueError for an option below `least`."""
    for option, value in options.items():
        if value < least:
            raise ValueError(f'{option} is at least {least}, not {value}')


def _check_reduction(reduction: str) -> str:
    """Returns 'sum' or 'mean'; raises ValueError for another text."""
    if reduction not in ('sum', 'mean'):
        raise ValueError(f"reduction is 'sum' or 'mean', not {reduction!r}")
    return reduction


class _Model(tf.keras.Model):
    """The base of all models: `call` is `forward` of the configurations given."""

    joins_early: bool

    def __init__(self, num_configs: int):
        super().__init__()
        self._num_configs = num_configs

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training)


class _Published(_Model):
    """Features x of nodes, pooled, and a head.

    Joined early, x depend on the configuration: score = MLP(pool(x)); late,
    score = MLP([pool(x), configuration]).
    """

    def __init__(
        self, num_configs: int, num_ops: int, op_embed_dim: int, reduction: str = 'sum'
    ):
        super().__init__(num_configs)
        self._reduction = _check_reduction(reduction)
        self._op_embedding = _OpEmbedding(num_ops, op_embed_dim)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self, graph: tfgnn.GraphTensor, num_configs: _Size, training: bool = False
    ):
        embedding = self._op_embedding(graph).node_sets['op']['op_e']
        kernels = _KernelBatch(graph, num_configs)
        if self.joins_early:
            kernels = kernels.paired()
        x = self._nodes(kernels, embedding, training)
        pooled = kernels.pool(x, self._reduction)
        if self.joins_early:
            return kernels.scores(self._head(pooled))
        return kernels.scores(self._joined(self._head, kernels, [pooled]))

    def _joined(
        self,
        mlp: tf.keras.Sequential,
        kernels: _KernelBatch,
        parts: Sequence[tf.Tensor],
    ):
        """Applies `mlp` to [first of parts, configuration, others], each configuration.

        `parts` are of kernels, [b, ..], or, joined early, of nodes, [n, ..].
        """
        parts = [parts[0], kernels.configs, *parts[1:]]
        if not mlp.built:
            mlp.build(tf.TensorShape([None, sum(map(_width, parts))]))
        first, *rest = mlp.layers
        # A product with a concatenation is the sum of the products with its parts.
        kernel = _split_kernel(first, [_width(part) for part in parts])
        products = [tf.matmul(part, w) for part, w in zip(parts, kernel)]
        of_config = products.pop(1)  # [b * c, h]
        if self.joins_early:
            of_config = kernels.on_nodes(of_config)
        of_all = tf.nn.bias_add(tf.add_n(products), first.bias)
        x = kernels.add_to_each(of_config, of_all)
        for layer in rest:
            x = layer(x)
        return x

    def _nodes(self, kernels: _KernelBatch, embedding: tf.Tensor, training: bool):
        """Computes values to pool, [n * columns, h], from embedded opcodes, [n, e]."""
        raise NotImplementedError


class MLP(_Published):
    """No message passing: node features and opcode embeddings are pooled.

        score = MLP([pool(features), pool(embeddings), configuration])

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        op_embed_dim: width of the opcode embedding.
        mlp_layers: number of hidden layers.
        hidden_activation: a Keras activation.
        hidden_dim: width of the hidden layers.
        reduction: 'sum' or 'mean' over the nodes of a kernel.
    """

    joins_early = False

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        op_embed_dim: int = 32,
        mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        hidden_dim: int = 64,
        reduction: str = 'sum',
    ):
        super().__init__(num_configs, num_ops, op_embed_dim, reduction)
        self._head = _mlp([hidden_dim] * mlp_layers + [1], hidden_activation)

    def _nodes(self, kernels: _KernelBatch, embedding: tf.Tensor, training: bool):
        return tf.concat([kernels.ops, embedding], -1)


class _SAGE(_Published):
    """GraphSAGE (arXiv 1706.02216) with messages in both directions.

    Each layer:  x = l2_normalize(activation([S x, x] W + b)),  S = A + A'
    """

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 3,
        final_mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        hidden_dim: int = 64,
        op_embed_dim: int = 64,
    ):
        super().__init__(num_configs, num_ops, op_embed_dim)
        _at_least(1, num_gnns=num_gnns)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._gnn_layers = [_dense(hidden_dim) for _ in range(num_gnns)]
        self._head = _mlp([hidden_dim] * final_mlp_layers + [1], hidden_activation)

    def _nodes(self, kernels: _KernelBatch, embedding: tf.Tensor, training: bool):
        both_ways = kernels.adjacency + kernels.adjacency.transpose()
        first, *others = self._gnn_layers
        if self.joins_early:
            z = self._first_layer_early(kernels, both_ways, embedding)
        else:
            x = tf.concat([embedding, kernels.ops], -1)
            z = self._layer(first, kernels, both_ways, x)
        x = self._squash(z, training)
        for dense in others:
            x = self._squash(self._layer(dense, kernels, both_ways, x), training)
        return x

    def _layer(
        self,
        dense: tf.keras.layers.Dense,
        kernels: _KernelBatch,
        both_ways: implicit.Multiplier,
        x: tf.Tensor,
    ):
        """Computes one layer on x, [n * columns, h], before its activation."""
        width = _width(x)
        y = kernels.times(both_ways, x)
        w_neighbours, w_self = _split_kernel(dense, [width, width])
        z = tf.nn.bias_add(tf.matmul(x, w_self), dense.bias)
        return tf.matmul(y, w_neighbours) + z

    def _first_layer_early(
        self,
        kernels: _KernelBatch,
        both_ways: implicit.Multiplier,
        embedding: tf.Tensor,
    ):
        """Computes the first layer on [embedding, configuration, features].

        All neighbours of a node have its kernel's configuration q, so for the
        columns of q the sum over neighbours is degree * q.
        """
        features = kernels.ops
        w = [_width(embedding), _width(kernels.configs), _width(features)]
        dense = self._gnn_layers[0]
        y_e, y_q, y_f, x_e, x_q, x_f = _split_kernel(dense, w + w)
        x = tf.concat([embedding, features], -1)
        w_neighbours = tf.concat([y_e, y_f], 0)
        w_self = tf.concat([x_e, x_f], 0)
        of_node = tf.matmul(both_ways @ x, w_neighbours) + tf.nn.bias_add(
            tf.matmul(x, w_self), dense.bias
        )
        degree = both_ways @ tf.ones_like(features[:, :1])  # [n, 1]
        # [n, 2b] @ [2b, c h] = degree * (q y_q) + q x_q on every node.
        spread = tf.concat([degree * kernels.member, kernels.member], -1)
        of_config = tf.concat(
            [
                kernels.join_columns(tf.matmul(kernels.configs, part))
                for part in (y_q, x_q)
            ],
            0,
        )
        x = tf.reshape(tf.matmul(spread, of_config), [-1, _width(of_node)])
        return kernels.add_to_each(x, of_node)

    def _squash(self, z: tf.Tensor, training: bool):
        """Applies the activation, and scales each row to length 1."""
        z = self._activation(z)
        if training:
            return tf.nn.l2_normalize(z, axis=-1)
        # The same in fewer passes over memory; its gradient at 0 is not finite.
        norm = tf.math.reduce_euclidean_norm(z, axis=-1, keepdims=True)
        return z * tf.math.reciprocal(tf.maximum(norm, 1e-6))  # one division a row


class LateJoinSAGE(_SAGE):
    """GraphSAGE on the kernel alone; configurations join before the head.

        score = MLP([sum of x over nodes, configuration])

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of message-passing layers.
        final_mlp_layers: number of hidden layers of the head.
        hidden_activation: a Keras activation.
        hidden_dim: width of all hidden layers.
        op_embed_dim: width of the opcode embedding.
    """

    joins_early = False


class EarlyJoinSAGE(_SAGE):
    """GraphSAGE with the configuration's features on every node.

        x = [embedding, configuration, features];  score = MLP(sum of x)

    Args: those of `LateJoinSAGE`.
    """

    joins_early = True


class _ResGCN(_Published):
    """Residual GCN on M = D^-1 (A + I), D its row sums, after an input MLP.

    Each layer, with y = activation(x) and MLPs f, g, h:
        undirected:  x = x + f(M y + M' y + y)
        directed:    x = x + f(M y) + g(M' y) + h(y)
    """

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 3,
        mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        hidden_dim: int = 64,
        op_embed_dim: int = 32,
        directed: bool = False,
        reduction: str = 'sum',
    ):
        super().__init__(num_configs, num_ops, op_embed_dim, reduction)
        self._directed = directed
        self._activation = tf.keras.activations.get(hidden_activation)
        dims = [hidden_dim] * mlp_layers
        # Before the input MLP: the published order of variables.
        self._gnn_layers = [
            [_mlp(dims, hidden_activation) for _ in range(3 if directed else 1)]
            for _ in range(num_gnns)
        ]
        self._input_mlp = _mlp([hidden_dim] * 2, hidden_activation)
        self._head = _mlp([hidden_dim, 1], hidden_activation)

    def _nodes(self, kernels: _KernelBatch, embedding: tf.Tensor, training: bool):
        if self.joins_early:
            x = self._joined(self._input_mlp, kernels, [embedding, kernels.ops])
        else:
            x = self._input_mlp(tf.concat([embedding, kernels.ops], -1))
        multipliers = self._multipliers(kernels)
        for mlps in self._gnn_layers:
            y = self._activation(x)
            for mlp, multiplier in zip(mlps, multipliers):
                x = x + mlp(y if multiplier is None else kernels.times(multiplier, y))
        return self._activation(x)

    def _multipliers(self, kernels: _KernelBatch):
        """Makes a multiplier for every MLP of a layer; None is the identity."""
        adjacency = kernels.adjacency.add_eye()
        row_sums = adjacency @ tf.ones_like(kernels.ops[:, :1])
        # Every sum is at least 1, the node itself.
        scale = implicit.DiagMatrix(1.0 / row_sums[:, 0])
        m = implicit.Product(scale, adjacency)
        if self._directed:
            return [m, m.transpose(), None]
        return [(m + m.transpose()).add_eye()]


class LateJoinResGCN(_ResGCN):
    """Residual GCN on the kernel alone; configurations join before the head.

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of message-passing layers.
        mlp_layers: number of dense layers in the MLP of each of them.
        hidden_activation: a Keras activation.
        hidden_dim: width of all hidden layers.
        op_embed_dim: width of the opcode embedding.
        directed: separate MLPs for the two directions and the node itself.
        reduction: 'sum' or 'mean' over the nodes of a kernel.
    """

    joins_early = False


class EarlyJoinResGCN(_ResGCN):
    """Residual GCN with the configuration's features on every node.

    Args: those of `LateJoinResGCN`.
    """

    joins_early = True


ResGCN = EarlyJoinResGCN


# Beyond the published ones -----------------------------------------------------


def _log_features(x: tf.Tensor, scales: Sequence[float]) -> tf.Tensor:
    """Appends log(1 + x / s) / log(1 + 1 / s) for every scale s to x; all in [0, 1].

    Sizes come scaled linearly, so that 8 and 16 of at most 2**20 are nearly the
    same number; float32 keeps them apart, and a logarithm shows it.
    """
    positive = tf.nn.relu(x)  # other splits may leave [0, 1]
    logs = [
        tf.math.log1p(positive / scale) / math.log1p(1.0 / scale) for scale in scales
    ]
    return tf.concat([x, *logs], -1)


class _LayerNorm(tf.keras.layers.Layer):
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


class _Messages(tf.keras.layers.Layer):
    """Directed GraphSAGE: x W + mean(consumers) W' + mean(operands) W'' + b."""

    def __init__(self, dim: int, **options: Any):
        super().__init__(**options)
        self._self = tf.keras.layers.Dense(dim)
        self._others = [tf.keras.layers.Dense(dim, use_bias=False) for _ in range(2)]

    def call(self, x: tf.Tensor, kernels: _KernelBatch):
        y = self._self(x)
        for mean, dense in zip(kernels.means(), self._others):
            y += dense(kernels.times(mean, x))
        return y


class _Chebyshev(_Messages):
    """Chebyshev filters next to the messages of GraphSAGE.

        sum over k <= K of T_k(L) x W_k,  L = -D^-1/2 (A + A') D^-1/2

    L is the Laplacian, rescaled with its largest possible eigenvalue, 2.  T_1 is
    L, T_k = 2 L T_k-1 - T_k-2; T_0 x W_0 is the first term of GraphSAGE.
    """

    def __init__(self, dim: int, order: int, **options: Any):
        super().__init__(dim, **options)
        self._filters = [
            tf.keras.layers.Dense(dim, use_bias=False) for _ in range(order)
        ]

    def call(self, x: tf.Tensor, kernels: _KernelBatch):
        y = super().call(x, kernels)
        matrix = kernels.symmetric()
        before, last = None, x
        for dense in self._filters:
            # `matrix` is -L.
            product = -kernels.times(matrix, last)
            before, last = last, (product if before is None else 2.0 * product - before)
            y += dense(last)
        return y


class _Attention(tf.keras.layers.Layer):
    """Multi-head attention over a node's neighbours j and itself.

        alpha_ij = softmax_j LeakyReLU(a [W x_i, W x_j]),  sum_j alpha_ij W x_j

    (Velickovic et al., ICLR 2018), heads side by side.
    """

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(**options)
        self._heads = heads
        self._values = tf.keras.layers.Dense(dim, use_bias=False)
        # a [p, q] is a_1 p + a_2 q: each end's part once per row.
        self._ends = [tf.keras.layers.Dense(heads, use_bias=False) for _ in range(2)]
        self._self = tf.keras.layers.Dense(dim)

    def call(self, x: tf.Tensor, kernels: _KernelBatch):
        receiver, sender = kernels.neighbours()
        n = tf.shape(kernels.ops)[0]

        def by_node(x: tf.Tensor, *widths: int) -> tf.Tensor:
            return tf.reshape(x, [n, kernels.columns, *widths])

        values = self._values(x)
        to, of = (by_node(end(values), self._heads) for end in self._ends)
        logits = tf.nn.leaky_relu(tf.gather(to, receiver) + tf.gather(of, sender), 0.2)
        # Taken off, so that no exponential overflows: [n, columns, heads].
        highest = tf.math.unsorted_segment_max(logits, receiver, n)
        shares = tf.exp(logits - tf.gather(tf.stop_gradient(highest), receiver))
        shares /= tf.gather(tf.math.unsorted_segment_sum(shares, receiver, n), receiver)
        width = _width(values) // self._heads
        # [e, columns, heads, width].
        messages = tf.gather(by_node(values, self._heads, width), sender)
        y = tf.math.unsorted_segment_sum(
            messages * shares[..., tf.newaxis], receiver, n
        )
        return self._self(x) + tf.reshape(y, tf.shape(values))


class _NodesFirst(_Model):
    """Node encoder, join, pair encoder, head; features also as logarithms.

        n = W [features, embedding],  n = n + f(norm(n))      node_gnns times
        x = activation(n + Q q + (U n) * (V q))               every pair
        x = x + f(norm(x))                                    num_gnns times
        score = MLP(sum of x over nodes)

    q are the configuration's features, f is activation(messages); the classes differ
    in how messages are made.  The product lets a size in q meet its size in n.  Only
    what comes after the join is computed per pair.

    Raises:
        ValueError: an option is out of range.
    """

    joins_early = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 0,
        node_gnns: int = 2,
        hidden_dim: int = 64,
        op_embed_dim: int = 32,
        hidden_activation: str = 'leaky_relu',
        log_scales: Sequence[float] = (1e-3, 1e-6),
        dropout: float = 0.0,
        reduction: str = 'sum',
    ):
        super().__init__(num_configs)
        _at_least(1, hidden_dim=hidden_dim)
        _at_least(0, num_gnns=num_gnns, node_gnns=node_gnns)
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
        self._reduction = _check_reduction(reduction)
        dense, width = tf.keras.layers.Dense, self._width
        self._of_config = dense(width, use_bias=False)
        self._node_gate = dense(width)
        self._config_gate = dense(width, use_bias=False)
        self._node_layers = [
            (_LayerNorm(), self._make_messages()) for _ in range(node_gnns)
        ]
        self._pair_layers = [
            (_LayerNorm(), self._make_messages()) for _ in range(num_gnns)
        ]
        layers = [dense(width, self._activation) for _ in range(2)]
        self._head = tf.keras.Sequential([*layers, dense(1)])

    def _make_messages(self) -> tf.keras.layers.Layer:
        """Makes a layer that is called with (x, kernels) and returns messages."""
        raise NotImplementedError

    @tf.autograph.experimental.do_not_convert
    def forward(
        self, graph: tfgnn.GraphTensor, num_configs: _Size, training: bool = False
    ):
        kernels = _KernelBatch(graph, num_configs)
        pairs = kernels.paired()
        x = self._input(tf.concat(self._node_inputs(graph, kernels), -1))
        x = self._encode(self._node_layers, x, kernels, training)
        x = self._join(pairs, x)  # [n * c, h]
        x = self._encode(self._pair_layers, x, pairs, training)
        return kernels.scores(self._head(pairs.pool(x, self._reduction)))

    def _join(self, pairs: _KernelBatch, nodes: tf.Tensor) -> tf.Tensor:
        """Joins every node, [n, h], with every configuration: [n * c, h]."""
        configs = _log_features(pairs.configs, self._log_scales)
        of_config = pairs.on_nodes(self._of_config(configs))  # [n * c, h]
        x = pairs.each_config(of_config) + tf.expand_dims(nodes, 1)  # [n, c, h]
        gates = tf.expand_dims(self._node_gate(nodes), 1)  # [n, 1, h]
        x += pairs.each_config(pairs.on_nodes(self._config_gate(configs))) * gates
        return tf.reshape(self._activation(x), [-1, self._width])

    def _node_inputs(
        self, graph: tfgnn.GraphTensor, kernels: _KernelBatch
    ) -> List[tf.Tensor]:
        """Gathers the features of nodes, also as logarithms, and embedded opcodes."""
        ops = graph.node_sets['op']
        return [
            _log_features(kernels.ops, self._log_scales),
            self._op_embedding(tf.cast(ops['op'], tf.int32)),
        ]

    def _encode(
        self,
        layers: Sequence[_Layer],
        x: tf.Tensor,
        kernels: _KernelBatch,
        training: bool,
    ):
        """Applies residual layers of messages to x, [n * columns, h]."""
        for norm, messages in layers:
            y = self._activation(messages(norm(x), kernels))
            x += self._dropped(y, training)
        return x

    def _dropped(self, x: tf.Tensor, training: bool):
        """Drops values in a training step.

        The seed is taken from the values: a generator would have a state, which a
        resumed training had lost.
        """
        if not (training and self._dropout):
            return x
        # A seed is two integers: the bits of the sum, and 0.
        seed = tf.stack([tf.bitcast(tf.reduce_sum(x), tf.int32), 0])
        return tf.nn.experimental.stateless_dropout(x, self._dropout, seed)


class ChebSAGE(_NodesFirst):
    """Chebyshev spectral filters (Defferrard et al., NIPS 2016) next to GraphSAGE.

    Args:
        num_configs: configurations per kernel in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        order: the filters' order K.
        num_gnns: message-passing layers after the configuration has joined;
            they cost most.
        node_gnns: message-passing layers before.
        hidden_dim: width of all hidden layers.
        op_embed_dim: width of the opcode embedding.
        hidden_activation: a Keras activation.
        log_scales: features are also shown as log(1 + x / scale), scaled, for
            each of these; none shows them as they come.
        dropout: share of the messages that a training step leaves out.
        reduction: 'sum' or 'mean' over the nodes of a kernel.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(self, num_configs: int, num_ops: int, order: int = 2, **options: Any):
        _at_least(1, order=order)
        self._order = order
        super().__init__(num_configs, num_ops, **options)

    def _make_messages(self):
        return _Chebyshev(self._width, self._order)


class AttentionSAGE(_NodesFirst):
    """Attention over a node's neighbours (Velickovic et al., ICLR 2018), residual.

    Args:
        heads: attention heads; they share `hidden_dim`.
        The others are those of `ChebSAGE`, without `order`.

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

    def _make_messages(self):
        return _Attention(self._width, self._heads)
