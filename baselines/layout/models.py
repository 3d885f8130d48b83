"""The published layout model: every public `tf.keras.Model` class here is a `--model`.

A model sees programs as a GraphTensor (node sets `op`, `nconfig`, `g`; edge
sets `config`, `feed` and their `sampled_` parts, which lie in one segment of
the program) and gives every configuration a score; lower means predicted
faster.  Contract of each class:

    Model(num_configs, num_ops, **kwargs)
    call(graph, training=False)                   -> float32 [batch, num_configs]
    forward(graph, num_configs, dropout=None, backprop=None)   -> the same
    scores_depend_on_list   True where a configuration's score depends on which
                            others are in the list; False if it is not there
    scaling                 an option of a model that has to know raw features:
                            training gives it what scales them

What is computed follows two exact rewrites.  A product with a concatenation is
the sum of products with its parts.  And after l layers of message passing only
nodes within l hops of a configurable node can depend on the configuration:
with nodes sorted by hops these are the first a_l, and everything about the
others is computed once, whatever the number of configurations.

The other models are in `baselines/layout/zoo`, and use the rest of the package.  This
file imports nothing but TensorFlow and TF-GNN: it works unchanged inside the published
code, and one that was written for that code may take its place.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import tensorflow as tf
import tensorflow_gnn as tfgnn

_MODES = ('fullgraph', 'dropout', 'backpropdropout')

# The published code scales configuration features by this.
_CONFIG_SCALE = 100.0
_L2 = 1e-4
_Size = Union[int, tf.Tensor]


class Matrix(NamedTuple):
    """A sparse matrix as coordinates."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]


class Prepared(NamedTuple):
    """Programs with nodes sorted by hops, and values that no configuration changes.

    Attributes:
        configs: float32 [k, c, q], features of the configurable nodes.
        matrices: what messages are multiplied with.
        affected: per layer a_l, how many nodes are within l hops of a
            configurable one; a_0 is k.
        member: float32 [n, b], what a node counts in a program's sums.
        bases: per layer float32 [n, h], what configurations add to before its
            first activation; layer 0 is the input MLP.
        pooled: float32 [b, h], the sum over nodes of what does not vary.
    """

    configs: tf.Tensor
    matrices: List[Matrix]
    affected: List[tf.Tensor]
    member: tf.Tensor
    bases: List[tf.Tensor]
    pooled: tf.Tensor


def _make_mlp(dims: Sequence[int], activation: str, use_bias: bool = True):
    """Makes dense layers of widths `dims` with an L2 penalty, activations between."""
    layers: List[tf.keras.layers.Layer] = []
    for dim in dims:
        if layers:
            layers.append(tf.keras.layers.Activation(activation))
        penalty = tf.keras.regularizers.l2(_L2)
        layers.append(
            tf.keras.layers.Dense(dim, kernel_regularizer=penalty, use_bias=use_bias)
        )
    return tf.keras.Sequential(layers)


