"""The layout models: every public `tf.keras.Model` class here is a `--model`.

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

This file imports nothing but TensorFlow, TF-GNN and two helpers of the tile
models: it works unchanged inside the published code.
"""

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf
import tensorflow_gnn as tfgnn

from ..tiles import models as tile_models

_MODES = ('fullgraph', 'dropout', 'backpropdropout')

# The published code scales configuration features by this.
_CONFIG_SCALE = 100.0


class Matrix(NamedTuple):
    """A sparse matrix as coordinates."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]


class Prepared(NamedTuple):
    """Programs with their nodes sorted by hops, and what does not vary.

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
        mlp = tile_models._mlp
        dims = [hidden_dim] * mlp_layers
        self._op_embedding = tile_models._OpEmbedding(num_ops, op_embed_dim)
        self._input_mlp = mlp(dims, hidden_activation)
        self._gnn_layers = [mlp(dims, hidden_activation) for _ in range(num_gnns)]
        self._head = mlp([hidden_dim, 1], hidden_activation, use_bias=False)

    @property
    def num_gnns(self) -> int:
        """Number of message-passing layers."""
        return len(self._gnn_layers)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs)

    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: int,
        dropout: Optional[str] = None,
        backprop: Any = None,
    ) -> tf.Tensor:
        """Scores configurations.

        Args:
            graph: b programs, as `baselines.layout.graphs` makes them.
            num_configs: configurations of each program in `graph`, c.
            dropout: use this mode instead of the constructor's.
            backprop: ignored; older callers pass it.

        Returns:
            float32 [b, c].
        """
        del backprop
        mode = self._mode if dropout is None else dropout
        _check('dropout', mode, _MODES)
        batch = graph.node_sets['g'].sizes.shape[0]
        program_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        member = tf.one_hot(program_of_node, batch)
        args = [graph, self.node_inputs(graph), num_configs]
        if mode == 'backpropdropout':
            selected = graph.node_sets['op']['selected']
            inside = tf.cast(selected, tf.float32)[:, tf.newaxis]
            total, configurable = self._encode(*args, 'sampled_', member * inside)
            # Without a segment there is nothing outside, nor anything to do.
            outside = tf.cond(
                tf.reduce_all(selected),
                lambda: tf.zeros_like(total),
                lambda: self._encode(*args, '', member * (1.0 - inside))[0],
            )
            total += tf.stop_gradient(outside)
        else:
            prefix = 'sampled_' if mode == 'dropout' else ''
            total, configurable = self._encode(*args, prefix, member)
        sizes = tf.repeat(tf.reduce_sum(member, 0), num_configs)
        scores = self.read_out(total, configurable, sizes[:, tf.newaxis])
        return tf.reshape(scores, [batch, num_configs])

    def node_inputs(self, graph: tfgnn.GraphTensor) -> tf.Tensor:
        """Returns [node features, embedding], [n, f + e]; makes all weights."""
        ops = self._op_embedding(graph).node_sets['op']
        nodes = tf.concat([ops['feats'], ops['op_e']], -1)
        config_width = graph.node_sets['nconfig']['feats'].shape[-1]
        inner = self._directions * (config_width + self._width)
        widths = [config_width + nodes.shape[-1]] + [inner] * self.num_gnns
        mlps = [self._input_mlp, *self._gnn_layers, self._head]
        for mlp, width in zip(mlps, widths + [3 * self._width]):
            if not mlp.built:
                mlp.build(tf.TensorShape([None, width]))
        return nodes

    def prepare(
        self, graph: tfgnn.GraphTensor, nodes: tf.Tensor, prefix: str, member
    ) -> Prepared:
        """Sorts nodes by hops and computes what does not vary.

        Args:
            graph: the programs.
            nodes: of `node_inputs`.
            prefix: '' for whole programs, 'sampled_' for their segments.
            member: float32 [n, b], what a node counts in a program's sums.
        """
        n = tf.shape(nodes)[0]
        config = graph.edge_sets[prefix + 'config'].adjacency
        configurable = tf.cast(config[tfgnn.TARGET], tf.int32)
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        matrices = self._matrices(graph.edge_sets[prefix + 'feed'].adjacency, n)
        order, affected = _sort_by_hops(configurable, matrices, n, self.num_gnns)
        position = tf.math.invert_permutation(order)
        matrices = [
            Matrix(tf.gather(position, m.rows), tf.gather(position, m.cols), m.values)
            for m in matrices
        ]
        nodes, member = tf.gather(nodes, order), tf.gather(member, order)
        configs_width = configs.shape[-1]
        [(_, w)] = self._kernels(0, configs_width)
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

    def variable_sums(
        self, bases: Sequence[tf.Tensor], configs: tf.Tensor, cells: 'AllPairs'
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Computes what depends on the configuration, summed over nodes.

        Args:
            bases: of `Prepared`.
            configs: float32 [cells of layer 0, q], configuration features.
            cells: what is computed: an `AllPairs`, or what has its methods.

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

    def _encode(self, graph, nodes, num_configs, prefix, member):
        """Sums [b * c, h] over all nodes and over the configurable ones."""
        prepared = self.prepare(graph, nodes, prefix, member)
        configs = prepared.configs
        configs = tf.reshape(configs, [-1, configs.shape[-1]])
        cells = AllPairs(prepared, num_configs, self._width)
        total, configurable = self.variable_sums(prepared.bases, configs, cells)
        return total + tf.repeat(prepared.pooled, num_configs, 0), configurable

    def _matrices(self, feed, num_nodes) -> List[Matrix]:
        """What messages are multiplied with: [S], or both directions apart."""
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
            degree = tf.math.unsorted_segment_sum(ones, rows, num_nodes)
            if self._directions == 2:
                values = 1.0 / tf.gather(degree, rows)
            else:
                scale = tf.math.rsqrt(degree)
                values = tf.gather(scale, rows) * tf.gather(scale, cols)
            result.append(Matrix(rows, cols, values))
        return result

    def _mlp(self, layer: int) -> tf.keras.Sequential:
        return self._gnn_layers[layer - 1] if layer else self._input_mlp

    def _first(self, layer: int) -> tf.keras.layers.Dense:
        return self._mlp(layer).layers[0]

    def _kernels(self, layer, configs_width) -> List[Tuple[tf.Tensor, tf.Tensor]]:
        """The first kernel's rows for [c, x], for each of the matrices."""
        kernel = self._first(layer).kernel
        directions = self._directions if layer else 1
        width = kernel.shape[0] // directions - configs_width
        parts = tf.split(kernel, [configs_width, width] * directions)
        return list(zip(parts[::2], parts[1::2]))

    def _finish(self, layer: int, x: tf.Tensor) -> tf.Tensor:
        """All of a layer behind its first product and bias."""
        for part in self._mlp(layer).layers[1:]:
            x = part(x)
        return self._activation(x)

    def _beyond(self, affected, layer: int, base: tf.Tensor) -> tf.Tensor:
        """`_finish` for nodes that do not vary; zeros for those that do."""
        x = self._finish(layer, base[affected:])
        return tf.pad(x, [[affected, 0], [0, 0]])


# Columns of the published node features, and opcodes.
_TYPE, _DIMS, _DIMENSIONS = range(2, 21), range(21, 27), range(31, 37)
_ROLES = (105, 106, 93, 94, 99, 100)  # batch and features of 3 tensors
_WINDOW = 44  # positions of a window
_NODE_COLUMNS = (*_TYPE, *_DIMS, *_DIMENSIONS, *_ROLES, _WINDOW)
_CONFIG_COLUMNS = (0, 1, 6, 7, 12, 13)  # the two fastest dimensions of each
_TYPE_BYTES = (1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 0, 0, 0)
_CONVOLUTION, _REDUCE, _TRANSPOSE = 26, 70, 98
_MADE_ANYHOW = (13, 24, 48, 77)  # broadcast, constant, iota, rng
_GIVEN = (45, 63)  # get-tuple-element, parameter
_ROW_MAJOR = (*_GIVEN, 42, 82, 100, 102)  # gather, scatter, tuple, while
_RANK = 6
_REGISTER = (128.0, 8.0)  # what the two fastest dimensions are padded to

# What a node's array has the layout of, if not of a configurable node.
_FIXED, _ANY, _UNKNOWN = -1, -2, -3


class _Arrays(NamedTuple):
    """What is known about the arrays of n nodes."""

    op: tf.Tensor  # int32 [n]
    dims: tf.Tensor  # float32 [n, 6], 0 where there is none
    rank: tf.Tensor  # int32 [n]
    elements: tf.Tensor  # float32 [n]
    bytes: tf.Tensor  # float32 [n]
    dimensions: tf.Tensor  # int32 [n, 6]: of a transpose or reduction
    roles: tf.Tensor  # float32 [n, 6], `_ROLES`
    window: tf.Tensor  # float32 [n, 1], its positions


class _Origin(NamedTuple):
    """Where the layouts of arrays come from.

    Attributes:
        node: int32 [n], a configurable node or _FIXED, _ANY, _UNKNOWN.
        dims: int32 [n, 6], for each dimension which one it is there.
    """

    node: tf.Tensor
    dims: tf.Tensor

    def of(self, nodes: tf.Tensor) -> '_Origin':
        """Those of some nodes."""
        return _Origin(*[tf.gather(part, nodes) for part in self])


class HybridSAGE(tf.keras.Model):
    """A learned correction to what layouts do to arrays and where copies are.

    A configurable instruction i costs what a few kinds of work cost, each an
    amount known beforehand (bytes of its output and operands; elements of the
    instructions that take over its output's layout; bytes copied where layouts
    meet) times a learned function of the layouts concerned:

        score = v . sum_i w_i * MLP(layouts of i, copies from its sources)
        w_i = amounts_i exp(M) * correction(i), relative to the program's

    Layouts spread from configurable instructions as in XLA, through everything
    of the same rank up to the next one; where two meet, one is copied.  So
    messages pass between configurable instructions, along paths of any length,
    and say in which layout an operand arrives.  Layouts enter as the sizes of
    the dimensions that they make the fastest two, their padding to registers
    of 128 x 8, and their place in the array.

    Features arrive scaled, so the model has to know the scaling; without it
    they are taken as they are.  Segments are ignored.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        scaling: `node_used`, `node_min`, `node_max` and the same for `config`:
            lists with an entry for each raw column; None: nothing is scaled.
        op_embed_dim: width of the opcode embedding.
        hidden_dim: width of all hidden layers.
        mlp_layers: number of dense layers of the MLP.
        hidden_activation: a Keras activation.
        work_kinds: how many kinds of work opcodes are told apart by in what
            takes over a layout.
        hops: longest path on which layouts spread.
        feature_dropout: share of hidden values that a training step leaves out.

    Raises:
        ValueError: an option is out of range.
    """

    # Layouts are compared once, with those of the operands' sources.
    num_gnns = 1

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        scaling: Optional[Mapping[str, Sequence[float]]] = None,
        op_embed_dim: int = 8,
        hidden_dim: int = 32,
        mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        work_kinds: int = 4,
        hops: int = 16,
        feature_dropout: float = 0.0,
    ):
        super().__init__()
        for option, value in (
            ('op_embed_dim', op_embed_dim),
            ('hidden_dim', hidden_dim),
            ('mlp_layers', mlp_layers),
            ('work_kinds', work_kinds),
            ('hops', hops),
        ):
            if value < 1:
                raise ValueError(f'{option} is at least 1, not {value}')
        if not 0 <= feature_dropout < 1:
            raise ValueError(
                f'feature_dropout is at least 0 and below 1, not {feature_dropout}'
            )
        self._dropout = tf.keras.layers.Dropout(feature_dropout)
        self._num_configs, self._width, self._hops = num_configs, hidden_dim, hops
        self._unscale_nodes = _Unscaled(scaling, 'node', _NODE_COLUMNS)
        self._unscale_configs = _Unscaled(scaling, 'config', _CONFIG_COLUMNS)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._op_embedding = tile_models._OpEmbedding(num_ops, op_embed_dim)
        dense = tf.keras.layers.Dense
        self._work, self._static = dense(work_kinds), dense(hidden_dim)
        self._correct, self._shift = dense(hidden_dim), dense(hidden_dim)
        self._join = dense(hidden_dim, use_bias=False)
        self._more = [dense(hidden_dim) for _ in range(mlp_layers - 1)]
        self._head = dense(1, use_bias=False)
        kinds = 6 + work_kinds
        # Each hidden unit starts with mostly one kind of work.
        mix = tf.one_hot(tf.range(hidden_dim) % kinds, kinds, axis=0)
        self._mix = self.add_weight(
            'mix', [kinds, hidden_dim], initializer=lambda *_, **__: 3 * mix - 3
        )

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training=training)

    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: int,
        dropout: Optional[str] = None,
        backprop: Any = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Scores configurations: float32 [b, num_configs]; see `ResModel`."""
        del dropout, backprop
        batch = graph.node_sets['g'].sizes.shape[0]
        program_of_node = graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE]
        member = tf.one_hot(program_of_node, batch)
        prepared = self.prepare(graph, self.node_inputs(graph), '', member)
        configs = prepared.configs
        sums = self.variable_sums(
            prepared.bases,
            tf.reshape(configs, [-1, configs.shape[-1]]),
            AllPairs(prepared, num_configs, self._width),
            training,
        )
        return tf.reshape(self.read_out(*sums, None), [batch, num_configs])

    def node_inputs(self, graph: tfgnn.GraphTensor) -> tf.Tensor:
        """Returns [opcode, unscaled columns, opcode embedding]."""
        ops = self._op_embedding(graph).node_sets['op']
        op = tf.cast(ops['op'], tf.float32)[:, tf.newaxis]
        raw = tf.round(self._unscale_nodes(ops['feats']))
        return tf.concat([op, raw, ops['op_e']], -1)

    def prepare(
        self, graph: tfgnn.GraphTensor, nodes: tf.Tensor, prefix: str, member
    ) -> Prepared:
        """As `ResModel.prepare`; all that varies is on configurable nodes."""
        n = tf.shape(nodes)[0]
        config = graph.edge_sets[prefix + 'config'].adjacency
        chosen = tf.cast(config[tfgnn.TARGET], tf.int32)
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        feed = graph.edge_sets[prefix + 'feed'].adjacency
        edges = tuple(
            tf.cast(feed[end], tf.int32) for end in (tfgnn.SOURCE, tfgnn.TARGET)
        )
        arrays = _arrays(nodes)
        embedding = nodes[:, 1 + len(_NODE_COLUMNS) :]
        origin = _spread(arrays, chosen, edges, self._hops)
        operands = _operands(arrays, edges)
        meeting, copied = _meetings(arrays, chosen, origin, edges)
        matrices = _direct(chosen, operands, origin) + [meeting]
        place = tf.tensor_scatter_nd_update(
            tf.fill([n], -1), chosen[:, tf.newaxis], tf.range(tf.size(chosen))
        )
        matrices = [
            Matrix(tf.gather(place, m.rows), tf.gather(place, m.cols), m.values)
            for m in matrices
        ]
        work = self._spread_work(arrays, embedding, chosen, origin)
        reduced, of_dim = _reductions(arrays, origin, edges)

        def on_chosen(x):
            return tf.gather(x, chosen)

        operand_bytes = [
            tf.gather(arrays.bytes, operand) * exists
            for operand, exists in (map(on_chosen, part) for part in operands)
        ]
        amounts = tf.stack(
            [
                on_chosen(arrays.bytes),
                *operand_bytes,
                *map(on_chosen, copied),
                4.0 * on_chosen(reduced),
            ],
            1,
        )
        amounts = tf.concat([amounts, 4.0 * work], 1)
        tensors, sources, kinds = self._tensors(arrays, origin, operands, chosen)
        static = tf.concat(
            [
                tf.math.log1p(amounts) / 10.0,
                amounts / tf.reduce_sum(amounts, 1, keepdims=True),
                kinds,
                on_chosen(tf.cast(arrays.rank, tf.float32))[:, tf.newaxis] / _RANK,
                _role_sizes(tensors),
                tf.math.log1p(on_chosen(arrays.window)) / 4.0,
                on_chosen(embedding),
            ],
            1,
        )
        member = on_chosen(member)
        static_x = self._activation(self._static(static))
        weight = tf.matmul(amounts, tf.exp(self._mix))
        weight *= tf.exp(2.0 * tf.tanh(self._correct(static_x)))
        total = tf.reduce_mean(
            tf.matmul(member, weight**2, transpose_a=True), 1, keepdims=True
        )
        weight *= tf.matmul(member, tf.math.rsqrt(total + 1e-9))
        meets = tf.cast(on_chosen(copied[0]) > 0, tf.float32)[:, tf.newaxis]
        affected = [tf.size(chosen)] * (1 + self.num_gnns)
        prepared = Prepared(
            configs,
            self._connect(matrices),
            affected,
            member,
            [],
            tf.zeros([member.shape[-1], self._width]),
        )
        static_x = self._encode_nodes(static_x, prepared)
        bases = [
            tf.concat([tensors, sources, on_chosen(of_dim)], 1),
            tf.concat(
                [self._degrees(prepared), kinds, meets, self._shift(static_x)], 1
            ),
            *self._later_bases(prepared),
        ]
        bases[-1] = tf.concat([bases[-1], weight], 1)
        return prepared._replace(bases=bases)

    def variable_sums(
        self,
        bases: Sequence[tf.Tensor],
        configs: tf.Tensor,
        cells: 'AllPairs',
        training: bool = False,
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """As `ResModel.variable_sums`."""
        fastest = tf.reshape(self._unscale_configs(configs), [-1, 3, 2])
        places = _hat(fastest)  # [cells, 3, 2, 6]
        tensors, there, last, of_dim = tf.split(
            cells.at_nodes(0, bases[0]), [24, 12, 4, _RANK], 1
        )
        local = [
            _of_layouts(fastest, places, tensors),
            tf.reduce_sum(places[:, 0] * of_dim[:, tf.newaxis], -1),
            tf.reshape(places, [-1, 6 * _RANK]),
        ]
        # Which of its source's dimensions an operand is wanted to have fastest.
        there = tf.reshape(there, [-1, 2, 1, _RANK])
        wanted = tf.reduce_sum(places[:, 1:] * there, -1)
        row_major = _equal(wanted, tf.reshape(last, [-1, 2, 2]))
        own = tf.reshape(places[:, 0], [-1, 2 * _RANK])
        wanted, row_major = (tf.reshape(x, [-1, 4]) for x in (wanted, row_major))
        mine = tf.concat([*local, wanted, row_major, own], 1)
        output = fastest[:, 0]
        sent = [
            tf.pad(x, [[0, 0], [before, 16 - before - x.shape[-1]]])
            for x, before in ((output, 0), (output, 2), (own, 4))
        ]
        arrives = cells.aggregate(1, sent)
        mine = _lifted(cells, 1, mine, arrives)
        local, wanted, row_major, own = tf.split(mine, [-1, 4, 4, 12], 1)
        _, kinds, meets, shift = tf.split(
            cells.at_nodes(1, bases[1][:, : 7 + self._width]), [2, 4, 1, self._width], 1
        )
        chosen, fixed = (tf.repeat(kinds[:, i : i + 2], 2, 1) for i in (0, 2))
        stays = chosen * _equal(arrives[:, :4], wanted) + fixed * row_major
        stays = tf.reshape(stays + 1.0 - chosen - fixed, [-1, 2, 2])
        meet = tf.reshape(own * arrives[:, 4:], [-1, 2, _RANK])
        x = self._join(
            tf.concat(
                [
                    local,
                    1.0 - tf.reshape(stays, [-1, 4]),
                    1.0 - stays[:, :, 0] * stays[:, :, 1],
                    (1.0 - tf.reduce_sum(meet, -1)) * meets,
                ],
                1,
            )
        )
        x = self._activation(x + shift)
        for dense in self._more:
            x += self._activation(dense(x))
        x = self._encode_cells(x, bases, cells)
        x = self._dropout(x, training=training)
        weight = cells.at_nodes(self.num_gnns, bases[-1][:, -self._width :])
        return cells.pool(x * weight)

    def read_out(
        self, total: tf.Tensor, configurable: tf.Tensor, sizes: tf.Tensor
    ) -> tf.Tensor:
        """Scores float32 [r, 1]; see `ResModel.read_out`."""
        del configurable, sizes
        return self._head(total)

    def _connect(self, matrices: List[Matrix]) -> List[Matrix]:
        """All matrices, given those from sources."""
        return matrices

    def _degrees(self, prepared) -> tf.Tensor:
        """Of every configurable node the sums of edges in and out: [k, 2]."""
        k = prepared.affected[0]
        return tf.stack(
            [
                tf.add_n(
                    [
                        tf.math.unsorted_segment_sum(m.values, ends(m), k)
                        for m in prepared.matrices[:3]
                    ]
                )
                for ends in (lambda m: m.rows, lambda m: m.cols)
            ],
            1,
        )

    def _encode_nodes(self, x: tf.Tensor, prepared: Prepared) -> tf.Tensor:
        """More about configurable nodes without their layouts: [k, h]."""
        del prepared
        return x

    def _later_bases(self, prepared: Prepared) -> List[tf.Tensor]:
        """Bases of the layers behind the first two: float32 [k, ..]."""
        del prepared
        return []

    def _encode_cells(self, x, bases, cells) -> tf.Tensor:
        """Layers behind the first two: from their cells to the last one's."""
        del bases, cells
        return x

    def _spread_work(self, arrays, embedding, chosen, origin) -> tf.Tensor:
        """Elements [k, work_kinds] of what takes over a layout, by kind of work."""
        n = tf.shape(embedding)[0]
        follows = tf.equal(origin.node, tf.range(n))
        follows = tf.logical_not(follows) & (origin.node >= 0)
        kind = tf.nn.softplus(self._work(embedding) + 1.0)
        work = tf.where(follows, arrays.elements, 0.0)[:, tf.newaxis] * kind
        owner = tf.where(follows, origin.node, 0)
        return tf.gather(tf.math.unsorted_segment_sum(work, owner, n), chosen)

    def _tensors(self, arrays, origin, operands, chosen):
        """What `variable_sums` has to know about output, input and kernel.

        Returns:
            [k, 24], dimensions and roles; [k, 16], the operands' dimensions at
            their sources, and the last two; [k, 4], whether each operand comes
            from a configurable node, and whether in a fixed layout.
        """
        dims, there, last = [tf.gather(arrays.dims, chosen)], [], []
        configurable, fixed = [], []
        for operand, exists in operands:
            operand, exists = tf.gather(operand, chosen), tf.gather(exists, chosen)
            dims.append(tf.gather(arrays.dims, operand) * exists[:, tf.newaxis])
            source = origin.of(operand)
            there.append(tf.cast(source.dims, tf.float32))
            rank = tf.cast(tf.gather(arrays.rank, operand), tf.float32)
            last.append(tf.stack([rank - 1.0, rank - 2.0], 1))
            configurable.append(exists * tf.cast(source.node >= 0, tf.float32))
            fixed.append(exists * tf.cast(tf.equal(source.node, _FIXED), tf.float32))
        is_convolution = tf.equal(tf.gather(arrays.op, chosen), _CONVOLUTION)
        roles = tf.where(
            is_convolution[:, tf.newaxis], tf.gather(arrays.roles, chosen), -9.0
        )
        return (
            tf.concat([*dims, roles], 1),
            tf.concat([*there, *last], 1),
            tf.stack([*configurable, *fixed], 1),
        )


