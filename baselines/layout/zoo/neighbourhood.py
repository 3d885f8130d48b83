"""Models of the configurable nodes of a program and of their neighbours alone."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.hlo import schema
from baselines.tiles import implicit
from baselines.tiles.zoo import kernels

_NODE = range(len(schema.NODE))


class Neighbourhood(NamedTuple):
    """A part of b programs: n nodes, renumbered, and the m edges between them."""

    nodes: tf.Tensor  # int32 [n], their numbers in the whole programs, ascending
    consumer: tf.Tensor  # int32 [m], where each edge begins
    producer: tf.Tensor  # int32 [m], where it ends
    program: tf.Tensor  # int32 [n], the program of each node
    sizes: tf.Tensor  # float32 [b, 1, 1], number of nodes in each program, at least 1

    def average_nodes(self, x: tf.Tensor) -> tf.Tensor:
        """Averages over the nodes of each program: [n, c, h] -> [b, c, h]."""
        sums = tf.math.unsorted_segment_sum(x, self.program, self.sizes.shape[0])
        return sums / self.sizes

    @property
    def adjacency(self) -> implicit.Multiplier:
        """Passes messages from consumers to producers: an [n, n] matrix."""
        ones = tf.ones(tf.shape(self.consumer))
        n = tf.size(self.nodes)
        entries = implicit.Entries(self.producer, self.consumer, ones)
        return implicit.Multiplier((n, n), entries)

    @property
    def both_ways(self) -> implicit.Multiplier:
        """Passes messages along all edges in both directions: an [n, n] matrix."""
        return self.adjacency + self.adjacency.transpose()


def cut_out(graph: tfgnn.GraphTensor, chosen: tf.Tensor) -> Neighbourhood:
    """Cuts nodes `chosen`, int32 [k], and their neighbours out of programs."""
    ops, feed = graph.node_sets['op'], graph.edge_sets['feed'].adjacency
    ends = [tf.cast(feed[end], tf.int32) for end in (tfgnn.SOURCE, tfgnn.TARGET)]
    total = tf.shape(ops['op'])[0]
    is_chosen = _make_mask(chosen, total)  # bool [total]
    kept = is_chosen
    # The other end of every edge that begins or ends at a chosen node.
    for end, other in (ends, ends[::-1]):
        reached = tf.boolean_mask(other, tf.gather(is_chosen, end))
        kept |= _make_mask(reached, total)
    nodes = tf.cast(tf.where(kept)[:, 0], tf.int32)
    inside = tf.gather(kept, ends[0]) & tf.gather(kept, ends[1])  # bool, per edge
    # `nodes` ascends, so the place of a node in it is its new number.
    consumer, producer = (
        tf.searchsorted(nodes, tf.boolean_mask(end, inside)) for end in ends
    )
    batch = graph.node_sets['g'].sizes.shape[0]
    program = tf.cast(graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE], tf.int32)
    program = tf.gather(program, nodes)
    sizes = tf.math.bincount(program, minlength=batch, maxlength=batch)
    # At least 1: the mean over no node is 0, not NaN.
    sizes = tf.cast(tf.maximum(sizes, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
    sizes = tf.ensure_shape(sizes, [batch, 1, 1])  # b is static, as models need it
    return Neighbourhood(nodes, consumer, producer, program, sizes)


class NeighbourhoodModel(tf.keras.Model):
    """Layers on configurable nodes and their neighbours, and the mean over them.

        x = MLP([features, opcode, own layout, configured layouts])
        x = layer(x)                                 `num_gnns` times
        score = w . mean over nodes of x

    Of layouts only their numbers are known: an embedding of each place of each
    layout, one table for nodes and configurations.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        scaling: `node_used`, `node_min`, `node_max` and the same for `config`:
            lists with an entry for each raw column; None: nothing is scaled.
        op_embed_dim: width of the opcode embedding.
        layout_embed_dim: width of the embedding of a place of a layout.
        hidden_dim: width of all hidden layers.
        num_gnns: number of layers.
        hidden_activation: a Keras activation.
        feature_dropout: share of hidden values that a training step leaves out.

    Raises:
        ValueError: an option is out of range.
    """

    is_base = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        scaling: Mapping[str, Sequence[float]] | None = None,
        op_embed_dim: int = 16,
        layout_embed_dim: int = 4,
        hidden_dim: int = 64,
        num_gnns: int = 2,
        hidden_activation: str = 'leaky_relu',
        feature_dropout: float = 0.0,
    ):
        super().__init__()
        kernels.at_least(1, op_embed_dim=op_embed_dim, hidden_dim=hidden_dim)
        kernels.at_least(1, layout_embed_dim=layout_embed_dim, num_gnns=num_gnns)
        if not 0 <= feature_dropout < 1:
            raise ValueError(
                f'feature_dropout is from 0 to below 1, not {feature_dropout}'
            )
        # Weights are saved in the order in which their layers are set here.
        dense = tf.keras.layers.Dense
        self._num_configs, self._width = num_configs, hidden_dim
        self._unscaled = Unscaled(scaling)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._op_embedding = tf.keras.layers.Embedding(num_ops, op_embed_dim)
        self._layout_embedding = dense(layout_embed_dim)
        self._of_node = dense(hidden_dim)
        self._of_config = dense(hidden_dim, use_bias=False)
        self._input = dense(hidden_dim)
        self._layers = [self._make_layer() for _ in range(num_gnns)]
        self._dropout = feature_dropout
        self._head = dense(1, use_bias=False)

    def _make_layer(self) -> Any:
        """Makes a layer, of which there are `num_gnns`."""
        raise NotImplementedError

    def _pass(self, number: int, x: tf.Tensor, part: Neighbourhood) -> tf.Tensor:
        """Applies layer `number` to x, float32 [n, c, hidden_dim]."""
        return self._layers[number](x, part)

    def call(self, graph: tfgnn.GraphTensor, training: bool = False) -> tf.Tensor:
        return self.forward(graph, self._num_configs, training=training)

    @tf.autograph.experimental.do_not_convert
    def forward(
        self,
        graph: tfgnn.GraphTensor,
        num_configs: int | tf.Tensor,
        dropout: str | None = None,
        backprop: Any = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Scores configurations: float32 [b, num_configs]; see `ResModel`."""
        del dropout, backprop
        config = graph.edge_sets['config'].adjacency
        chosen = tf.cast(config[tfgnn.TARGET], tf.int32)
        part = cut_out(graph, chosen)
        # [k, c, q], as rows [k * c, 18] -> [k * c, h].
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        layouts = self._unscaled.layouts(tf.reshape(configs, [-1, configs.shape[-1]]))
        layouts = self._of_config(self._embed_layouts(layouts))
        place = tf.searchsorted(part.nodes, chosen)[:, tf.newaxis]  # [k, 1]
        of_node = self._of_node(tf.concat(self._node_inputs(graph, part), 1))  # [n, h]
        # [n, c, h]: a node's row for all configurations, to which those of configurable
        # nodes add their layouts: the first layer applied to both, concatenated.
        x = tf.tensor_scatter_nd_add(
            tf.repeat(of_node[:, tf.newaxis], num_configs, 1),
            place,
            tf.reshape(layouts, [-1, num_configs, self._width]),
        )
        x = self._activation(self._input(self._activation(x)))
        for number in range(len(self._layers)):
            x = self._pass(number, x, part)
        x = kernels.dropout(x, self._dropout, training)
        # The head is linear, so it may come before the mean, which then has 1 channel.
        return part.average_nodes(self._head(x))[:, :, 0]

    def _node_inputs(
        self, graph: tfgnn.GraphTensor, part: Neighbourhood
    ) -> list[tf.Tensor]:
        """Gathers features, also as logarithms, embedded opcodes and own layouts."""
        ops = graph.node_sets['op']
        feats = tf.gather(ops['feats'], part.nodes)
        opcodes = tf.gather(tf.cast(ops['op'], tf.int32), part.nodes)
        return [
            feats,
            # Steep at 0, and below 1 for features up to 1: log(1 + 1e4) is 9.2.
            tf.sign(feats) * tf.math.log1p(1e4 * tf.abs(feats)) / 10.0,
            self._op_embedding(opcodes),
            self._embed_layouts(self._unscaled.read_own_layouts(feats)),
        ]

    def _embed_layouts(self, layouts: tf.Tensor) -> tf.Tensor:
        """Embeds each place: [rows, places] -> [rows, places * layout_embed_dim]."""
        embedded = self._layout_embedding(encode_places(layouts))
        return tf.reshape(embedded, [-1, layouts.shape[-1] * embedded.shape[-1]])


