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

The architectures are those of the TpuGraphs paper (arXiv 2308.13490), and
their variables stand in the published order, so that weights can be exchanged
by position.  What differs is the order of evaluation: a product with a
concatenation is split into the sum of products with its parts, so that what
does not depend on the configuration is computed once per node, and what does
not depend on the node once per configuration.

This file imports nothing but TensorFlow, TF-GNN and its sibling `implicit`: it
works unchanged inside the published code.
"""

from typing import List, Sequence

import tensorflow as tf
import tensorflow_gnn as tfgnn

from . import implicit

_L2 = 1e-4


def _mlp(
    dims: Sequence[int],
    hidden_activation: str,
    l2reg: float = _L2,
    use_bias: bool = True,
) -> tf.keras.Sequential:
    """Dense layers of widths `dims`, with the activation between them."""
    layers = []
    for i, dim in enumerate(dims):
        if i > 0:
            layers.append(tf.keras.layers.Activation(hidden_activation))
        layers.append(_dense(dim, l2reg, use_bias))
    return tf.keras.Sequential(layers)


def _dense(dim: int, l2reg: float = _L2, use_bias: bool = True):
    regularizer = tf.keras.regularizers.l2(l2reg)
    return tf.keras.layers.Dense(
        dim, kernel_regularizer=regularizer, use_bias=use_bias
    )


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


def _split_first(mlp: tf.keras.Sequential, widths: Sequence[int]):
    """Returns the first layer of `mlp`, its split kernel, and the rest."""
    if not mlp.built:
        mlp.build(tf.TensorShape([None, sum(widths)]))
    first, *rest = mlp.layers
    return first, _split_kernel(first, widths), rest


def _width(x: tf.Tensor) -> int:
    return x.shape[-1]


class _Kernels:
    """What the models read from a GraphTensor, in the shapes they use.

    n nodes in all kernels of the batch, b kernels, c configurations each.
    """

    def __init__(self, graph: tfgnn.GraphTensor, num_configs):
        sizes = graph.node_sets['g'].sizes
        self.batch = sizes.shape[0]
        self.num_configs = num_configs
        self.ops = graph.node_sets['op']['feats']  # [n, f]
        self.configs = graph.node_sets['config']['feats']  # [b * c, k]
        # Membership of nodes in kernels: one-hot rows, float32 [n, b].
        kernel_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        self.member = tf.one_hot(kernel_of_node, self.batch)

    def wide(self, x: tf.Tensor) -> tf.Tensor:
        """[.. * c, h] -> [.., c * h]: one row per node (or kernel)."""
        return tf.reshape(x, [-1, self.num_configs * _width(x)])

    @staticmethod
    def tall(x: tf.Tensor, width: int) -> tf.Tensor:
        """[.., c * h] -> [.. * c, h]: one row per configuration of it."""
        return tf.reshape(x, [-1, width])

    def on_nodes(self, of_kernel: tf.Tensor) -> tf.Tensor:
        """Gives every node its kernel's row: [b, d] -> [n, d]."""
        return tf.matmul(self.member, of_kernel)

    def add_node_term(self, x: tf.Tensor, of_node: tf.Tensor) -> tf.Tensor:
        """Adds [n, h] to every configuration of [n, c * h]; [n * c, h]."""
        width = _width(of_node)
        x = tf.reshape(x, [-1, self.num_configs, width])
        return tf.reshape(x + tf.expand_dims(of_node, 1), [-1, width])

    def pool(self, x: tf.Tensor, reduction: str = 'sum') -> tf.Tensor:
        """Sums or averages the nodes of each kernel: [n, d] -> [b, d]."""
        pooled = tf.matmul(self.member, x, transpose_a=True)
        if reduction == 'sum':
            return pooled
        sizes = tf.reduce_sum(self.member, axis=0)
        return pooled / tf.expand_dims(sizes, 1)

    def scores(self, x: tf.Tensor) -> tf.Tensor:
        """[b * c, 1] -> [b, c]."""
        return tf.reshape(x, [self.batch, self.num_configs])