class _Layered(HybridSAGE):
    """`HybridSAGE` with more layers of messages between configurable nodes.

    Each layer:  x = x + activation(norm(messages(x)))

    The graph is the pruned one of `HybridSAGE`: an edge goes from a
    configurable node to every one that its layout reaches.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of layers.
        join: 'late': they encode nodes, and layouts join afterwards; 'early':
            they pass on what layouts do, once per configuration.
        norm: 'layer' or 'none', before the activation.
        options: those of `HybridSAGE`.

    Raises:
        ValueError: an option is not one of those.
    """

    _hops_per_layer = 1

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 2,
        join: str = 'late',
        norm: str = 'layer',
        **options,
    ):
        super().__init__(num_configs, num_ops, **options)
        _check('join', join, ('early', 'late'))
        _check('norm', norm, ('layer', 'none'))
        if num_gnns < 1:
            raise ValueError(f'num_gnns is at least 1, not {num_gnns}')
        self._early, self._norm = join == 'early', norm
        self._gnn_layers = [self._kernels() for _ in range(num_gnns)]

    @property
    def num_gnns(self) -> int:
        """Number of times that cells pass messages."""
        return 1 + self._early * len(self._gnn_layers) * self._hops_per_layer

    def _kernels(self) -> List[tf.keras.layers.Layer]:
        """Makes the weights of a layer."""
        raise NotImplementedError

    def _messages(self, kernels, x, step):
        """What a layer adds before the activation.

        Args:
            kernels: of `_kernels`.
            x: float32 [cells, h].
            step: a `_Step`.

        Returns:
            x and the messages, where the layer ends.
        """
        raise NotImplementedError

    def _encode_nodes(self, x, prepared):
        if self._early:
            return x
        nodes = AllPairs(prepared, 1, self._width)
        return self._encode(x, _Step(nodes, [self._degrees(prepared)] * 2, 0))

    def _later_bases(self, prepared):
        return [self._degrees(prepared)] * (self.num_gnns - 1)

    def _encode_cells(self, x, bases, cells):
        return self._encode(x, _Step(cells, bases, 1)) if self._early else x

    def _encode(self, x, step):
        for kernels in self._gnn_layers:
            x, y = self._messages(kernels, x, step)
            if self._norm == 'layer':
                y = _normalized(y)
            x += self._activation(y)
        return x

    def _connect(self, matrices):
        rows, cols, values = (tf.concat(part, 0) for part in zip(*matrices))
        return [*matrices, Matrix(cols, rows, values)]


