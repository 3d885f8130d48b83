"""A model that starts from the padded work of products, and learns corrections."""

from typing import Any, List, NamedTuple, Optional, Tuple, Union

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import cells as cells_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import instructions as instructions_lib
from baselines.layout.zoo import options
from baselines.layout.zoo import products as products_lib
from baselines.layout.zoo import spreading
from baselines.layout.zoo.arrays import RANK

_MOST_WASTE = 16.0  # padding beyond that; no machine would have room for more


class Nodes(NamedTuple):
    """All n nodes of some programs: their arrays, and float32 [n, e] of opcodes."""

    arrays: arrays_lib.Arrays
    embedding: tf.Tensor


class Bases(NamedTuple):
    """Values of k configurable nodes that do not depend on layouts.

    Attributes:
        instructions: their arrays.
        products: their multiply-adds.
        meets: float32 [k, 1], 1 where other layouts meet this node's.
        shift: float32 [k, h], added before the first activation.
        weight: float32 [k, h], how much work hangs on the node.
    """

    instructions: instructions_lib.Instructions
    products: products_lib.Products
    meets: tf.Tensor
    shift: tf.Tensor
    weight: tf.Tensor


class PaddedSAGE(tf.keras.Model):
    """The padded work of products, and a learned correction that begins with 0.

        score = g * log(1 + p) + c / (1 + p)
        p     = sum_i share_i * (padded_i - 1)
        c     = v . sum_i w_i * tanh(MLP(layouts of i, copies from its sources))
        w_i   = amounts_i exp(M) * correction(i), relative to the program's

    p is how much longer a program takes, of its products and the traffic of their
    arrays, because of how layouts pad products (`products`).  c is the change of
    the logarithm of a time as a change over that time.  A configurable instruction
    i changes it by an amount of each kind of work (bytes of its output and
    operands; elements of the instructions that take over its output's layout;
    bytes copied where layouts meet; products) times a learned function of the
    layouts concerned, which is bounded: of arrays unlike those it was trained on,
    the model is no more wrong than that.  Untrained it ranks by p, and stays so
    where no epoch of a training ranks the validation split better
    (`ranks_untrained`).

    Layouts spread from configurable instructions (`spreading`), so messages pass
    between these, along paths of any length, and say in which layout an operand
    arrives.  Layouts enter as the sizes of the dimensions that they make the
    fastest two, their padding to registers of 128 x 8, and their place in the
    array (`effects`).  Those that a configuration leaves out are row major.

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

    ranks_untrained = True
    # Layouts are compared once, with those of the operands' sources.
    num_gnns = 1

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
        self._dropout = options.Dropout(feature_dropout)
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
        self._head = dense(1, use_bias=False, kernel_initializer='zeros')
        kinds = instructions_lib.NUM_AMOUNTS + work_kinds + 1  # that of products
        # Each hidden unit starts with mostly one kind of work.
        mix = tf.one_hot(tf.range(hidden_dim) % kinds, kinds, axis=0)
        self._mix = self.add_weight(
            'mix', [kinds, hidden_dim], initializer=lambda *_, **__: 3 * mix - 3
        )
        self._gain = self.add_weight(
            'log_gain', [], initializer=lambda *_, **__: tf.math.log(30.0)
        )

    def call(self, graph: tfgnn.GraphTensor, training: bool = False) -> tf.Tensor:
        return self.forward(graph, self._num_configs, training=training)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: Union[int, tf.Tensor],
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
        total, configurable = self.variable_sums(
            prepared.bases,
            tf.reshape(configs, [-1, configs.shape[-1]]),
            cells_lib.AllPairs(prepared.matrices, prepared.member, num_configs),
            training,
        )
        scores = self.read_out(total, configurable, None)
        return tf.reshape(scores, [batch, num_configs])

    def node_inputs(self, graph: tfgnn.GraphTensor) -> Nodes:
        """Reads the arrays of all nodes, and embeds their opcodes."""
        ops = graph.node_sets['op']
        columns = self._unscaled.nodes(ops['feats'])
        embedding = self._op_embedding(tf.cast(ops['op'], tf.int32))
        return Nodes(arrays_lib.make_arrays(ops['op'], columns), embedding)

    @tf.autograph.experimental.do_not_convert
    def prepare(
        self, graph: tfgnn.GraphTensor, nodes: Nodes, prefix: str, member: tf.Tensor
    ) -> cells_lib.Prepared:
        """Computes what does not vary, as `ResModel.prepare`.

        All that varies is on configurable nodes.
        """
        config = graph.edge_sets[prefix + 'config'].adjacency
        chosen = tf.cast(config[tfgnn.TARGET], tf.int32)
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        feed = graph.edge_sets[prefix + 'feed'].adjacency
        edges = (
            tf.cast(feed[tfgnn.SOURCE], tf.int32),
            tf.cast(feed[tfgnn.TARGET], tf.int32),
        )
        arrays, k = nodes.arrays, tf.size(chosen)
        member = tf.gather(member, chosen)
        origin = spreading.spread(arrays, chosen, edges, self._hops)
        operands = spreading.operands(arrays, edges)
        copies = spreading.meetings(arrays, chosen, origin, edges)
        reductions = spreading.reductions(arrays, origin, edges)
        matrices = instructions_lib.between(
            chosen,
            tf.size(arrays.op),
            [*(spreading.sources(chosen, o, origin) for o in operands), copies.matrix],
        )
        kinds = tf.nn.softplus(self._work(nodes.embedding) + 1.0)
        work = spreading.followers(arrays, origin, kinds)
        amounts = instructions_lib.amounts(
            arrays, operands, copies, reductions, work, chosen
        )
        moved = _sum_of_program(amounts[:, : instructions_lib.NUM_AMOUNTS], member)
        products = products_lib.find(arrays, operands, chosen, member)
        products = products_lib.beside_traffic(products, moved)
        # In bytes that could be moved in the time.
        of_products = products.share * products.total / products_lib.PER_BYTE
        amounts = tf.concat([amounts, of_products], 1)
        instructions = instructions_lib.describe(
            arrays, operands, origin, reductions, chosen
        )
        rank = tf.cast(tf.gather(arrays.rank, chosen), tf.float32)[:, tf.newaxis]
        window = tf.gather(arrays.window, chosen)[:, tf.newaxis]
        static = [
            tf.math.log1p(amounts) / 10.0,
            amounts / tf.reduce_sum(amounts, 1, keepdims=True),
            instructions.from_chosen,
            instructions.fixed,
            rank / RANK,
            effects.role_sizes(instructions.dims, instructions.roles),
            tf.math.log1p(window) / 4.0,
            tf.gather(nodes.embedding, chosen),
        ]
        x = self._activation(self._static(tf.concat(static, 1)))
        weight = tf.matmul(amounts, tf.exp(self._mix))
        weight *= tf.exp(2.0 * tf.tanh(self._correct(x)))
        met = tf.gather(copies.bytes, chosen) > 0
        bases = Bases(
            instructions=instructions,
            products=products,
            meets=tf.cast(met, tf.float32)[:, tf.newaxis],
            shift=self._shift(x),
            weight=100.0 * weight / (_sum_of_program(amounts, member) + 1.0),
        )
        pooled = tf.zeros([member.shape[-1], self._width + 1])
        return cells_lib.Prepared(configs, matrices, [k, k], bases, pooled, member)

    @tf.autograph.experimental.do_not_convert
    def variable_sums(
        self,
        bases: Bases,
        configs: tf.Tensor,
        cells: cells_lib.AllPairs,
        training: bool = False,
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Computes what depends on the configuration, as `ResModel.variable_sums`.

        The last column of the sums is p.
        """
        fastest = effects.or_row_major(
            self._unscaled.fastest(configs), cells.at_nodes(0, bases.instructions.dims)
        )
        products = products_lib.Products(
            *(cells.at_nodes(0, x) for x in bases.products)
        )
        padded = products_lib.padded(products, fastest[:, 0])
        local = [
            *_local_effects(bases.instructions, fastest, cells),
            tf.math.log(tf.minimum(padded, _MOST_WASTE)),
            tf.math.log(products.share + 1e-6) / 10.0,
        ]
        x = self._join(tf.concat(_copied(bases, fastest, local, cells), 1))
        x = self._activation(x + cells.at_nodes(1, bases.shift))
        for dense in self._more:
            x += self._activation(dense(x))
        x = self._dropout(tf.tanh(x), training=training)
        x *= cells.at_nodes(1, bases.weight)
        more = cells.lift(1, products.share * (padded - 1.0))
        return cells.pool(tf.concat([x, more], 1))

    def read_out(
        self, total: tf.Tensor, configurable: tf.Tensor, sizes: Optional[tf.Tensor]
    ) -> tf.Tensor:
        """Scores float32 [r, 1]; see `ResModel.read_out`."""
        del configurable, sizes
        time = 1.0 + total[:, -1:]
        correction = self._head(total[:, :-1])
        return tf.exp(self._gain) * tf.math.log(time) + correction / time


