"""A model that knows what padding costs products."""

import tensorflow as tf

from baselines.layout.zoo import effects
from baselines.layout.zoo import physical
from baselines.layout.zoo import products


class PaddedSAGE(physical.PhysicalModel):
    """The padded work of products, and `PhysicalModel`, which adds nothing at first.

        score = g * sum_i share_i * padded_i  +  score of `PhysicalModel`

    with the shares and the padding of `products`.  Untrained it ranks by this
    formula, and the data may overrule it; what is learned sees shares and padding,
    too, and its amounts are relative to the program's time.  Layouts that a
    configuration leaves out are row major, and other padding counts up to 4 times:
    no machine would have room for more.

    Args: those of `PhysicalModel`.
    """

    _head_initializer = 'zeros'
    _most_waste = 4.0  # no array is filled up to more

    def __init__(self, num_configs: int, num_ops: int, **options):
        super().__init__(num_configs, num_ops, **options)
        self._gain = self.add_weight(
            'log_gain', [], initializer=lambda *_, **__: tf.math.log(30.0)
        )

    def _more_facts(self, arrays, operands, chosen, member):
        return products.find(arrays, operands, chosen, member)

    def _relative(self, weight, amounts, more, member):
        # In bytes that could be moved in the time of the program: where products
        # take it all, nothing else counts.
        moved = tf.reduce_sum(amounts, 1, keepdims=True)
        moved = tf.matmul(member, tf.matmul(member, moved, transpose_a=True))
        return 100.0 * weight / (moved + more.total / products.PER_BYTE + 1.0)

    def _fastest(self, facts, configs, cells):
        fastest = super()._fastest(facts, configs, cells)
        return effects.or_row_major(fastest, cells.at_nodes(0, facts.dims))

    def _effects(self, facts, fastest, cells):
        found = products.Products(*(cells.at_nodes(0, x) for x in facts.more))
        padded = products.padded(found, fastest[:, 0])
        return [
            *super()._effects(facts, fastest, cells),
            tf.math.log(tf.minimum(padded, 16.0)),
            tf.math.log(found.share + 1e-6) / 10.0,
        ]

    def _pooled(self, x, facts, fastest, cells):
        found = products.Products(*(cells.at_nodes(0, y) for y in facts.more))
        work = found.share * products.padded(found, fastest[:, 0])
        return cells.pool(tf.concat([x, cells.lift(self.num_gnns, work)], 1))

    @property
    def _pooled_width(self):
        return super()._pooled_width + 1

    def read_out(self, total, configurable, sizes):
        """See `ResModel.read_out`."""
        rest = super().read_out(total[:, :-1], configurable, sizes)
        return rest + tf.exp(self._gain) * total[:, -1:]
