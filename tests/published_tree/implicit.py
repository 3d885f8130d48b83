"""Stands in for the published `tpu_graphs.baselines.tiles.implicit`.

The plain way: a product gathers the sources' rows and sums them by target.
It offers what docs/design-contracts.md, 5, names, and nothing else.
"""

import tensorflow as tf
import tensorflow_gnn as tfgnn


class Multiplier:
    """A matrix; `_left(x)` is M x, `_right(x)` is M' x, `_size` its rows, columns."""

    def __matmul__(self, x):
        return self._left(x)

    def __add__(self, other):
        return Sum(self, other)

    def transpose(self):
        return Transpose(self)

    def add_eye(self, diag_weight=1.0):
        return Sum(self, DiagMatrix(tf.fill([self._size[0]], diag_weight)))

    def rowsums(self, replace_if_0=None):
        sums = self._left(tf.ones([self._size[1]]))
        if replace_if_0 is not None:
            sums = tf.where(sums == 0, replace_if_0 * tf.ones_like(sums), sums)
        return sums

    def colsums(self, replace_if_0=None):
        return Transpose(self).rowsums(replace_if_0)

    def normalize_left(self):
        return Product(DiagMatrix(1 / self.rowsums(1.0)), self)

    def normalize_right(self):
        return Product(self, DiagMatrix(1 / self.colsums(1.0)))

    def normalize_leftright(self):
        left = DiagMatrix(self.rowsums(1.0) ** -0.5)
        return Product(Product(left, self), DiagMatrix(self.colsums(1.0) ** -0.5))

    def normalize_symmetric(self):
        scale = DiagMatrix(self.rowsums(1.0) ** -0.5)
        return Product(Product(scale, self), scale)


class AdjacencyMultiplier(Multiplier):
    def __init__(self, graph, edge_set_name):
        adjacency = graph.edge_sets[edge_set_name].adjacency
        self._ends = adjacency.target, adjacency.source
        self._size = tuple(
            graph.node_sets[adjacency.node_set_name(end)].total_size
            for end in (tfgnn.TARGET, tfgnn.SOURCE)
        )

    def _left(self, x):
        rows, cols = self._ends
        return tf.math.unsorted_segment_sum(tf.gather(x, cols), rows, self._size[0])

    def _right(self, x):
        rows, cols = self._ends
        return tf.math.unsorted_segment_sum(tf.gather(x, rows), cols, self._size[1])


class DiagMatrix(Multiplier):
    def __init__(self, diagonal):
        self._diagonal = diagonal
        self._size = (tf.size(diagonal),) * 2

    def _left(self, x):
        ones = [1] * (len(x.shape) - 1)
        return tf.reshape(self._diagonal, [-1, *ones]) * x

    _right = _left


class Transpose(Multiplier):
    def __init__(self, inner):
        self._size = inner._size[::-1]
        self._left, self._right = inner._right, inner._left


class Sum(Multiplier):
    def __init__(self, a, b):
        self._terms, self._size = (a, b), a._size

    def _left(self, x):
        return self._terms[0]._left(x) + self._terms[1]._left(x)

    def _right(self, x):
        return self._terms[0]._right(x) + self._terms[1]._right(x)


class Product(Multiplier):
    def __init__(self, a, b):
        self._factors, self._size = (a, b), (a._size[0], b._size[1])

    def _left(self, x):
        return self._factors[0]._left(self._factors[1]._left(x))

    def _right(self, x):
        return self._factors[1]._right(self._factors[0]._right(x))
