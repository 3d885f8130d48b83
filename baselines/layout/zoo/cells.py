"""Pairs of a configurable node and its layouts, and messages between them.

The pairs are called cells.  `AllPairs` has all of k nodes and c configurations;
when scoring, `baselines.layout.pruned` leaves out those that are equal, with the
same methods.  A cell's layer counts the messages that it has received.
"""

from typing import Any, List, NamedTuple, Tuple, Union

import tensorflow as tf

from baselines.layout import sparse

# What messages are passed along: from the source of a node's input, of its
# kernel, and from layouts that meet its own.
INPUT, KERNEL, MEETING = range(3)


class Prepared(NamedTuple):
    """Programs without their configurations.

    Attributes:
        configs: float32 [k, c, q], features of the configurable nodes.
        matrices: what messages are multiplied with, [k, k] each.
        affected: per layer how many nodes vary: k of them.
        bases: any structure of float32 [k, ..], one row for each node.
        pooled: float32 [b, h], the sum over nodes that do not vary: 0.
        member: float32 [k, b], what a node counts in a program's sums.
    """

    configs: tf.Tensor
    matrices: List[sparse.Matrix]
    affected: List[tf.Tensor]
    bases: Any
    pooled: tf.Tensor
    member: tf.Tensor


class AllPairs:
    """All pairs of a configurable node and a configuration, in this order.

    Args:
        matrices: what messages are multiplied with, [k, k] each.
        member: float32 [k, b], what a node counts in a program's sums.
        num_configs: number of configurations, c.
    """

    def __init__(
        self,
        matrices: List[sparse.Matrix],
        member: tf.Tensor,
        num_configs: Union[int, tf.Tensor],
    ):
        self._matrices = matrices
        self._member = member
        self._num_configs = num_configs

    def at_nodes(self, layer: int, base: tf.Tensor) -> tf.Tensor:
        """Gives every cell of a layer its node's row: [k, ..] -> [cells, ..]."""
        del layer
        return tf.repeat(base, self._num_configs, 0)

    def lift(self, layer: int, x: tf.Tensor) -> tf.Tensor:
        """Gives every cell of `layer` its value of the layer before."""
        del layer
        return x

    def send(self, layer: int, along: int, x: tf.Tensor) -> tf.Tensor:
        """Passes messages along one matrix, from the layer before to `layer`."""
        del layer
        width = x.shape[-1]
        k = tf.shape(self._member)[0]
        y = sparse.multiply(self._matrices[along], self._wide(x), k)
        return tf.reshape(y, [-1, width])

    def pool(self, x: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sums [b * c, h] over nodes that vary, and configurable ones: the same."""
        sums = tf.matmul(self._member, self._wide(x), transpose_a=True)
        sums = tf.reshape(sums, [-1, x.shape[-1]])
        return sums, sums

    def _wide(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes to one row for each node."""
        return tf.reshape(x, [-1, self._num_configs * x.shape[-1]])
