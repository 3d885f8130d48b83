"""The competition winners' model: everything about layouts is learned."""

from typing import Any, List, NamedTuple, Optional

import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.layout import sparse
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import options


class _Pruned(NamedTuple):
    """The part of programs that is looked at: n nodes of b programs."""

    consumers: sparse.Matrix  # means over them, [n, n]
    producers: sparse.Matrix
    program: tf.Tensor  # int32 [n]
    sizes: tf.Tensor  # float32 [b, 1, 1], nodes of each


class TGraph(tf.keras.Model):
    """GraphSAGE with attention over channels and over configurations.

    As in Khizbullin et al., "Graph neural networks with configuration
    cross-attention for tensor compilers" (arXiv 2405.16623), which won the
    competition.  It knows of layouts only which numbers they are: an embedding of
    each place of each layout, one table for nodes and configurations, stands beside
    the features of nodes and an embedding of their opcodes.  A program is pruned to
    its configurable nodes and their neighbours.  Then, for c configurations:

        x = MLP([features, opcode, own layout, configured layouts])
        h = SAGE(norm(x))                            `num_gnns` times
        h = h * sigmoid(V relu(U h))                 over channels
        h = h * c softmax(h / temperature)           over configurations
        x = gelu(x + h)
        score = w . mean over nodes of x

    norm is over the nodes of a program, for each configuration and channel; the
    temperature is learned.  Here SAGE has weights of its own for consumers and for
    producers, features enter also as logarithms, and the softmax is times c, so that
    its scale does not depend on the length of the list.  The scores do: they compare
    its configurations.  Published are a width of 256, 64 to 128 configurations, one
    program per step, PairwiseHingeLoss, AdamW at 1e-3 with a cosine and 5 % of
    warm-up, dropout of 0.2 and the mean of 5 to 20 models.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        scaling: see `PhysicalModel`; None: nothing is scaled.
        op_embed_dim: width of the opcode embedding.
        layout_embed_dim: width of the embedding of a place of a layout.
        hidden_dim: width of all hidden layers.
        num_gnns: number of layers.
        hidden_activation: a Keras activation.
        feature_dropout: share of hidden values that a training step leaves out.

    Raises:
        ValueError: an option is out of range.
    """

    scores_depend_on_list = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        scaling: arrays_lib.Scaling = None,
        op_embed_dim: int = 16,
        layout_embed_dim: int = 4,
        hidden_dim: int = 256,
        num_gnns: int = 2,
        hidden_activation: str = 'gelu',
        feature_dropout: float = 0.0,
    ):
        super().__init__()
        options.at_least_1(
            op_embed_dim=op_embed_dim,
            layout_embed_dim=layout_embed_dim,
            hidden_dim=hidden_dim,
            num_gnns=num_gnns,
        )
        dense = tf.keras.layers.Dense
        self._num_configs, self._width = num_configs, hidden_dim
        self._unscaled = arrays_lib.Unscaled(scaling)
        self._activation = tf.keras.activations.get(hidden_activation)
        self._op_embedding = tf.keras.layers.Embedding(num_ops, op_embed_dim)
        self._layout_embedding = dense(layout_embed_dim)
        self._of_node = dense(hidden_dim)
        self._of_config = dense(hidden_dim, use_bias=False)
        self._input = dense(hidden_dim)
        self._layers = [self._make_layer() for _ in range(num_gnns)]
        self._dropout = options.dropout(feature_dropout)
        self._head = dense(1, use_bias=False)
        self._temperatures = [
            self.add_weight(f'log_temperature_{number}', [], initializer='zeros')
            for number in range(num_gnns)
        ]

    def _make_layer(self) -> List[tf.keras.layers.Layer]:
        dense, width = tf.keras.layers.Dense, self._width
        return [
            dense(width),
            dense(width, use_bias=False),
            dense(width, use_bias=False),
            dense(max(width // 8, 1), activation='relu'),
            dense(width, activation='sigmoid'),
        ]

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
        config = graph.edge_sets['config'].adjacency
        chosen = tf.cast(config[tfgnn.TARGET], tf.int32)
        kept, part = _pruned(graph, chosen)
        ops = graph.node_sets['op']
        feats = tf.gather(ops['feats'], kept)
        nodes = [
            feats,
            tf.sign(feats) * tf.math.log1p(1e4 * tf.abs(feats)) / 10.0,
            self._op_embedding(tf.gather(tf.cast(ops['op'], tf.int32), kept)),
            self._embedded(self._unscaled.own_layout(feats)),
        ]
        configs = tf.gather(graph.node_sets['nconfig']['feats'], config[tfgnn.SOURCE])
        layouts = self._unscaled.layouts(tf.reshape(configs, [-1, configs.shape[-1]]))
        layouts = self._of_config(self._embedded(tf.reshape(layouts, [-1, 18])))
        place = tf.searchsorted(kept, chosen)[:, tf.newaxis]
        x = tf.tensor_scatter_nd_add(
            tf.repeat(self._of_node(tf.concat(nodes, 1))[:, None], num_configs, 1),
            place,
            tf.reshape(layouts, [-1, num_configs, self._width]),
        )
        x = self._activation(self._input(self._activation(x)))
        for layer, temperature in zip(self._layers, self._temperatures):
            x = self._passed(x, layer, temperature, part)
        x = self._dropout(x, training=training)
        return _means(self._head(x), part)[:, :, 0]

    def _embedded(self, layouts: tf.Tensor) -> tf.Tensor:
        """Embeds each place: [rows, places] -> [rows, places * layout_embed_dim]."""
        found = self._layout_embedding(effects.hat(layouts))
        return tf.reshape(found, [-1, layouts.shape[-1] * found.shape[-1]])

    def _passed(self, x, layer, temperature, part: _Pruned) -> tf.Tensor:
        own, inwards, outwards, squeeze, excite = layer
        centred = x - tf.gather(_means(x, part), part.program)
        variance = tf.gather(_means(centred**2, part), part.program)
        y = centred * tf.math.rsqrt(variance + 1e-3)
        h = own(y) + _sent(part.consumers, inwards(y))
        h += _sent(part.producers, outwards(y))
        h *= excite(squeeze(h))
        count = tf.cast(tf.shape(h)[1], tf.float32)
        h *= count * tf.nn.softmax(h * tf.exp(-temperature), axis=1)
        return self._activation(x + h)


def _pruned(graph: tfgnn.GraphTensor, chosen: tf.Tensor):
    """Keeps nodes `chosen` and their neighbours: numbers int32 [n], and the rest."""
    ops, feed = graph.node_sets['op'], graph.edge_sets['feed'].adjacency
    ends = [tf.cast(feed[end], tf.int32) for end in (tfgnn.SOURCE, tfgnn.TARGET)]
    total = tf.shape(ops['op'])[0]
    near = sparse.marked(chosen, total)
    for end, other in (ends, ends[::-1]):
        reached = tf.boolean_mask(other, tf.gather(sparse.marked(chosen, total), end))
        near |= sparse.marked(reached, total)
    kept = sparse.where(near)
    inside = tf.gather(near, ends[0]) & tf.gather(near, ends[1])
    consumer, producer = (
        tf.searchsorted(kept, tf.boolean_mask(end, inside)) for end in ends
    )
    batch = graph.node_sets['g'].sizes.shape[0]
    program = tf.cast(graph.edge_sets['g_op'].adjacency[tfgnn.SOURCE], tf.int32)
    program = tf.gather(program, kept)
    sizes = tf.math.bincount(program, minlength=batch, maxlength=batch)
    sizes = tf.cast(tf.maximum(sizes, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
    count = tf.size(kept)
    return kept, _Pruned(
        _mean_over(producer, consumer, count),
        _mean_over(consumer, producer, count),
        program,
        tf.ensure_shape(sizes, [batch, 1, 1]),
    )


def _mean_over(rows, cols, count) -> sparse.Matrix:
    """The matrix of means of what `cols` have over the edges of each row."""
    degree = tf.math.unsorted_segment_sum(tf.ones(tf.shape(rows)), rows, count)
    return sparse.Matrix(rows, cols, 1.0 / tf.gather(degree, rows))


def _sent(matrix: sparse.Matrix, x: tf.Tensor) -> tf.Tensor:
    """The product with [n, c, h]."""
    shape = tf.shape(x)
    wide = tf.reshape(x, [shape[0], shape[1] * x.shape[-1]])
    return tf.reshape(sparse.multiply(matrix, wide, shape[0]), shape)


def _means(x: tf.Tensor, part: _Pruned) -> tf.Tensor:
    """Means over the nodes of each program: [n, c, h] -> [b, c, h]."""
    sums = tf.math.unsorted_segment_sum(x, part.program, part.sizes.shape[0])
    return sums / part.sizes
