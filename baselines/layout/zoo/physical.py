"""Amounts of work that layouts decide on, times learned corrections."""

import math
from typing import Any, List, NamedTuple, Optional, Tuple

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.layout import sparse
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import cells as cells_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import facts as facts_lib
from baselines.layout.zoo import options
from baselines.layout.zoo import spreading
from baselines.layout.zoo.arrays import RANK


class Nodes(NamedTuple):
    """What is known of n nodes: their arrays, and float32 [n, e] of opcodes."""

    arrays: arrays_lib.Arrays
    embedding: tf.Tensor


class PhysicalModel(tf.keras.Model):
    """A learned correction to what layouts do to arrays and where copies are.

    A configurable instruction i costs what a few kinds of work cost, each an
    amount known beforehand (bytes of its output and operands; elements of the
    instructions that take over its output's layout; bytes copied where layouts
    meet) times a learned function of the layouts concerned:

        score = v . sum_i w_i * MLP(layouts of i, copies from its sources)
        w_i = amounts_i exp(M) * correction(i), relative to the program's

    Layouts spread from configurable instructions (`spreading`), so messages pass
    between these, along paths of any length, and say in which layout an operand
    arrives.  Layouts enter as the sizes of the dimensions that they make the
    fastest two, their padding to registers of 128 x 8, and their place in the
    array (`effects`).

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

    is_base = True

    # Layouts are compared once, with those of the operands' sources.
    num_gnns = 1
    _head_initializer = 'glorot_uniform'
    _most_waste = math.inf  # see `effects.of_layouts`
    _more_kinds = 0  # of amounts, see `_amounts`
    _more_pooled = 0  # sums, see `_pooled`

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        scaling: arrays_lib.Scaling = None,
        op_embed_dim: int = 8,
        hidden_dim: int = 32,
        mlp_layers: int = 2,
        hidden_activation: str = 'leaky_relu',
        work_kinds: int = 4,
        hops: int = 16,
        feature_dropout: float = 0.0,
    ):
        super().__init__()
        options.at_least_1(
            op_embed_dim=op_embed_dim,
            hidden_dim=hidden_dim,
            mlp_layers=mlp_layers,
            work_kinds=work_kinds,
            hops=hops,
        )
        # Weights are saved in the order in which their layers are set here.
        self._dropout = options.dropout(feature_dropout)
        self._num_configs, self._width, self._hops = num_configs, hidden_dim, hops
        self._unscaled = arrays_lib.Unscaled(scaling)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._op_embedding = tf.keras.layers.Embedding(
            num_ops, op_embed_dim, activity_regularizer=tf.keras.regularizers.l2(1e-4)
        )
        dense = tf.keras.layers.Dense
        self._work, self._static = dense(work_kinds), dense(hidden_dim)
        self._correct, self._shift = dense(hidden_dim), dense(hidden_dim)
        self._join = dense(hidden_dim, use_bias=False)
        self._more = [dense(hidden_dim) for _ in range(mlp_layers - 1)]
        self._head = dense(1, use_bias=False, kernel_initializer=self._head_initializer)
        kinds = facts_lib.KNOWN_AMOUNTS + work_kinds + self._more_kinds
        # Each hidden unit starts with mostly one kind of work.
        mix = tf.one_hot(tf.range(hidden_dim) % kinds, kinds, axis=0)
        self._mix = self.add_weight(
            'mix', [kinds, hidden_dim], initializer=lambda *_, **__: 3 * mix - 3
        )

    def call(self, graph: tfgnn.GraphTensor, training: bool = False):
        return self.forward(graph, self._num_configs, training=training)

    @tf.autograph.experimental.do_not_convert
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
            cells_lib.AllPairs(prepared.matrices, prepared.member, num_configs),
            training,
        )
        return tf.reshape(self.read_out(*sums, None), [batch, num_configs])

    def node_inputs(self, graph: tfgnn.GraphTensor) -> Nodes:
        """What is known of all nodes."""
        ops = graph.node_sets['op']
        columns = self._unscaled.nodes(ops['feats'])
        embedding = self._op_embedding(tf.cast(ops['op'], tf.int32))
        return Nodes(arrays_lib.make_arrays(ops['op'], columns), embedding)

    @tf.autograph.experimental.do_not_convert
    def prepare(
        self, graph: tfgnn.GraphTensor, nodes: Nodes, prefix: str, member: tf.Tensor
    ) -> cells_lib.Prepared:
        """As `ResModel.prepare`; all that varies is on configurable nodes."""
        config = graph.edge_sets[prefix + 'config'].adjacency
        chosen = tf.cast(config[tfgnn.TARGET], tf.int32)
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        feed = graph.edge_sets[prefix + 'feed'].adjacency
        edges = tuple(
            tf.cast(feed[end], tf.int32) for end in (tfgnn.SOURCE, tfgnn.TARGET)
        )
        arrays, k = nodes.arrays, tf.size(chosen)
        member = tf.gather(member, chosen)
        origin = spreading.spread(arrays, chosen, edges, self._hops)
        operands = spreading.operands(arrays, edges)
        copies = spreading.meetings(arrays, chosen, origin, edges)
        reductions = spreading.reductions(arrays, origin, edges)
        matrices = facts_lib.between(
            chosen,
            tf.size(arrays.op),
            [*(spreading.sources(chosen, o, origin) for o in operands), copies.matrix],
        )
        degrees = facts_lib.degrees(matrices, k)
        matrices = self._connect(matrices)
        work = spreading.followers(
            arrays, origin, tf.nn.softplus(self._work(nodes.embedding) + 1.0)
        )
        amounts = facts_lib.amounts(arrays, operands, copies, reductions, work, chosen)
        amounts, more = self._amounts(amounts, arrays, operands, chosen, member)
        known = facts_lib.known(arrays, operands, origin, reductions, chosen)
        rank = tf.cast(tf.gather(arrays.rank, chosen), tf.float32)[:, tf.newaxis]
        window = tf.gather(arrays.window, chosen)[:, tf.newaxis]
        static = [
            tf.math.log1p(amounts) / 10.0,
            amounts / tf.reduce_sum(amounts, 1, keepdims=True),
            known.from_chosen,
            known.fixed,
            rank / RANK,
            effects.role_sizes(known.dims, known.roles),
            tf.math.log1p(window) / 4.0,
            tf.gather(nodes.embedding, chosen),
        ]
        static = self._activation(self._static(tf.concat(static, 1)))
        weight = tf.matmul(amounts, tf.exp(self._mix))
        weight *= tf.exp(2.0 * tf.tanh(self._correct(static)))
        static = self._encode_nodes(
            static,
            cells_lib.Messages(cells_lib.AllPairs(matrices, member, 1), degrees, 0),
        )
        met = tf.gather(copies.bytes, chosen) > 0
        facts = facts_lib.Facts(
            known=known,
            meets=tf.cast(met, tf.float32)[:, tf.newaxis],
            degrees=degrees,
            shift=self._shift(static),
            weight=self._relative(weight, amounts, more, member),
            more=more,
        )
        pooled = tf.zeros([member.shape[-1], self._width + self._more_pooled])
        affected = [k] * (1 + self.num_gnns)
        return cells_lib.Prepared(configs, matrices, affected, facts, pooled, member)

    @tf.autograph.experimental.do_not_convert
    def variable_sums(
        self, bases: facts_lib.Facts, configs: tf.Tensor, cells, training: bool = False
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """As `ResModel.variable_sums`."""
        fastest = self._fastest(bases, configs, cells)
        places = effects.hat(fastest)  # [cells, 3, 2, 6]
        local = tf.concat(self._effects(bases, fastest, cells), 1)
        wanted, row_major = _wanted(bases.known, places, cells)
        own = tf.reshape(places[:, 0], [-1, 2 * RANK])
        arrives = tf.concat(
            [
                cells.send(1, along, fastest[:, 0])
                for along in (cells_lib.INPUT, cells_lib.KERNEL)
            ],
            1,
        )
        meeting = cells.send(1, cells_lib.MEETING, own)
        local, wanted, row_major, own = (
            cells.lift(1, x) for x in (local, wanted, row_major, own)
        )
        from_chosen, fixed = (
            tf.repeat(cells.at_nodes(1, x), 2, 1)
            for x in (bases.known.from_chosen, bases.known.fixed)
        )
        # Whether the fastest and second fastest dimension stay as they arrive.
        stays = from_chosen * effects.equal(arrives, wanted) + fixed * row_major
        stays = tf.reshape(stays + 1.0 - from_chosen - fixed, [-1, 2, 2])
        agree = tf.reduce_sum(tf.reshape(own * meeting, [-1, 2, RANK]), -1)
        x = self._join(
            tf.concat(
                [
                    local,
                    1.0 - tf.reshape(stays, [-1, 4]),
                    1.0 - stays[:, :, 0] * stays[:, :, 1],
                    (1.0 - agree) * cells.at_nodes(1, bases.meets),
                ],
                1,
            )
        )
        x = self._activation(x + cells.at_nodes(1, bases.shift))
        for dense in self._more:
            x += self._activation(dense(x))
        x = self._encode_cells(x, cells, cells_lib.Messages(cells, bases.degrees, 1))
        x = self._dropout(self._bounded(x), training=training)
        x *= cells.at_nodes(self.num_gnns, bases.weight)
        return self._pooled(x, bases, fastest, cells)

    def read_out(self, total: tf.Tensor, configurable, sizes) -> tf.Tensor:
        """Scores float32 [r, 1]; see `ResModel.read_out`."""
        del configurable, sizes
        return self._head(total)

    # What subclasses may know beside.

    def _amounts(self, amounts, arrays, operands, chosen, member):
        """The amounts, [k, a], with `_more_kinds` more, and `Facts.more`."""
        del arrays, operands, chosen, member
        return amounts, ()

    def _relative(self, weight, amounts, more, member) -> tf.Tensor:
        """Weights [k, h] over the root of their program's sum of squares."""
        del amounts, more
        squares = tf.matmul(member, weight**2, transpose_a=True)
        total = tf.reduce_mean(squares, 1, keepdims=True)
        return weight * tf.matmul(member, tf.math.rsqrt(total + 1e-9))

    def _bounded(self, x: tf.Tensor) -> tf.Tensor:
        """What amounts of work are multiplied with, of the MLP's result."""
        return x

    def _fastest(self, facts, configs, cells) -> tf.Tensor:
        """The two fastest dimensions of output, input, kernel: [cells, 3, 2]."""
        del facts, cells
        return self._unscaled.fastest(configs)

    def _effects(self, facts, fastest, cells) -> List[tf.Tensor]:
        """What layouts do to a node's own arrays: [cells, ..] each."""
        dims, roles, reduced = (cells.at_nodes(0, x) for x in facts.known[:3])
        places = effects.hat(fastest)
        return [
            effects.of_layouts(fastest, places, dims, roles, self._most_waste),
            tf.reduce_sum(places[:, 0] * reduced[:, tf.newaxis], -1),
            tf.reshape(places, [-1, 6 * RANK]),
        ]

    def _pooled(self, x, facts, fastest, cells) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sums over programs, as `variable_sums` returns them, and `_more_pooled`."""
        del facts, fastest
        return cells.pool(x)

    def _connect(self, matrices: List[sparse.Matrix]) -> List[sparse.Matrix]:
        """All matrices that messages pass along, given those from sources."""
        return matrices

    def _encode_nodes(self, x: tf.Tensor, messages: cells_lib.Messages) -> tf.Tensor:
        """More about configurable nodes without their layouts: [k, h]."""
        del messages
        return x

    def _encode_cells(self, x, cells, messages: cells_lib.Messages) -> tf.Tensor:
        """Layers behind the first two: from their cells to the last one's."""
        del cells, messages
        return x


def _wanted(known: facts_lib.Known, places, cells) -> Tuple[tf.Tensor, tf.Tensor]:
    """Which of its source's dimensions input and kernel are wanted to have fastest.

    And whether that is so in a row-major one: [cells, 4] each.
    """
    there, last = (cells.at_nodes(0, x) for x in (known.there, known.last))
    wanted = tf.reduce_sum(places[:, 1:] * there[:, :, tf.newaxis], -1)
    row_major = effects.equal(wanted, last)
    return tf.reshape(wanted, [-1, 4]), tf.reshape(row_major, [-1, 4])
