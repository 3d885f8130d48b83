"""Matrices that are multiplied with but never formed, over a GraphTensor.

A multiplier represents a sparse matrix.  `multiplier @ x` is one sparse-dense
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

from typing import NamedTuple, Optional, Tuple, Union

import tensorflow as tf
import tensorflow_gnn as tfgnn

_Size = Union[int, tf.Tensor]


class Entries(NamedTuple):
    """A sparse matrix as coordinates; repeated coordinates add up."""

    rows: tf.Tensor  # int32 [entries]
    cols: tf.Tensor  # int32 [entries]
    values: tf.Tensor  # float32 [entries]

    def transposed(self) -> 'Entries':
        return Entries(self.cols, self.rows, self.values)


class Multiplier:
    """A matrix that multiplies tensors, and is never formed.

    Attributes:
        shape: (rows, columns), each an int or a scalar int32 tensor.
        entries: the matrix as coordinates; None where it has to be applied in
            steps.
    """

    def __init__(self, shape: Tuple[_Size, _Size], entries: Optional[Entries]):
        self.shape = shape
        self.entries = entries

    def __matmul__(self, x: tf.Tensor) -> tf.Tensor:
        """Multiplies along the first axis: [columns, ...] -> [rows, ...]."""
        x = tf.convert_to_tensor(x)
        if x.shape.rank == 2:
            return self._multiply(x)
        shape = tf.shape(x)
        # [columns, d]: rows as they lie in memory, so nothing is copied.
        flat = tf.reshape(x, [shape[0], tf.reduce_prod(shape[1:])])
        y = self._multiply(flat)
        y = tf.reshape(y, tf.concat([tf.shape(y)[:1], shape[1:]], 0))
        y.set_shape([None] + x.shape.as_list()[1:])  # which the reshape forgets
        return y

    def _multiply(self, x: tf.Tensor) -> tf.Tensor:
        """Multiplies with a matrix [columns, d]."""
        entries = self._all_entries()
        # Takes int32 indices, in any order and repeated: such entries add up.
        return tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=tf.stack([entries.rows, entries.cols], axis=1),
            a_values=tf.cast(entries.values, x.dtype),
            a_shape=tf.cast(tf.stack(self.shape), tf.int64),
            b=x,
        )

    def _all_entries(self) -> Entries:
        """Returns the entries; classes without entries override its callers."""
        if self.entries is None:
            raise NotImplementedError
        return self.entries

    def __add__(self, other: 'Multiplier') -> 'Multiplier':
        return Sum(self, other)

    def transpose(self) -> 'Multiplier':
        """Returns the transposed matrix."""
        return Multiplier(self.shape[::-1], self._all_entries().transposed())

    def add_eye(self, diag_weight: float = 1.0) -> 'Multiplier':
        """Adds `diag_weight` times the identity to the (square) matrix."""
        weight = tf.fill([self.shape[0]], tf.cast(diag_weight, tf.float32))
        return Sum(self, DiagMatrix(weight))

    def rowsums(self, replace_if_0: Optional[float] = None) -> tf.Tensor:
        """Sums over each row, float32 [rows]; zeros become `replace_if_0`."""
        return _sums(self, replace_if_0)

    def colsums(self, replace_if_0: Optional[float] = None) -> tf.Tensor:
        """Sums over each column, float32 [columns]."""
        return _sums(self.transpose(), replace_if_0)

    def normalize_left(self) -> 'Multiplier':
        """Makes D^-1 A, with D the row sums: every row then sums to 1."""
        # An empty row has the sum 0, replaced by 1: it stays 0 and does not become NaN.
        return Product(DiagMatrix(1.0 / self.rowsums(1.0)), self)

    def normalize_right(self) -> 'Multiplier':
        """Makes A D^-1, with D the column sums: every column then sums to 1."""
        return Product(self, DiagMatrix(1.0 / self.colsums(1.0)))

    def normalize_leftright(self) -> 'Multiplier':
        """Makes D^-1/2 A E^-1/2, with D the row sums and E the column sums."""
        left = DiagMatrix(tf.math.rsqrt(self.rowsums(1.0)))
        right = DiagMatrix(tf.math.rsqrt(self.colsums(1.0)))
        return Product(Product(left, self), right)

    def normalize_symmetric(self) -> 'Multiplier':
        """Makes D^-1/2 A D^-1/2 for a symmetric A, with D its row sums."""
        scale = DiagMatrix(tf.math.rsqrt(self.rowsums(1.0)))
        return Product(Product(scale, self), scale)


def _sums(matrix: Multiplier, replace_if_0: Optional[float]) -> tf.Tensor:
    """Sums over each row; see `Multiplier.rowsums`."""
    # A product with ones, so it needs no entries: [rows, 1].
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
        rows = tf.cast(adjacency[tfgnn.TARGET], tf.int32)
        cols = tf.cast(adjacency[tfgnn.SOURCE], tf.int32)
        shape = (
            _num_nodes(graph, adjacency.node_set_name(tfgnn.TARGET)),
            _num_nodes(graph, adjacency.node_set_name(tfgnn.SOURCE)),
        )
        ones = tf.ones(tf.shape(rows), tf.float32)
        super().__init__(shape, Entries(rows, cols, ones))


def _num_nodes(graph: tfgnn.GraphTensor, node_set_name: str) -> tf.Tensor:
    return tf.cast(graph.node_sets[node_set_name].total_size, tf.int32)


class DiagMatrix(Multiplier):
    """A square matrix with `diagonal`, float [n], on its diagonal."""

    def __init__(self, diagonal: tf.Tensor):
        self._diagonal = tf.convert_to_tensor(diagonal)
        size = tf.shape(self._diagonal)[0]
        index = tf.range(size)
        super().__init__((size, size), Entries(index, index, self._diagonal))

    def transpose(self):
        return self

    def _multiply(self, x: tf.Tensor):
        return self._diagonal[:, tf.newaxis] * x

    def scale_rows(self, entries: Entries) -> Entries:
        """Returns the entries of (this @ matrix)."""
        factors = tf.gather(self._diagonal, entries.rows)
        return entries._replace(values=factors * entries.values)


def Transpose(matrix: Multiplier) -> Multiplier:
    """Transposes a multiplier; a class in the published file."""
    return matrix.transpose()


class Sum(Multiplier):
    """The sum of multipliers of one shape."""

    def __init__(self, *terms: Multiplier):
        self._terms = terms
        parts = [term.entries for term in terms]
        entries = None
        # Repeated coordinates add up, so a sum is one longer list of entries.
        if all(part is not None for part in parts):
            entries = Entries(*[tf.concat(column, 0) for column in zip(*parts)])
        super().__init__(terms[0].shape, entries)

    def transpose(self):
        return Sum(*[term.transpose() for term in self._terms])

    def _multiply(self, x: tf.Tensor):
        if self.entries is not None:
            return super()._multiply(x)
        return tf.add_n([term._multiply(x) for term in self._terms])


class Product(Multiplier):
    """The matrix product of multipliers, leftmost first."""

    def __init__(self, *factors: Multiplier):
        self._factors = factors
        shape = (factors[0].shape[0], factors[-1].shape[1])
        super().__init__(shape, self._folded())

    def transpose(self):
        return Product(*[f.transpose() for f in reversed(self._factors)])

    def _folded(self) -> Optional[Entries]:
        """Folds diagonal factors into the entries of the other one.

        None if there are several others: they are multiplied one after the other.
        """
        general = [
            i for i, f in enumerate(self._factors) if not isinstance(f, DiagMatrix)
        ]
        if len(general) > 1:
            return None
        # All diagonal: the last one takes the others.
        middle = general[0] if general else len(self._factors) - 1
        entries = self._factors[middle].entries
        if entries is None:
            return None
        diagonal = [f if isinstance(f, DiagMatrix) else None for f in self._factors]
        for left in filter(None, reversed(diagonal[:middle])):
            entries = left.scale_rows(entries)
        for right in filter(None, diagonal[middle + 1 :]):
            # A D = (D A')', so columns are scaled as the rows of A'.
            entries = right.scale_rows(entries.transposed()).transposed()
        return entries

    def _multiply(self, x: tf.Tensor):
        if self.entries is not None:
            return super()._multiply(x)
        for factor in reversed(self._factors):  # A (B x): from the right
            x = factor._multiply(x)
        return x
