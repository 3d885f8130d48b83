"""The competition winners' model: everything about layouts is learned."""

from typing import Any

import tensorflow as tf

from baselines.layout.zoo import neighbourhood


class TGraph(neighbourhood.NeighbourhoodModel):
    """GraphSAGE with attention over channels and over configurations.

    As in Khizbullin et al., "Graph neural networks with configuration
    cross-attention for tensor compilers" (arXiv 2405.16623), which won the
    competition.  A program is pruned to its configurable nodes and their
    neighbours.  Then, for c configurations:

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
        hidden_dim: width of all hidden layers.
        hidden_activation: a Keras activation.
        The others are those of `NeighbourhoodModel`.

    Raises:
        ValueError: an option is out of range.
    """

    scores_depend_on_list = True

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        hidden_dim: int = 256,
        hidden_activation: str = 'gelu',
        **options: Any,
    ):
        super().__init__(
            num_configs,
            num_ops,
            hidden_dim=hidden_dim,
            hidden_activation=hidden_activation,
            **options,
        )
        # Their exponentials are positive whatever is learned, and 1 at first.
        self._temperatures = [
            self.add_weight(f'log_temperature_{number}', [], initializer='zeros')
            for number in range(len(self._layers))
        ]

    def _make_layer(self) -> list[tf.keras.layers.Layer]:
        dense, width = tf.keras.layers.Dense, self._width
        return [
            dense(width),
            dense(width, use_bias=False),
            dense(width, use_bias=False),
            dense(max(width // 8, 1), activation='relu'),
            dense(width, activation='sigmoid'),
        ]

    def _pass(
        self, number: int, x: tf.Tensor, part: neighbourhood.Neighbourhood
    ) -> tf.Tensor:
        own, inwards, outwards, squeeze, excite = self._layers[number]
        # The norm: mean and variance [b, c, h] over the nodes of a program, gathered
        # for each node.
        centred = x - tf.gather(part.average_nodes(x), part.program)  # [n, c, h]
        variance = tf.gather(part.average_nodes(centred**2), part.program)
        y = centred * tf.math.rsqrt(variance + 1e-3)
        to_producers, to_consumers = part.adjacency, part.adjacency.transpose()
        # GraphSAGE, attention over channels, attention over configurations.
        h = own(y) + to_producers.normalize_left() @ inwards(y)
        h += to_consumers.normalize_left() @ outwards(y)
        h *= excite(squeeze(h))
        count = tf.cast(tf.shape(h)[1], tf.float32)
        h *= count * tf.nn.softmax(h * tf.exp(-self._temperatures[number]), axis=1)
        return self._activation(x + h)