def _late_head(
    head: tf.keras.Sequential, kernels: _Kernels, pooled: tf.Tensor
) -> tf.Tensor:
    """`head` of [pooled, configuration features] for every configuration."""
    widths = [_width(pooled), _width(kernels.configs)]
    first, (w_pooled, w_configs), rest = _split_first(head, widths)
    of_config = kernels.wide(tf.matmul(kernels.configs, w_configs))
    of_kernel = tf.nn.bias_add(tf.matmul(pooled, w_pooled), first.bias)
    x = kernels.add_node_term(of_config, of_kernel)
    for layer in rest:
        x = layer(x)
    return kernels.scores(x)


def _check_reduction(reduction: str) -> str:
    if reduction not in ('sum', 'mean'):
        raise ValueError(f"reduction is 'sum' or 'mean', not {reduction!r}")
    return reduction


class MLP(tf.keras.Model):
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
        super().__init__()
        self._num_configs = num_configs
        self._reduction = _check_reduction(reduction)
        self._op_embedding = _OpEmbedding(num_ops, op_embed_dim)
        self._head = _mlp([hidden_dim] * mlp_layers + [1], hidden_activation)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training)

    def forward(self, graph, num_configs, training: bool = False):
        graph = self._op_embedding(graph)
        kernels = _Kernels(graph, num_configs)
        nodes = tf.concat([kernels.ops, graph.node_sets['op']['op_e']], -1)
        pooled = kernels.pool(nodes, self._reduction)
        return _late_head(self._head, kernels, pooled)


class _SAGE(tf.keras.Model):
    """GraphSAGE (arXiv 1706.02216) with messages in both directions.

    Each layer:  x = l2_normalize(activation([S x, x] W + b)),  S = A + A'
    """

    joins_early: bool

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
        super().__init__()
        if num_gnns < 1:
            raise ValueError(f'num_gnns is at least 1, not {num_gnns}')
        self._num_configs = num_configs
        self._op_embedding = _OpEmbedding(num_ops, op_embed_dim)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._gnn_layers = [_dense(hidden_dim) for _ in range(num_gnns)]
        self._head = _mlp(
            [hidden_dim] * final_mlp_layers + [1], hidden_activation
        )

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training)

    def forward(self, graph, num_configs, training: bool = False):
        graph = self._op_embedding(graph)
        kernels = _Kernels(graph, num_configs)
        adjacency = implicit.AdjacencyMultiplier(graph, 'feed')
        both_ways = adjacency + adjacency.transpose()
        nodes = [graph.node_sets['op']['op_e'], kernels.ops]
        if self.joins_early:
            x = self._first_layer_early(kernels, both_ways, nodes, training)
        else:
            x = self._layer(
                self._gnn_layers[0], both_ways, tf.concat(nodes, -1), 1, training
            )
        columns = num_configs if self.joins_early else 1
        for dense in self._gnn_layers[1:]:
            x = self._layer(dense, both_ways, x, columns, training)
        width = _width(x)
        if self.joins_early:
            pooled = kernels.pool(kernels.wide(x))
            return kernels.scores(self._head(kernels.tall(pooled, width)))
        return _late_head(self._head, kernels, kernels.pool(x))

    def _layer(self, dense, both_ways, x, columns, training):
        """One layer on x: [n * columns, h]."""
        width = _width(x)
        y = both_ways @ tf.reshape(x, [-1, columns * width])
        y = tf.reshape(y, [-1, width])
        w_neighbours, w_self = _split_kernel(dense, [width, width])
        z = tf.nn.bias_add(tf.matmul(x, w_self), dense.bias)
        return self._squash(tf.matmul(y, w_neighbours) + z, training)

    def _first_layer_early(self, kernels, both_ways, nodes, training):
        """The first layer on [embedding, configuration, features].

        All neighbours of a node have its kernel's configuration q, so for the
        columns of q the sum over neighbours is degree * q.
        """
        embedding, features = nodes
        w = [_width(embedding), _width(kernels.configs), _width(features)]
        dense = self._gnn_layers[0]
        y_e, y_q, y_f, x_e, x_q, x_f = _split_kernel(dense, w + w)
        x = tf.concat([embedding, features], -1)
        w_neighbours = tf.concat([y_e, y_f], 0)
        w_self = tf.concat([x_e, x_f], 0)
        of_node = tf.matmul(both_ways @ x, w_neighbours) + tf.nn.bias_add(
            tf.matmul(x, w_self), dense.bias
        )
        degree = both_ways @ tf.ones_like(features[:, :1])
        # [n, 2b] @ [2b, c h] = degree * (q y_q) + q x_q on every node.
        spread = tf.concat([degree * kernels.member, kernels.member], -1)
        of_config = tf.concat(
            [
                kernels.wide(tf.matmul(kernels.configs, y_q)),
                kernels.wide(tf.matmul(kernels.configs, x_q)),
            ],
            0,
        )
        z = kernels.add_node_term(tf.matmul(spread, of_config), of_node)
        return self._squash(z, training)

    def _squash(self, z, training):
        z = self._activation(z)
        if training:
            return tf.nn.l2_normalize(z, axis=-1)
        # The same in fewer passes over memory; its gradient at 0 is not finite.
        norm = tf.math.reduce_euclidean_norm(z, axis=-1, keepdims=True)
        return z / tf.maximum(norm, 1e-6)


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