class _Step:
    """Passes messages between cells of configurable nodes, a layer further.

    Args:
        cells: `AllPairs` or what has its methods.
        bases: per layer, beginning with degrees in and out.
        layer: where the cells are.
    """

    def __init__(self, cells, bases, layer: int):
        self._cells, self._bases, self._layer = cells, bases, layer
        self._static = layer == 0

    def sums(self, inwards: tf.Tensor, outwards: tf.Tensor) -> tf.Tensor:
        """Goes on by a layer; sums over sources, and over targets."""
        self._layer += 1
        return self._cells.aggregate(self._at(), [inwards] * 3 + [outwards])

    def attend(self, own, other, values) -> tf.Tensor:
        """Goes on by a layer; attention over sources, targets and itself.

        Args:
            own: float32 [cells, heads].
            other: float32 [cells, heads].
            values: float32 [cells, heads, d].
        """
        self._layer += 1
        own = self.here(own)
        rows, cols = self._cells.ends(self._at())
        count = tf.shape(own)[0]
        logits = tf.nn.leaky_relu(tf.gather(own, rows) + tf.gather(other, cols))
        highest = tf.math.unsorted_segment_max(logits, rows, count)
        parts = tf.exp(logits - tf.gather(tf.stop_gradient(highest), rows))
        total = tf.math.unsorted_segment_sum(parts, rows, count)
        parts /= tf.gather(total, rows)
        return tf.math.unsorted_segment_sum(
            parts[:, :, tf.newaxis] * tf.gather(values, cols), rows, count
        )

    def here(self, x: tf.Tensor) -> tf.Tensor:
        """Cells of the layer before, at this one."""
        return _lifted(self._cells, self._at(), x, self.degrees())

    def scale(self, self_loops: float) -> tf.Tensor:
        """D^-1/2 for edges in both directions: float32 [cells, 1], as of now."""
        degree = tf.reduce_sum(self.degrees(), 1, keepdims=True) + self_loops
        return tf.math.rsqrt(tf.maximum(degree, 1.0))

    def degrees(self) -> tf.Tensor:
        """float32 [cells, 2], edges in and out."""
        at = self._at()
        return self._cells.at_nodes(at, self._bases[at][:, :2])

    def _at(self) -> int:
        # All layers of nodes without configurations are alike.
        return 1 if self._static else self._layer