class ResModel(tf.keras.Model):
    """Residual message passing with the configuration in every layer.

    With c the configuration features of a node (0 where it has none):

        x = activation(MLP([c, node features, opcode embedding]))
        x = x + activation(MLP(S [c, x]))                 num_gnns times
        score = MLP([mean(x), unit(sum(x)), unit(sum(x, configurable nodes))])

    S is the adjacency matrix in both directions with self loops, normalised
    symmetrically ('sym'); or ('asym') both directions are averaged separately
    and concatenated.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        op_embed_dim: width of the opcode embedding.
        num_gnns: number of message-passing layers.
        mlp_layers: number of dense layers of the input MLP and of each layer's.
        hidden_activation: a Keras activation.
        hidden_dim: width of all hidden layers.
        adj_normalization: 'sym' or 'asym'.
        dropout: how a segment of the program is used where one is selected:
            'dropout': only edges and configurable nodes inside it exist;
            'backpropdropout': so inside it, and outside the full program is
            used, but passes no gradient; 'fullgraph': not at all.

    Raises:
        ValueError: an option is not one of those.
    """

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        op_embed_dim: int = 32,
        num_gnns: int = 2,
        mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        hidden_dim: int = 32,
        adj_normalization: str = 'sym',
        dropout: str = 'backpropdropout',
    ):
        super().__init__()
        _check('adj_normalization', adj_normalization, ('sym', 'asym'))
        _check('dropout', dropout, _MODES)
        for option, value, least in (
            ('num_gnns', num_gnns, 0),
            ('mlp_layers', mlp_layers, 1),
            ('hidden_dim', hidden_dim, 1),
            ('op_embed_dim', op_embed_dim, 1),
        ):
            if value < least:
                raise ValueError(f'{option} is at least {least}, not {value}')
        self._num_configs = num_configs
        self._directions = 2 if adj_normalization == 'asym' else 1
        self._mode = dropout
        self._width = hidden_dim
        self._activation = tf.keras.activations.get(hidden_activation)
        dims = [hidden_dim] * mlp_layers
        # The embeddings, not their table, carry the penalty, divided by n.
        self._op_embedding = tf.keras.layers.Embedding(
            num_ops, op_embed_dim, activity_regularizer=tf.keras.regularizers.l2(_L2)
        )
        self._input_mlp = _make_mlp(dims, hidden_activation)
        self._gnn_layers = [_make_mlp(dims, hidden_activation) for _ in range(num_gnns)]
        self._head = _make_mlp([hidden_dim, 1], hidden_activation, use_bias=False)

    @property
    def num_gnns(self) -> int:
        """Number of message-passing layers."""
        return len(self._gnn_layers)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: _Size,
        dropout: Optional[str] = None,
        backprop: Any = None,
    ) -> tf.Tensor:
        """Scores configurations: float32 [b, c].

        Args:
            graph: b programs, as `baselines.layout.graphs` makes them.
            num_configs: configurations of each program in `graph`, c.
            dropout: use this mode instead of the constructor's.
            backprop: ignored; older callers pass it.
        """
        del backprop
        mode = self._mode if dropout is None else dropout
        _check('dropout', mode, _MODES)
        batch = graph.node_sets['g'].sizes.shape[0]
        program_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        member = tf.one_hot(program_of_node, batch)  # [n, b]
        nodes = self.node_inputs(graph)
        if mode == 'backpropdropout':
            selected = graph.node_sets['op']['selected']
            inside = tf.cast(selected, tf.float32)[:, tf.newaxis]
            # Without a segment there is nothing outside, nor anything to do.
            outside = tf.cond(
                tf.reduce_all(selected),
                lambda: tf.zeros([batch * num_configs, self._width]),
                lambda: self._encode(
                    graph, nodes, num_configs, '', member * (1.0 - inside)
                )[0],
            )
            # One after the other: of both at once memory would be the sum.
            with tf.control_dependencies([outside]):
                total, configurable = self._encode(
                    graph, nodes, num_configs, 'sampled_', member * inside
                )
            total += tf.stop_gradient(outside)
        else:
            prefix = 'sampled_' if mode == 'dropout' else ''
            total, configurable = self._encode(
                graph, nodes, num_configs, prefix, member
            )
        sizes = tf.repeat(tf.reduce_sum(member, 0), num_configs)  # [b * c]
        scores = self.read_out(total, configurable, sizes[:, tf.newaxis])
        return tf.reshape(scores, [batch, num_configs])

    def node_inputs(self, graph: tfgnn.GraphTensor) -> tf.Tensor:
        """Joins node features and embedded opcodes: [n, f + e]; builds all weights."""
        ops = graph.node_sets['op']
        embedded = self._op_embedding(tf.cast(ops['op'], tf.int32))
        nodes = tf.concat([ops['feats'], embedded], -1)
        config_width = graph.node_sets['nconfig']['feats'].shape[-1]
        # [c, x] of every direction, concatenated.
        inner = self._directions * (config_width + self._width)
        widths = [config_width + nodes.shape[-1]] + [inner] * self.num_gnns
        mlps = [self._input_mlp, *self._gnn_layers, self._head]
        # The head reads three sums; see `read_out`.
        for mlp, width in zip(mlps, widths + [3 * self._width]):
            if not mlp.built:
                mlp.build(tf.TensorShape([None, width]))
        return nodes

    @tf.autograph.experimental.do_not_convert
    def prepare(
        self, graph: tfgnn.GraphTensor, nodes: tf.Tensor, prefix: str, member: tf.Tensor
    ) -> Prepared:
        """Sorts nodes by hops, and computes values that no configuration changes.

        Args:
            nodes: of `node_inputs`.
            prefix: '' for whole programs, 'sampled_' for their segments.
            member: float32 [n, b], what a node counts in a program's sums.
        """
        n = tf.shape(nodes)[0]
        config = graph.edge_sets[prefix + 'config'].adjacency
        configurable = tf.cast(config[tfgnn.TARGET], tf.int32)
        # [k, c, q]: one row per configurable node, and column per configuration.
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        matrices = self._matrices(graph.edge_sets[prefix + 'feed'].adjacency, n)
        # In the order of hops, the nodes that a layer can change come first.
        order, affected = _sort_by_hops(configurable, matrices, n, self.num_gnns)
        position = tf.math.invert_permutation(order)  # node -> its place in `order`
        matrices = [
            Matrix(tf.gather(position, m.rows), tf.gather(position, m.cols), m.values)
            for m in matrices
        ]
        nodes, member = tf.gather(nodes, order), tf.gather(member, order)
        configs_width = configs.shape[-1]
        [(_, w)] = self._kernels(0, configs_width)
        # `bases`, [n, h] for each layer, are sums before the activation, without the
        # share of configurations; x, [n, h], is final for nodes that do not vary and
        # 0 for the others, whose part `variable_sums` adds.
        bases = [tf.nn.bias_add(tf.matmul(nodes, w), self._first(0).bias)]
        x = self._beyond(affected[0], 0, bases[0])
        for layer in range(1, self.num_gnns + 1):
            kernels = self._kernels(layer, configs_width)
            y = tf.add_n(
                [
                    multiply(matrix, tf.matmul(x, w), n)
                    for matrix, (_, w) in zip(matrices, kernels)
                ]
            )
            bases.append(tf.nn.bias_add(y, self._first(layer).bias))
            x += self._beyond(affected[layer], layer, bases[layer])
        pooled = tf.matmul(member, x, transpose_a=True)
        return Prepared(configs, matrices, affected, member, bases, pooled)

    @tf.autograph.experimental.do_not_convert
    def variable_sums(
        self, bases: Sequence[tf.Tensor], configs: tf.Tensor, cells: 'AllPairs'
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Computes the values that depend on configurations, and sums them over nodes.

        Args:
            bases: of `Prepared`.
            configs: float32 [cells of layer 0, q], configuration features.
            cells: an `AllPairs`, or an object with its methods.

        Returns:
            float32 [b * c, h], the sum over the nodes that vary, and that over
            configurable nodes.
        """
        configs = configs * _CONFIG_SCALE
        [(w, _)] = self._kernels(0, configs.shape[-1])
        x = cells.add_base(0, tf.matmul(configs, w), bases[0])
        x = self._finish(0, x)
        for layer in range(1, self.num_gnns + 1):
            messages = [
                cells.add_configs(layer, tf.matmul(x, w_x), tf.matmul(configs, w_c))
                for w_c, w_x in self._kernels(layer, configs.shape[-1])
            ]
            y = cells.aggregate(layer, messages)
            y = self._finish(layer, cells.add_base(layer, y, bases[layer]))
            x = cells.add_previous(layer, y, x)
        return cells.pool(x)

    def read_out(
        self, total: tf.Tensor, configurable: tf.Tensor, sizes: tf.Tensor
    ) -> tf.Tensor:
        """Scores float32 [r, 1] from sums over nodes.

        Args:
            total: float32 [r, h], sums over all nodes of a program.
            configurable: float32 [r, h], sums over its configurable nodes.
            sizes: float32 [r, 1], its number of nodes.
        """
        pooled = [
            total / sizes,
            tf.nn.l2_normalize(total, -1),
            tf.nn.l2_normalize(configurable, -1),
        ]
        return self._head(tf.concat(pooled, -1))

    def _encode(
        self,
        graph: tfgnn.GraphTensor,
        nodes: tf.Tensor,
        num_configs: _Size,
        prefix: str,
        member: tf.Tensor,
    ):
        """Computes sums over all nodes and over configurable ones, [b * c, h]."""
        prepared = self.prepare(graph, nodes, prefix, member)
        configs = prepared.configs
        configs = tf.reshape(configs, [-1, configs.shape[-1]])
        cells = AllPairs(prepared, num_configs, self._width)
        total, configurable = self.variable_sums(prepared.bases, configs, cells)
        return total + tf.repeat(prepared.pooled, num_configs, 0), configurable

    def _matrices(self, feed: tfgnn.Adjacency, num_nodes: _Size) -> List[Matrix]:
        """Makes the matrices of message passing: [S], or one per direction."""
        v = tf.cast(feed[tfgnn.TARGET], tf.int32)
        u = tf.cast(feed[tfgnn.SOURCE], tf.int32)
        node = tf.range(num_nodes)
        if self._directions == 2:
            ends = [([v, node], [u, node]), ([u, node], [v, node])]
        else:
            ends = [([v, u, node], [u, v, node])]
        result = []
        for rows, cols in ends:
            rows, cols = tf.concat(rows, 0), tf.concat(cols, 0)
            ones = tf.ones(tf.shape(rows))
            # At least 1, as every node has a loop: [n].
            degree = tf.math.unsorted_segment_sum(ones, rows, num_nodes)
            if self._directions == 2:
                values = 1.0 / tf.gather(degree, rows)
            else:
                scale = tf.math.rsqrt(degree)
                values = tf.gather(scale, rows) * tf.gather(scale, cols)
            result.append(Matrix(rows, cols, values))
        return result

    def _mlp(self, layer: int) -> tf.keras.Sequential:
        """Returns the MLP of a layer; layer 0 is the input MLP."""
        return self._gnn_layers[layer - 1] if layer else self._input_mlp

    def _first(self, layer: int) -> tf.keras.layers.Dense:
        """Returns the first dense layer of a layer's MLP."""
        return self._mlp(layer).layers[0]

    def _kernels(
        self, layer: int, configs_width: int
    ) -> List[Tuple[tf.Tensor, tf.Tensor]]:
        """Splits a layer's first kernel: (rows for c, rows for x) for each matrix."""
        kernel = self._first(layer).kernel
        directions = self._directions if layer else 1
        width = kernel.shape[0] // directions - configs_width
        # Rows for c and for x alternate, a pair for each direction.
        parts = tf.split(kernel, [configs_width, width] * directions)
        return list(zip(parts[::2], parts[1::2]))

    def _finish(self, layer: int, x: tf.Tensor) -> tf.Tensor:
        """Applies the rest of a layer to x, its first product with the bias added."""
        for part in self._mlp(layer).layers[1:]:
            x = part(x)
        return self._activation(x)

    def _beyond(self, affected: tf.Tensor, layer: int, base: tf.Tensor) -> tf.Tensor:
        """Applies `_finish` to nodes that do not vary; zeros for those that do."""
        x = self._finish(layer, base[affected:])
        return tf.pad(x, [[affected, 0], [0, 0]])


class AllPairs:
    """All pairs of a node that varies and a configuration, in this order.

    These are the cells, or rows, of each layer of `ResModel.variable_sums`;
    other classes with these methods may leave out some that are equal.
    """

    def __init__(self, prepared: Prepared, num_configs: _Size, width: int):
        self._affected = prepared.affected
        self._member = prepared.member
        self._num_configs = num_configs
        self._width = width
        self._matrices = [
            [_first_columns(matrix, count) for matrix in prepared.matrices]
            for count in prepared.affected[:-1]
        ]

    def add_base(self, layer: int, y: tf.Tensor, base: tf.Tensor) -> tf.Tensor:
        """Adds to every cell of a layer its node's row of `base`, [n, h]."""
        y = tf.reshape(y, [-1, self._num_configs, self._width])
        y += tf.expand_dims(base[: self._affected[layer]], 1)
        return tf.reshape(y, [-1, self._width])

    def add_configs(self, layer: int, x: tf.Tensor, configs: tf.Tensor) -> tf.Tensor:
        """Adds the cells `configs` of layer 0 to the same cells x of `layer` - 1."""
        del layer
        return _add_to_first(x, configs)

    def add_previous(self, layer: int, y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """Adds the cells x of `layer` - 1 to the same cells y of `layer`."""
        del layer
        return _add_to_first(y, x)

    def aggregate(self, layer: int, messages: Sequence[tf.Tensor]) -> tf.Tensor:
        """Sums the messages to cells of `layer`; a tensor of messages per matrix."""
        y = tf.add_n(
            [
                multiply(matrix, self._wide(x), self._affected[layer])
                for matrix, x in zip(self._matrices[layer - 1], messages)
            ]
        )
        return self._tall(y, messages[0].shape[-1])

    def pool(self, x: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sums x over nodes, and over configurable nodes: [b * c, h] each."""
        width = x.shape[-1]
        x = self._wide(x)
        return tuple(
            self._tall(tf.matmul(self._member[:n], x[:n], transpose_a=True), width)
            for n in (self._affected[-1], self._affected[0])
        )

    def _wide(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to one row per node."""
        return tf.reshape(x, [-1, self._num_configs * x.shape[-1]])

    def _tall(self, x: tf.Tensor, width: int) -> tf.Tensor:
        """Reshapes to one row per pair."""
        return tf.reshape(x, [-1, width])


def multiply(matrix: Matrix, x: tf.Tensor, num_rows: _Size) -> tf.Tensor:
    """Multiplies a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )


def _sort_by_hops(
    start: tf.Tensor, matrices: Sequence[Matrix], num_nodes: _Size, most: int
):
    """Sorts nodes by their distance from those in `start`, which come first.

    Returns the order, int32 [n], and for 0, 1, .., `most` hops how many nodes
    are not farther away.
    """
    hops = tf.fill([num_nodes], most + 1)  # farther away, until found
    hops = tf.tensor_scatter_nd_update(hops, start[:, tf.newaxis], tf.zeros_like(start))
    rings = [start]
    for step in range(1, most + 1):
        for matrix in matrices:
            # Entries from a node that is at most step - 1 hops away.
            near = tf.gather(hops, matrix.cols) < step
            ends = tf.boolean_mask(matrix.rows, near)
            hops = tf.tensor_scatter_nd_min(
                hops, ends[:, tf.newaxis], tf.fill(tf.shape(ends), step)
            )
        rings.append(_where(tf.equal(hops, step)))
    within = tf.cumsum([tf.shape(ring)[0] for ring in rings])
    rings.append(_where(tf.equal(hops, most + 1)))
    return tf.concat(rings, 0), tf.unstack(within)


def _where(mask: tf.Tensor) -> tf.Tensor:
    """Returns the places where a mask is true: int32 [places]."""
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def _first_columns(matrix: Matrix, count: _Size) -> Matrix:
    """Returns a matrix with the entries of its first `count` columns alone."""
    kept = _where(matrix.cols < count)
    return Matrix(*[tf.gather(part, kept) for part in matrix])


def _add_to_first(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Adds y to the first rows of x."""
    size = tf.shape(y)[0]
    return tf.concat([x[:size] + y, x[size:]], 0)


def _check(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f'{option} is one of {", ".join(choices)}, not {value!r}')