class Unscaled:
    """Undoes the scaling of the columns that hold layouts.

    Args:
        scaling: see `NeighbourhoodModel`.
    """

    def __init__(self, scaling: Mapping[str, Sequence[float]] | None):
        self._scaling = scaling

    def layouts(self, configs: tf.Tensor) -> tf.Tensor:
        """Reads the layouts of output, input, kernel: [rows, 18]; -1 where none is."""
        return self._read_raw('config', configs, range(len(schema.LAYOUT)), -1.0)

    def read_own_layouts(self, feats: tf.Tensor) -> tf.Tensor:
        """Reads the layouts that nodes have without a configuration: [n, 6]."""
        layouts = self._read_raw('node', feats, _NODE[schema.MINOR_TO_MAJOR], -1.0)
        dims = tf.round(self._read_raw('node', feats, _NODE[schema.DIMENSIONS], 0.0))
        rank = tf.math.count_nonzero(dims, 1, dtype=tf.int32)
        # With --pad=0 absent places hold 0, which is a dimension, too.
        return tf.where(tf.sequence_mask(rank, schema.RANK), layouts, -1.0)

    def _read_raw(
        self, part: str, x: tf.Tensor, columns: Sequence[int], missing: float
    ) -> tf.Tensor:
        """Reads raw columns, not rounded; `missing` where there is no such column."""
        used, low, high = [1.0] * x.shape[-1], [0.0] * x.shape[-1], [1.0] * x.shape[-1]
        if self._scaling is not None:
            used, low, high = (
                list(self._scaling[f'{part}_{name}']) for name in ('used', 'min', 'max')
            )
        # Raw column -> its place among the columns that are left after scaling.
        place = {c: i for i, c in enumerate(c for c, u in enumerate(used) if u)}
        index = [place.get(c, 0) for c in columns]
        # A column that was constant is left out there: everywhere it is its minimum.
        factor = [high[c] - low[c] if c in place else 0.0 for c in columns]
        offset = [low[c] if c < len(used) else missing for c in columns]
        return tf.gather(x, index, axis=1) * tf.constant(factor) + tf.constant(offset)


def encode_places(x: tf.Tensor) -> tf.Tensor:
    """Encodes numbers 0 to 5 as one-hot, linear in between: [..] -> [.., 6].

    All 0 for an absent dimension (-1), and for those from 6 on, whose sizes are not
    among the columns.
    """
    distance = tf.abs(x[..., tf.newaxis] - tf.range(schema.RANK, dtype=tf.float32))
    return tf.nn.relu(1.0 - distance)


def _make_mask(numbers: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Makes a mask, bool [size], that is true at `numbers`, int32."""
    return tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, size) > 0