class ResSAGE(_Layered):
    """Residual GraphSAGE: W x + U mean over sources + V mean over targets.

    Args: those of `_Layered`.
    """

    def _kernels(self):
        dense = tf.keras.layers.Dense
        return [dense(self._width), *_dense_pair(self._width)]

    def _messages(self, kernels, x, step):
        mine, inwards, outwards = kernels
        h = self._width
        y = step.sums(
            tf.pad(inwards(x), [[0, 0], [0, h]]), tf.pad(outwards(x), [[0, 0], [h, 0]])
        )
        y_in, y_out = tf.split(y, 2, 1)
        d_in, d_out = tf.split(tf.maximum(step.degrees(), 1.0), 2, 1)
        x = step.here(x)
        return x, mine(x) + y_in / d_in + y_out / d_out


class GCN(_Layered):
    """Graph convolution: D^-1/2 (A + A' + I) D^-1/2 x W.

    Args: those of `_Layered`.
    """

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width)]

    def _messages(self, kernels, x, step):
        y = x * step.scale(1.0)
        y = step.sums(y, y)
        x = step.here(x)
        scale = step.scale(1.0)
        return x, kernels[0](scale * (y + scale * x))


class ChebSAGE(_Layered):
    """Chebyshev filters sum_k T_k(L) x W_k of order 2, L = -D^-1/2 (A + A') D^-1/2.

    Args: those of `_Layered`.
    """

    _hops_per_layer = 2

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width), *_dense_pair(self._width)]

    def _messages(self, kernels, x, step):
        first = self._laplacian(x, step)
        x = step.here(x)
        second = 2.0 * self._laplacian(first, step)
        x, first = step.here(x), step.here(first)
        zeroth, *more = kernels
        return x, zeroth(x) + more[0](first) + more[1](second - x)

    def _laplacian(self, x, step):
        y = x * step.scale(0.0)
        y = step.sums(y, y)
        return -y * step.scale(0.0)


