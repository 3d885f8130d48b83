"""A model that knows what padding costs products."""

import tensorflow as tf

from baselines.layout.zoo import effects
from baselines.layout.zoo import facts as facts_lib
from baselines.layout.zoo import physical
from baselines.layout.zoo import products


class PaddedSAGE(physical.PhysicalModel):
    """The padded work of products, and `PhysicalModel`, which adds nothing at first.

        score = g * log(1 + p) + c / (1 + p)
        p     = sum_i share_i * (padded_i - 1)

    p is how much longer a program takes, of its products and the traffic of their
    arrays, because of how layouts pad products (`products`), and c the score of
    `PhysicalModel`: the change of the logarithm of a time is a change over that time.
    Untrained it ranks by p, and stays so where no epoch of a training ranks the
    validation split better (`ranks_untrained`).  The learned amounts are
    relative to the program's time; they include products, with shares and padding
    seen, and each has a part between -1 and 1: what the model has never seen is no
    more than that.  Layouts that a configuration leaves out are row major.

    Args: those of `PhysicalModel`.
    """

    ranks_untrained = True
    _head_initializer = 'zeros'
    _most_waste = 16.0  # no machine would have room for more
    _more_kinds = 1
    _more_pooled = 1

    def __init__(self, num_configs: int, num_ops: int, **options):
        super().__init__(num_configs, num_ops, **options)
        self._gain = self.add_weight(
            'log_gain', [], initializer=lambda *_, **__: tf.math.log(30.0)
        )

    def _amounts(self, amounts, arrays, operands, chosen, member):
        found = products.find(arrays, operands, chosen, member)
        moved = _of_program(amounts[:, : facts_lib.KNOWN_AMOUNTS], member)
        found = products.beside_traffic(found, moved)
        # In bytes that could be moved in the time.
        more = found.share * found.total / products.PER_BYTE
        return tf.concat([amounts, more], 1), found

    def _relative(self, weight, amounts, more, member):
        del more
        return 100.0 * weight / (_of_program(amounts, member) + 1.0)

    def _fastest(self, facts, configs, cells):
        fastest = super()._fastest(facts, configs, cells)
        return effects.or_row_major(fastest, cells.at_nodes(0, facts.known.dims))

    def _effects(self, facts, fastest, cells):
        found, padded = _padded(facts, fastest, cells)
        return [
            *super()._effects(facts, fastest, cells),
            tf.math.log(tf.minimum(padded, 16.0)),
            tf.math.log(found.share + 1e-6) / 10.0,
        ]

    def _bounded(self, x):
        return tf.tanh(x)

    def _pooled(self, x, facts, fastest, cells):
        found, padded = _padded(facts, fastest, cells)
        more = found.share * (padded - 1.0)
        return cells.pool(tf.concat([x, cells.lift(self.num_gnns, more)], 1))

    def read_out(self, total, configurable, sizes):
        """See `ResModel.read_out`."""
        time = 1.0 + total[:, -1:]
        rest = super().read_out(total[:, :-1], configurable, sizes)
        return tf.exp(self._gain) * tf.math.log(time) + rest / time


def _padded(facts, fastest, cells):
    """The products of cells, and how many times as much padding makes of them."""
    found = products.Products(*(cells.at_nodes(0, x) for x in facts.more))
    return found, products.padded(found, fastest[:, 0])


def _of_program(amounts: tf.Tensor, member: tf.Tensor) -> tf.Tensor:
    """The sum of all amounts of a node's program: [k, a] -> [k, 1]."""
    total = tf.reduce_sum(amounts, 1, keepdims=True)
    return tf.matmul(member, tf.matmul(member, total, transpose_a=True))
