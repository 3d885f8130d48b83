"""Matrices that are multiplied with but never formed, over a GraphTensor.

A multiplier stands for a sparse matrix.  `multiplier @ x` is one sparse-dense
product over the first axis of `x`, whatever the other axes are: for
`x: [nodes, configurations, features]` the rows are used as they lie in
memory, so nothing large is transposed or copied.

    adj = AdjacencyMultiplier(graph, 'feed')
    both = adj + adj.transpose()                   # messages both ways
    y = both @ x                                   # sum over the neighbours
    y = both.add_eye().normalize_symmetric() @ x   # one GCN aggregation

Sums, transposes and diagonal scalings are folded into one list of entries
before the product, so an expression costs one pass over its edges.
"""

import abc
from typing import NamedTuple, Optional, Tuple, Union

import tensorflow as tf
import tensorflow_gnn as tfgnn

_Size = Union[int, tf.Tensor]


class _Entries(NamedTuple):
    """A sparse matrix as coordinates; repeated coordinates add up."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]

    def transposed(self) -> '_Entries':
        return _Entries(self.cols, self.rows, self.values)


class Multiplier(abc.ABC):
    """A matrix known by what it does to a tensor."""

    @property
    @abc.abstractmethod
    def shape(self) -> Tuple[_Size, _Size]:
        """(rows, columns), each an int or a scalar int32 tensor."""

    @abc.abstractmethod
    def _entries(self) -> Optional[_Entries]:
        """The matrix as coordinates; None where it has to be applied in steps."""

    def _apply(self, x: tf.Tensor) -> tf.Tensor:
        """The product with a matrix [columns, d], where entries are None."""
        raise NotImplementedError(type(self).__name__)

    def __matmul__(self, x: tf.Tensor) -> tf.Tensor:
        """Multiplies along the first axis: [columns, ...] -> [rows, ...]."""
        x = tf.convert_to_tensor(x)
        if x.shape.rank == 2:
            return self._times(x)
        shape = tf.shape(x)
        flat = tf.reshape(x, [shape[0], tf.reduce_prod(shape[1:])])
        y = self._times(flat)
        y = tf.reshape(y, tf.concat([tf.shape(y)[:1], shape[1:]], 0))
        y.set_shape([None] + x.shape.as_list()[1:])
        return y

    def _times(self, x: tf.Tensor) -> tf.Tensor:
        entries = self._entries()
        if entries is None:
            return self._apply(x)
        return tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=tf.stack([entries.rows, entries.cols], axis=1),
            a_values=tf.cast(entries.values, x.dtype),
            a_shape=tf.cast(tf.stack(self.shape), tf.int64),
            b=x,
        )

    def __add__(self, other: 'Multiplier') -> 'Multiplier':
        return Sum(self, other)

    def transpose(self) -> 'Multiplier':
        """The transposed matrix."""
        return Transpose(self)

    def add_eye(self, diag_weight: float = 1.0) -> 'Multiplier':
        """The (square) matrix plus `diag_weight` times the identity."""
        weight = tf.fill([self.shape[0]], tf.cast(diag_weight, tf.float32))
        return Sum(self, DiagMatrix(weight))

    def rowsums(self, replace_if_0: Optional[float] = None) -> tf.Tensor:
        """Sums over each row, float32 [rows]; zeros become `replace_if_0`."""
        return _sums(self, replace_if_0)

    def colsums(self, replace_if_0: Optional[float] = None) -> tf.Tensor:
        """Sums over each column, float32 [columns]."""
        return _sums(self.transpose(), replace_if_0)

    def normalize_left(self) -> 'Multiplier':
        """D^-1 A, with D the row sums: every row then sums to 1."""
        return Product(DiagMatrix(1.0 / self.rowsums(1.0)), self)

    def normalize_right(self) -> 'Multiplier':
        """A D^-1, with D the column sums: every column then sums to 1."""
        return Product(self, DiagMatrix(1.0 / self.colsums(1.0)))

    def normalize_leftright(self) -> 'Multiplier':
        """D^-1/2 A E^-1/2, with D the row sums and E the column sums."""
        left = DiagMatrix(tf.math.rsqrt(self.rowsums(1.0)))
        right = DiagMatrix(tf.math.rsqrt(self.colsums(1.0)))
        return Product(Product(left, self), right)

    def normalize_symmetric(self) -> 'Multiplier':
        """D^-1/2 A D^-1/2 for a symmetric A, with D its row sums."""
        scale = DiagMatrix(tf.math.rsqrt(self.rowsums(1.0)))
        return Product(Product(scale, self), scale)


def _sums(matrix: Multiplier, replace_if_0: Optional[float]) -> tf.Tensor:
    sums = tf.squeeze(matrix @ tf.ones([matrix.shape[1], 1]), axis=1)
    if replace_if_0 is None:
        return sums
    return tf.where(sums == 0.0, tf.fill(tf.shape(sums), replace_if_0), sums)


class AdjacencyMultiplier(Multiplier):
    """The adjacency matrix of one edge set: rows are targets, columns sources.

    `(A @ x)[v]` is the sum of `x[u]` over the edges u -> v; an edge that is
    there twice counts twice.

    Args:
        graph: a scalar GraphTensor; its components may be several graphs.
        edge_set_name: for `feed` A passes messages from consumers to
            producers; for `g_op` it copies a graph's row to its nodes, and its
            transpose sums the nodes of each graph.
    """

    def __init__(self, graph: tfgnn.GraphTensor, edge_set_name: str):
        adjacency = graph.edge_sets[edge_set_name].adjacency
        self._rows = tf.cast(adjacency[tfgnn.TARGET], tf.int32)
        self._cols = tf.cast(adjacency[tfgnn.SOURCE], tf.int32)
        self._shape = (
            _num_nodes(graph, adjacency.node_set_name(tfgnn.TARGET)),
            _num_nodes(graph, adjacency.node_set_name(tfgnn.SOURCE)),
        )

    @property
    def shape(self):
        return self._shape

    def _entries(self):
        ones = tf.ones(tf.shape(self._rows), tf.float32)
        return _Entries(self._rows, self._cols, ones)


def _num_nodes(graph: tfgnn.GraphTensor, node_set_name: str) -> tf.Tensor:
    return tf.cast(graph.node_sets[node_set_name].total_size, tf.int32)


class DiagMatrix(Multiplier):
    """A square matrix with `diagonal`, float [n], on its diagonal."""

    def __init__(self, diagonal: tf.Tensor):
        self._diagonal = tf.convert_to_tensor(diagonal)

    @property
    def shape(self):
        size = tf.shape(self._diagonal)[0]
        return (size, size)

    def transpose(self):
        return self

    def _entries(self):
        index = tf.range(tf.shape(self._diagonal)[0])
        return _Entries(index, index, self._diagonal)

    def _times(self, x):
        return self._diagonal[:, tf.newaxis] * x

    def scale_rows(self, entries: _Entries) -> _Entries:
        """The entries of (this @ matrix)."""
        factors = tf.gather(self._diagonal, entries.rows)
        return entries._replace(values=factors * entries.values)


class Transpose(Multiplier):
    """The transpose of a multiplier."""

    def __init__(self, matrix: Multiplier):
        self._matrix = matrix

    @property
    def shape(self):
        return self._matrix.shape[::-1]

    def transpose(self):
        return self._matrix

    def _entries(self):
        entries = self._matrix._entries()
        return None if entries is None else entries.transposed()

    def _apply(self, x):
        # Only a sum or product has no entries; both know their transpose.
        return self._matrix.transpose()._times(x)


class Sum(Multiplier):
    """The sum of multipliers of one shape."""

    def __init__(self, *terms: Multiplier):
        self._terms = terms

    @property
    def shape(self):
        return self._terms[0].shape

    def transpose(self):
        return Sum(*[term.transpose() for term in self._terms])

    def _entries(self):
        parts = [term._entries() for term in self._terms]
        if any(part is None for part in parts):
            return None
        return _Entries(*[tf.concat(column, 0) for column in zip(*parts)])

    def _apply(self, x):
        return tf.add_n([term._times(x) for term in self._terms])


class Product(Multiplier):
    """The matrix product of multipliers, leftmost first."""

    def __init__(self, *factors: Multiplier):
        self._factors = factors

    @property
    def shape(self):
        return (self._factors[0].shape[0], self._factors[-1].shape[1])

    def transpose(self):
        return Product(*[f.transpose() for f in reversed(self._factors)])

    def _entries(self):
        # Diagonal factors fold into the one that is not; two general sparse
        # factors are multiplied one after the other instead.
        general = [
            i for i, f in enumerate(self._factors) if not isinstance(f, DiagMatrix)
        ]
        if len(general) > 1:
            return None
        middle = general[0] if general else len(self._factors) - 1
        entries = self._factors[middle]._entries()
        if entries is None:
            return None
        for left in reversed(self._factors[:middle]):
            entries = left.scale_rows(entries)
        for right in self._factors[middle + 1 :]:
            entries = right.scale_rows(entries.transposed()).transposed()
        return entries

    def _apply(self, x):
        for factor in reversed(self._factors):
            x = factor._times(x)
        return x