class AttentionSAGE(_Layered):
    """Attention over sources, targets and the node itself, several heads.

    alpha_ij = softmax_j LeakyReLU(a . W x_i + b . W x_j),  sum_j alpha_ij W x_j

    Args:
        heads: attention heads; they share `hidden_dim`.
        The others are those of `_Layered`.
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

    def _messages(self, kernels, x, step):
        project, own, other = kernels
        values = project(x)
        heads = tf.reshape(values, [-1, self._heads, self._width // self._heads])
        y = step.attend(own(values), other(values), heads)
        return step.here(x), tf.reshape(y, [-1, self._width])


class ConfigAttentionSAGE(ResSAGE):
    """`ResSAGE` whose configurations see each other, before the last sum.

        x = x * sigmoid(V relu(U x))                 squeeze and excite channels
        x = x + x * softmax over configurations of (x / temperature)

    The temperature is learned.  The scores depend on the list: they compare its
    configurations, and say nothing about others.

    Args: those of `_Layered`.
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

    def _encode_cells(self, x, bases, cells):
        x = super()._encode_cells(x, bases, cells)
        x *= self._excite(self._squeeze(x))
        return x + x * cells.softmax(x * tf.exp(-self._temperature))


def _dense_pair(width: int) -> List[tf.keras.layers.Layer]:
    return [tf.keras.layers.Dense(width, use_bias=False) for _ in range(2)]