class _ResGCN(tf.keras.Model):
    """Residual GCN on M = D^-1 (A + I), D its row sums, after an input MLP.

    Each layer, with y = activation(x) and MLPs f, g, h:
        undirected:  x = x + f(M y + M' y + y)
        directed:    x = x + f(M y) + g(M' y) + h(y)
    """

    joins_early: bool

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
        super().__init__()
        self._num_configs = num_configs
        self._directed = directed
        self._reduction = _check_reduction(reduction)
        self._op_embedding = _OpEmbedding(num_ops, op_embed_dim)
        self._activation = tf.keras.activations.get(hidden_activation)
        dims = [hidden_dim] * mlp_layers
        # Before the input MLP: the published order of variables.
        self._gnn_layers = [
            [_mlp(dims, hidden_activation) for _ in range(3 if directed else 1)]
            for _ in range(num_gnns)
        ]
        self._input_mlp = _mlp([hidden_dim] * 2, hidden_activation)
        self._head = _mlp([hidden_dim, 1], hidden_activation)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training)

    def forward(self, graph, num_configs, training: bool = False):
        graph = self._op_embedding(graph)
        kernels = _Kernels(graph, num_configs)
        embedding = graph.node_sets['op']['op_e']
        if self.joins_early:
            x = self._input_early(kernels, embedding)
        else:
            x = self._input_mlp(tf.concat([embedding, kernels.ops], -1))
        columns = num_configs if self.joins_early else 1
        multipliers = self._multipliers(graph, kernels)
        for mlps in self._gnn_layers:
            y = self._activation(x)
            wide = tf.reshape(y, [-1, columns * _width(y)])
            for mlp, multiplier in zip(mlps, multipliers):
                z = wide if multiplier is None else multiplier @ wide
                x = x + mlp(tf.reshape(z, [-1, _width(y)]))
        x = self._activation(x)
        width = _width(x)
        if self.joins_early:
            pooled = kernels.pool(kernels.wide(x), self._reduction)
            return kernels.scores(self._head(kernels.tall(pooled, width)))
        pooled = kernels.pool(x, self._reduction)
        return _late_head(self._head, kernels, pooled)

    def _multipliers(self, graph, kernels):
        """One multiplier for each MLP of a layer; None is the identity."""
        adjacency = implicit.AdjacencyMultiplier(graph, 'feed').add_eye()
        row_sums = adjacency @ tf.ones_like(kernels.ops[:, :1])
        scale = implicit.DiagMatrix(1.0 / row_sums[:, 0])
        m = implicit.Product(scale, adjacency)
        if self._directed:
            return [m, m.transpose(), None]
        return [(m + m.transpose()).add_eye()]

    def _input_early(self, kernels, embedding):
        """The input MLP on [embedding, configuration, features]."""
        parts = [embedding, kernels.configs, kernels.ops]
        widths = [_width(part) for part in parts]
        first, (w_e, w_q, w_f), rest = _split_first(self._input_mlp, widths)
        of_node = tf.nn.bias_add(
            tf.matmul(embedding, w_e) + tf.matmul(kernels.ops, w_f), first.bias
        )
        of_config = kernels.wide(tf.matmul(kernels.configs, w_q))
        x = kernels.add_node_term(kernels.on_nodes(of_config), of_node)
        for layer in rest:
            x = layer(x)
        return x


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