def _local_effects(
    instructions: instructions_lib.Instructions,
    fastest: tf.Tensor,
    cells: cells_lib.AllPairs,
) -> List[tf.Tensor]:
    """Computes what layouts do to a node's own arrays: [cells, ..] each."""
    dims, roles, reduced = (
        cells.at_nodes(0, x)
        for x in (instructions.dims, instructions.roles, instructions.reduced)
    )
    places = effects.hat(fastest)
    return [
        effects.of_layouts(fastest, places, dims, roles, _MOST_WASTE),
        tf.reduce_sum(places[:, 0] * reduced[:, tf.newaxis], -1),
        tf.reshape(places, [-1, 6 * RANK]),
    ]


def _copied(
    bases: Bases, fastest: tf.Tensor, local: List[tf.Tensor], cells: cells_lib.AllPairs
) -> List[tf.Tensor]:
    """Lifts `local` to layer 1, and compares layouts with those that arrive there.

    Returns:
        `local`, then which of the two fastest dimensions of input and kernel are
        copied, which of the two arrays, and how much meeting layouts differ:
        float32 [cells of layer 1, ..] each.
    """
    instructions = bases.instructions
    places = effects.hat(fastest)  # [cells, 3, 2, 6]
    there, last = (
        cells.at_nodes(0, x) for x in (instructions.there, instructions.last)
    )
    # The dimensions of its source that input and kernel should have fastest, and
    # whether a row-major source has them so.
    wanted = tf.reduce_sum(places[:, 1:] * there[:, :, tf.newaxis], -1)
    row_major = effects.equal(wanted, last)
    own = tf.reshape(places[:, 0], [-1, 2 * RANK])
    arrives = tf.concat(
        [
            cells.send(1, along, fastest[:, 0])
            for along in (cells_lib.INPUT, cells_lib.KERNEL)
        ],
        1,
    )
    meeting = cells.send(1, cells_lib.MEETING, own)
    lifted, wanted, row_major, own = (
        cells.lift(1, x)
        for x in (
            tf.concat(local, 1),
            tf.reshape(wanted, [-1, 4]),
            tf.reshape(row_major, [-1, 4]),
            own,
        )
    )
    from_chosen, fixed = (
        tf.repeat(cells.at_nodes(1, x), 2, 1)
        for x in (instructions.from_chosen, instructions.fixed)
    )
    stays = from_chosen * effects.equal(arrives, wanted) + fixed * row_major
    stays = tf.reshape(stays + 1.0 - from_chosen - fixed, [-1, 2, 2])
    agree = tf.reduce_sum(tf.reshape(own * meeting, [-1, 2, RANK]), -1)
    return [
        lifted,
        1.0 - tf.reshape(stays, [-1, 4]),
        1.0 - stays[:, :, 0] * stays[:, :, 1],
        (1.0 - agree) * cells.at_nodes(1, bases.meets),
    ]


def _sum_of_program(amounts: tf.Tensor, member: tf.Tensor) -> tf.Tensor:
    """Adds up all amounts of a node's program: [k, a] -> [k, 1]."""
    total = tf.reduce_sum(amounts, 1, keepdims=True)
    return tf.matmul(member, tf.matmul(member, total, transpose_a=True))