def _lifted(cells, layer: int, x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Cells of the layer before, at `layer`, which has as many as `like` rows."""
    zeros = tf.zeros([tf.shape(like)[0], x.shape[-1]])
    return cells.add_previous(layer, zeros, x)


def _normalized(x: tf.Tensor) -> tf.Tensor:
    """Layer normalisation in plain operations: Keras's fused one is not thread-safe."""
    x -= tf.reduce_mean(x, -1, keepdims=True)
    return x * tf.math.rsqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-3)


class _Unscaled:
    """Some raw columns from scaled features.

    Args:
        scaling: see `HybridSAGE`.
        part: 'node' or 'config'.
        columns: their numbers.  One that does not exist is 0 everywhere; of
            configurations -1, as where there is no dimension.
    """

    def __init__(self, scaling, part: str, columns: Sequence[int]):
        self._columns = columns
        self._scaling = scaling and [
            list(scaling[f'{part}_{what}']) for what in ('used', 'min', 'max')
        ]
        self._missing = -1.0 if part == 'config' else 0.0

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[r, scaled columns] -> [r, columns asked for]."""
        width = x.shape[-1]
        used, low, high = self._scaling or (
            [True] * width,
            [0.0] * width,
            [1.0] * width,
        )
        place = {c: i for i, c in enumerate(c for c, u in enumerate(used) if u)}
        index, factor, offset = [], [], []
        for column in self._columns:
            known, kept = column < len(used), column in place
            index.append(place.get(column, 0))
            factor.append(high[column] - low[column] if kept else 0.0)
            offset.append(low[column] if known else self._missing)
        return tf.gather(x, index, axis=1) * factor + offset


def _arrays(nodes: tf.Tensor) -> _Arrays:
    """Takes `HybridSAGE.node_inputs` apart."""
    widths = [1, len(_TYPE), len(_DIMS), len(_DIMENSIONS), len(_ROLES), 1, -1]
    op, kind, dims, dimensions, roles, window, _ = tf.split(nodes, widths, 1)
    elements = tf.reduce_prod(tf.maximum(dims, 1.0), 1)
    size = tf.reduce_sum(kind * tf.constant(_TYPE_BYTES, tf.float32), 1)
    return _Arrays(
        op=tf.cast(op[:, 0], tf.int32),
        dims=dims,
        rank=tf.reduce_sum(tf.cast(dims > 0, tf.int32), 1),
        elements=elements,
        bytes=elements * tf.maximum(size, 1.0),
        dimensions=tf.clip_by_value(tf.cast(dimensions, tf.int32), 0, _RANK - 1),
        roles=roles,
        window=tf.nn.relu(window),
    )


def _spread(arrays: _Arrays, chosen, edges, hops: int) -> _Origin:
    """Lets layouts spread from where they are given.

    An instruction has the layout of the first operand of its rank that has one,
    those first that no configuration changes, then those of configurable
    nodes.  A transpose permutes it.
    """
    n = tf.size(arrays.op)
    node, consumer, producer = tf.range(n), *edges
    is_chosen = _mask(chosen, n)
    row_major = _one_of(arrays.op, _ROW_MAJOR)
    anyhow = _one_of(arrays.op, _MADE_ANYHOW)
    settled = is_chosen | row_major | anyhow
    nothing = 3
    start = tf.where(row_major, tf.where(_one_of(arrays.op, _GIVEN), 0, 2), nothing)
    start = tf.where(is_chosen, 1, start)
    kept = _where(
        tf.equal(tf.gather(arrays.rank, consumer), tf.gather(arrays.rank, producer))
        & tf.logical_not(tf.gather(settled, consumer))
    )
    consumer, producer = tf.gather(consumer, kept), tf.gather(producer, kept)
    order = start
    for _ in range(hops):
        least = tf.math.unsorted_segment_min(tf.gather(order, producer), consumer, n)
        order = tf.where(settled, start, tf.minimum(least, nothing))
    of_edge = tf.gather(order, consumer)
    kept = _where(tf.equal(tf.gather(order, producer), of_edge) & (of_edge < nothing))
    first = tf.math.unsorted_segment_min(kept, tf.gather(consumer, kept), n)
    follows = first < tf.size(consumer)
    first = tf.where(follows, first, 0)
    root = tf.where(follows, tf.gather(tf.pad(producer, [[0, 1]]), first), node)
    turned = follows & tf.equal(arrays.op, _TRANSPOSE)
    turned = tf.sequence_mask(tf.where(turned, arrays.rank, 0), _RANK)
    dims = tf.where(turned, arrays.dimensions, tf.range(_RANK))
    for _ in range(hops.bit_length()):
        dims = tf.gather(tf.gather(dims, root), dims, batch_dims=1)
        root = tf.gather(root, root)
    kind = tf.where(row_major, _FIXED, tf.where(anyhow, _ANY, _UNKNOWN))
    return _Origin(tf.gather(tf.where(is_chosen, node, kind), root), dims)


def _operands(arrays: _Arrays, edges):
    """Of every node input and kernel: pairs of node, int32 [n], and 1 or 0.

    They are its first two operands.  Edges have no order that says which is
    which; the input of a convolution is that with the output's batch.
    """
    consumer, producer = edges
    n, m = tf.size(arrays.op), tf.size(consumer)
    number = tf.range(m)
    first = tf.math.unsorted_segment_min(number, consumer, n)
    others = tf.where(tf.equal(number, tf.gather(first, consumer)), m, number)
    second = tf.math.unsorted_segment_min(others, consumer, n)
    exists = [first < m, second < m]
    nodes = [
        tf.gather(tf.pad(producer, [[0, 1]]), tf.where(one, edge, m))
        for one, edge in zip(exists, (first, second))
    ]

    def batch(of, role):
        place = tf.cast(arrays.roles[:, role], tf.int32)
        return tf.reduce_sum(tf.gather(arrays.dims, of) * tf.one_hot(place, _RANK), 1)

    wanted = batch(tf.range(n), 0)
    fits = [tf.equal(batch(node, 2), wanted) for node in nodes]
    swap = tf.equal(arrays.op, _CONVOLUTION) & exists[1] & fits[1]
    swap &= tf.logical_not(fits[0])
    result = []
    for i in (0, 1):
        result.append(
            tuple(tf.where(swap, pair[1 - i], pair[i]) for pair in (nodes, exists))
        )
    return [(node, tf.cast(one, tf.float32)) for node, one in result]


def _direct(chosen, operands, origin: _Origin) -> List[Matrix]:
    """Per operand the matrix from its source, where that is configurable."""
    matrices = []
    for operand, exists in operands:
        source = tf.gather(origin.node, tf.gather(operand, chosen))
        kept = _where((source >= 0) & (tf.gather(exists, chosen) > 0))
        rows, cols = tf.gather(chosen, kept), tf.gather(source, kept)
        matrices.append(Matrix(rows, cols, tf.ones(tf.shape(rows))))
    # Nodes depend on themselves, too.
    first = matrices[0]
    matrices[0] = Matrix(
        tf.concat([first.rows, chosen], 0),
        tf.concat([first.cols, chosen], 0),
        tf.concat([first.values, tf.zeros(tf.shape(chosen))], 0),
    )
    return matrices


def _meetings(arrays: _Arrays, chosen, origin: _Origin, edges):
    """Where arrays are copied other than for configurable nodes.

    Returns:
        The matrix from the node whose layout an operand has to the one whose
        layout the result has, its rows with sum 1; the bytes of such operands
        by the latter, float32 [n]; and the bytes by configurable node of what
        is copied from or to row major.
    """
    consumer, producer = edges
    n = tf.size(arrays.op)
    source, target = origin.of(producer), origin.of(consumer)
    size = tf.gather(arrays.bytes, producer)
    elsewhere = tf.logical_not(tf.gather(_mask(chosen, n), consumer))
    alike = tf.equal(tf.gather(arrays.rank, consumer), tf.gather(arrays.rank, producer))
    alike &= tf.reduce_all(tf.equal(source.dims, target.dims), 1) & elsewhere
    plain = tf.reduce_all(tf.equal(source.dims, tf.range(_RANK)), 1) & elsewhere
    from_chosen, to_chosen = source.node >= 0, target.node >= 0
    differ = tf.not_equal(source.node, target.node)
    kept = _where(alike & from_chosen & to_chosen & differ)
    rows, cols = tf.gather(target.node, kept), tf.gather(source.node, kept)
    copied = tf.gather(size, kept)
    total = tf.math.unsorted_segment_sum(copied, rows, n)
    matrix = Matrix(rows, cols, copied / tf.gather(tf.maximum(total, 1.0), rows))

    def by(node, where):
        return tf.math.unsorted_segment_sum(
            tf.where(where, size, 0.0), tf.maximum(node, 0), n
        )

    row_major = by(
        source.node, plain & from_chosen & tf.equal(target.node, _FIXED)
    ) + by(target.node, alike & to_chosen & tf.equal(source.node, _FIXED))
    return matrix, (total, row_major)


def _reductions(arrays: _Arrays, origin: _Origin, edges):
    """What is reduced that has a node's layout.

    Returns:
        By configurable node the elements, [n], and which share of them loses
        each dimension, [n, 6].
    """
    consumer, producer = edges
    n = tf.size(arrays.op)
    source = origin.of(producer)
    ranks = [tf.gather(arrays.rank, node) for node in (producer, consumer)]
    count = tf.where(
        tf.equal(tf.gather(arrays.op, consumer), _REDUCE), ranks[0] - ranks[1], 0
    )
    listed = tf.gather(
        source.dims, tf.gather(arrays.dimensions, consumer), batch_dims=1
    )
    lost = (
        tf.one_hot(listed, _RANK)
        * tf.sequence_mask(count, _RANK, tf.float32)[:, :, tf.newaxis]
    )
    reduced = (count > 0) & (source.node >= 0)
    size = tf.where(reduced, tf.gather(arrays.elements, producer), 0.0)
    owner = tf.maximum(source.node, 0)
    total = tf.math.unsorted_segment_sum(size, owner, n)
    of_dim = tf.math.unsorted_segment_sum(
        size[:, tf.newaxis] * tf.reduce_max(lost, 1), owner, n
    )
    return total, of_dim / tf.maximum(total, 1.0)[:, tf.newaxis]


def _of_layouts(fastest, places, tensors) -> tf.Tensor:
    """What layouts do to output, input and kernel: [cells, 33]."""
    dims = tf.reshape(tensors[:, : 3 * _RANK], [-1, 3, _RANK])
    roles = tf.reshape(tensors[:, 3 * _RANK :], [-1, 3, 1, 2])
    size = tf.reduce_sum(tf.round(places) * dims[:, :, tf.newaxis], -1)
    size = tf.maximum(size, 1.0)
    waste = tf.math.log(tf.math.ceil(size / _REGISTER) * _REGISTER / size)
    both = tf.reduce_sum(waste, -1, keepdims=True)
    rank = tf.math.count_nonzero(dims, -1, keepdims=True, dtype=tf.float32)
    found = tf.concat(
        [
            tf.math.log(size) / 8.0,
            waste,
            both,
            tf.exp(both) / 4.0,
            _equal(fastest, rank - [1.0, 2.0]),
            tf.reshape(_equal(fastest[:, :, :, tf.newaxis], roles), [-1, 3, 4]),
        ],
        -1,
    )
    return tf.reshape(found, [-1, 3 * found.shape[-1]])


def _role_sizes(tensors: tf.Tensor) -> tf.Tensor:
    """Logarithms of a convolution's batch and features: [k, 6]."""
    dims = tf.reshape(tensors[:, : 3 * _RANK], [-1, 3, 1, _RANK])
    places = _hat(tf.reshape(tensors[:, 3 * _RANK :], [-1, 3, 2]))
    sizes = tf.reduce_sum(places * dims, -1)
    return tf.math.log1p(tf.reshape(sizes, [-1, 6])) / 8.0


