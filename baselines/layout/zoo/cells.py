"""Pairs of a configurable node and its layouts: what they know, and messages.

The pairs are called cells.  `AllPairs` has all of k nodes and c configurations;
when scoring, `baselines.layout.pruned` leaves out those that are equal, with the
same methods.  A cell's layer counts the messages that it has received.
"""

from typing import Any, List, NamedTuple, Tuple

import tensorflow as tf

from baselines.layout import sparse

# What messages are passed along: from the source of a node's input, of its
# kernel, from layouts that meet its own; and back, along all of these.
INPUT, KERNEL, MEETING, BACK = range(4)


class Prepared(NamedTuple):
    """Programs without their configurations.

    Attributes:
        configs: float32 [k, c, q], features of the configurable nodes.
        matrices: what messages are multiplied with, [k, k] each.
        affected: per layer how many nodes vary: k of them.
        bases: any structure of float32 [k, ..], what nodes know.
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
    """All pairs of a configurable node and a configuration, in this order."""

    def __init__(self, matrices: List[sparse.Matrix], member: tf.Tensor, num_configs):
        self._matrices = matrices
        self._member = member
        self._num_configs = num_configs

    def at_nodes(self, layer: int, base: tf.Tensor) -> tf.Tensor:
        """Gives every cell of a layer its node's row: [k, ..] -> [cells, ..]."""
        del layer
        return tf.repeat(base, self._num_configs, 0)

    def lift(self, layer: int, x: tf.Tensor) -> tf.Tensor:
        """Gives every cell of `layer` what it was in the layer before."""
        del layer
        return x

    def send(self, layer: int, along: int, x: tf.Tensor) -> tf.Tensor:
        """Passes messages along one matrix, from the layer before to `layer`."""
        del layer
        width = x.shape[-1]
        k = tf.shape(self._member)[0]
        y = sparse.multiply(self._matrices[along], self._wide(x), k)
        return tf.reshape(y, [-1, width])

    def ends(self, layer: int) -> Tuple[tf.Tensor, tf.Tensor]:
        """Cells that messages reach, and of the layer before, they come from."""
        del layer
        configs = tf.range(self._num_configs)

        def cells(nodes):
            pairs = nodes[:, tf.newaxis] * self._num_configs + configs
            return tf.reshape(pairs, [-1])

        return (
            tf.concat([cells(m.rows) for m in self._matrices], 0),
            tf.concat([cells(m.cols) for m in self._matrices], 0),
        )

    def softmax(self, x: tf.Tensor) -> tf.Tensor:
        """Of every column over the configurations of each node."""
        width = x.shape[-1]
        x = tf.reshape(x, [-1, self._num_configs, width])
        return tf.reshape(tf.nn.softmax(x, axis=1), [-1, width])

    def pool(self, x: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sums [b * c, h] over nodes that vary, and configurable ones: the same."""
        sums = tf.matmul(self._member, self._wide(x), transpose_a=True)
        sums = tf.reshape(sums, [-1, x.shape[-1]])
        return sums, sums

    def _wide(self, x: tf.Tensor) -> tf.Tensor:
        """One row for each node."""
        return tf.reshape(x, [-1, self._num_configs * x.shape[-1]])


class Messages:
    """Passes messages between cells, a layer further each time.

    Args:
        cells: `AllPairs`, or what has its methods.
        degrees: float32 [k, 2], edges in and out of every node.
        layer: where the cells are.
    """

    def __init__(self, cells, degrees: tf.Tensor, layer: int):
        self._cells, self._degrees, self._layer = cells, degrees, layer

    def sums(self, inwards, outwards) -> Tuple[tf.Tensor, tf.Tensor]:
        """Goes on by a layer; sums over sources, and over targets."""
        self._layer += 1
        along = (INPUT, KERNEL, MEETING)
        return (
            tf.add_n([self._cells.send(self._layer, one, inwards) for one in along]),
            self._cells.send(self._layer, BACK, outwards),
        )

    def attend(self, own, other, values) -> tf.Tensor:
        """Goes on by a layer; attention over sources, targets and itself.

        `own` and `other` are float32 [cells, heads], values [cells, heads, d].
        """
        self._layer += 1
        own = self.here(own)
        rows, cols = self._cells.ends(self._layer)
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
        return self._cells.lift(self._layer, x)

    def degrees(self) -> tf.Tensor:
        """float32 [cells, 2], edges in and out."""
        return self._cells.at_nodes(self._layer, self._degrees)

    def scale(self, self_loops: float) -> tf.Tensor:
        """D^-1/2 for edges in both directions: float32 [cells, 1], as of now."""
        degree = tf.reduce_sum(self.degrees(), 1, keepdims=True) + self_loops
        return tf.math.rsqrt(tf.maximum(degree, 1.0))