def _hat(x: tf.Tensor) -> tf.Tensor:
    """One-hot numbers 0 to 5, and linear in between."""
    return _equal(x[..., tf.newaxis], tf.range(_RANK, dtype=tf.float32))


def _equal(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """1 where equal, falling to 0 at a distance of 1."""
    return tf.nn.relu(1.0 - tf.abs(x - y))


def _mask(numbers: tf.Tensor, size) -> tf.Tensor:
    """bool [size], true at some numbers."""
    return tf.tensor_scatter_nd_update(
        tf.zeros([size], tf.bool),
        numbers[:, tf.newaxis],
        tf.ones(tf.shape(numbers), tf.bool),
    )


def _one_of(op: tf.Tensor, codes: Sequence[int]) -> tf.Tensor:
    return tf.reduce_any(tf.equal(op[:, tf.newaxis], tf.constant(codes)), 1)


class AllPairs:
    """All pairs of a node that varies and a configuration, in this order.

    These are the cells, or rows, of each layer of `ResModel.variable_sums`;
    other classes with these methods may leave out some that are equal.
    """

    def __init__(self, prepared: Prepared, num_configs, width: int):
        self._affected = prepared.affected
        self._member = prepared.member
        self._num_configs = num_configs
        self._width = width
        self._matrices = [
            [_first_columns(matrix, count) for matrix in prepared.matrices]
            for count in prepared.affected[:-1]
        ]

    def at_nodes(self, layer: int, base: tf.Tensor) -> tf.Tensor:
        """Gives every cell of a layer its node's row of `base`, [n, d]."""
        return tf.repeat(base[: self._affected[layer]], self._num_configs, 0)

    def ends(self, layer: int) -> Tuple[tf.Tensor, tf.Tensor]:
        """Cells that messages reach, and of the layer before, they come from."""
        configs = tf.range(self._num_configs)

        def cells(nodes):
            pairs = nodes[:, tf.newaxis] * self._num_configs + configs
            return tf.reshape(pairs, [-1])

        matrices = self._matrices[layer - 1]
        return (
            tf.concat([cells(m.rows) for m in matrices], 0),
            tf.concat([cells(m.cols) for m in matrices], 0),
        )

    def softmax(self, x: tf.Tensor) -> tf.Tensor:
        """Of every column over the configurations of each node."""
        width = x.shape[-1]
        x = tf.reshape(x, [-1, self._num_configs, width])
        return self._tall(tf.nn.softmax(x, axis=1), width)

    def add_base(self, layer: int, y: tf.Tensor, base: tf.Tensor) -> tf.Tensor:
        """Adds to every cell of a layer its node's row of `base`, [n, h]."""
        y = tf.reshape(y, [-1, self._num_configs, self._width])
        y += tf.expand_dims(base[: self._affected[layer]], 1)
        return tf.reshape(y, [-1, self._width])

    def add_configs(self, layer: int, x, configs) -> tf.Tensor:
        """Adds cells of layer 0 to the same cells of the layer before `layer`."""
        del layer
        return _add_to_first(x, configs)

    def add_previous(self, layer: int, y, x) -> tf.Tensor:
        """Adds cells of the layer before to the same cells of `layer`."""
        del layer
        return _add_to_first(y, x)

    def aggregate(self, layer: int, messages: Sequence[tf.Tensor]) -> tf.Tensor:
        """Passes messages, for each matrix, from the layer before."""
        y = tf.add_n(
            [
                multiply(matrix, self._wide(x), self._affected[layer])
                for matrix, x in zip(self._matrices[layer - 1], messages)
            ]
        )
        return self._tall(y, messages[0].shape[-1])

    def pool(self, x: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sums [b * c, h] over the last layer's nodes, and configurable ones."""
        width = x.shape[-1]
        x = self._wide(x)
        return tuple(
            self._tall(tf.matmul(self._member[:n], x[:n], transpose_a=True), width)
            for n in (self._affected[-1], self._affected[0])
        )

    def _wide(self, x: tf.Tensor) -> tf.Tensor:
        """One row for each node."""
        return tf.reshape(x, [-1, self._num_configs * x.shape[-1]])

    def _tall(self, x: tf.Tensor, width: int) -> tf.Tensor:
        """One row for each pair."""
        return tf.reshape(x, [-1, width])


def multiply(matrix: Matrix, x: tf.Tensor, num_rows) -> tf.Tensor:
    """The product of a sparse matrix with x: [columns, d] -> [num_rows, d]."""
    indices = tf.cast(tf.stack([matrix.rows, matrix.cols], 1), tf.int64)
    shape = tf.cast(tf.stack([num_rows, tf.shape(x)[0]]), tf.int64)
    return tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=indices, a_values=matrix.values, a_shape=shape, b=x
    )


def _sort_by_hops(start, matrices, num_nodes, most: int):
    """Sorts nodes by their distance from those in `start`, which come first.

    Returns the order, int32 [n], and for 0, 1, .., `most` hops how many nodes
    are not farther away.
    """
    hops = tf.fill([num_nodes], most + 1)
    hops = tf.tensor_scatter_nd_update(hops, start[:, tf.newaxis], tf.zeros_like(start))
    rings = [start]
    for step in range(1, most + 1):
        for matrix in matrices:
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
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def _first_columns(matrix: Matrix, count) -> Matrix:
    kept = _where(matrix.cols < count)
    return Matrix(*[tf.gather(part, kept) for part in matrix])


def _add_to_first(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Adds y to the first rows of x."""
    size = tf.shape(y)[0]
    return tf.concat([x[:size] + y, x[size:]], 0)


def _check(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f'{option} is one of {", ".join(choices)}, not {value!r}')
