"""Every multiplier against the dense matrix that it stands for."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.tiles import implicit
from tests.helpers import tile_graphs

# Two kernels: nodes 0-3 and 4-6.  Node 0 consumes 1 twice (a repeated edge) and
# 2 once; 3 touches nothing; 5 consumes 4, and 4 consumes itself.
_EDGES = [[(0, 1), (0, 1), (0, 2)], [(1, 0), (0, 0)]]
_SIZES = [4, 3]

# Rows are targets (producers), columns sources (consumers).
_FEED = np.zeros((7, 7), np.float32)
_FEED[[1, 2, 4, 4], [0, 0, 4, 5]] = [2, 1, 1, 1]
_G_OP = np.array([[1, 0]] * 4 + [[0, 1]] * 3, np.float32)


def _graph(sizes=_SIZES, edges=_EDGES, index_dtype=tf.int32):
    rng = np.random.default_rng(0)
    return tile_graphs.by_hand(
        [
            tile_graphs.random_kernel(rng, nodes, 2, edges=kernel_edges)
            for nodes, kernel_edges in zip(sizes, edges)
        ],
        index_dtype,
    )


@pytest.fixture(scope='module')
def feed():
    return implicit.AdjacencyMultiplier(_graph(), 'feed')


def _dense(multiplier):
    return (multiplier @ tf.eye(multiplier.shape[1])).numpy()


def _assert_is(multiplier, matrix):
    """Checks product, transposed product, sums and shape against a matrix."""
    matrix = np.asarray(matrix, np.float32)
    close = dict(rtol=1e-4, atol=1e-5 * max(1.0, np.abs(matrix).max()))
    assert tuple(int(size) for size in multiplier.shape) == matrix.shape
    np.testing.assert_allclose(_dense(multiplier), matrix, **close)
    transpose = multiplier.transpose()
    assert tuple(int(size) for size in transpose.shape) == matrix.T.shape
    np.testing.assert_allclose(_dense(transpose), matrix.T, **close)
    np.testing.assert_allclose(multiplier.rowsums(), matrix.sum(1), **close)
    np.testing.assert_allclose(multiplier.colsums(), matrix.sum(0), **close)


@pytest.mark.parametrize('index_dtype', [tf.int32, tf.int64])
def test_adjacency_has_targets_as_rows_and_counts_repeated_edges(index_dtype):
    graph = _graph(index_dtype=index_dtype)
    feed = implicit.AdjacencyMultiplier(graph, 'feed')
    _assert_is(feed, _FEED)
    np.testing.assert_array_equal(feed.rowsums(9.0), [9, 2, 1, 9, 2, 9, 9])
    np.testing.assert_array_equal(feed.colsums(replace_if_0=9.0), [3, 9, 9, 9, 1, 1, 9])
    _assert_is(implicit.AdjacencyMultiplier(graph, 'g_op'), _G_OP)


def test_normalisations_by_hand():
    # One kernel: 0 and 1 both consume 2, and 1 consumes 0.
    graph = _graph([3], [[(0, 2), (1, 2), (1, 0)]])
    a = implicit.AdjacencyMultiplier(graph, 'feed')
    _assert_is(a, [[0, 1, 0], [0, 0, 0], [1, 1, 0]])
    # Row sums 1, 0, 2; column sums 1, 2, 0; an empty row or column stays.
    _assert_is(a.normalize_left(), [[0, 1, 0], [0, 0, 0], [0.5, 0.5, 0]])
    _assert_is(a.normalize_right(), [[0, 0.5, 0], [0, 0, 0], [1, 0.5, 0]])
    half, root = 0.5, np.sqrt(0.5)
    _assert_is(a.normalize_leftright(), [[0, root, 0], [0, 0, 0], [root, half, 0]])
    # A + A' + I: row sums 3, 3, 3.
    both = (a + a.transpose()).add_eye()
    _assert_is(both.normalize_symmetric(), np.ones((3, 3)) / 3)
    # A + A': row sums 2, 2, 2.
    _assert_is((a + a.transpose()).normalize_symmetric(), (1 - np.eye(3)) / 2)


@pytest.mark.parametrize('shape', [(), (2, 3, 2)])
def test_operands_of_any_rank_are_multiplied_along_their_first_axis(feed, shape):
    x = np.random.default_rng(1).random((7, *shape), np.float32)
    product = implicit.Product(feed, feed.transpose())
    for multiplier, matrix in [
        (feed, _FEED),
        (implicit.DiagMatrix(tf.range(7.0)), np.diag(np.arange(7.0))),
        (product, _FEED @ _FEED.T),
    ]:
        y = multiplier @ tf.constant(x)
        assert y.dtype == tf.float32
        expected = np.tensordot(matrix, x, axes=1)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def _scaled(matrix, left, right):
    def inverse(sums, power):
        sums = np.where(sums == 0, 1, sums)
        return np.diag(sums**-power)

    return inverse(matrix.sum(1), left) @ matrix @ inverse(matrix.sum(0), right)


def _left(matrix):
    return _scaled(matrix, 1, 0)


_EYE = np.eye(7)
_DIAGONAL = np.arange(7, dtype=np.float32) / 8


@pytest.mark.parametrize(
    'ours, dense',
    [
        (lambda m: m.add_eye() + m, lambda a: 2 * a + _EYE),
        (lambda m: implicit.Product(m, m).normalize_left(), lambda a: _left(a @ a)),
        (
            lambda m: implicit.Product(
                implicit.DiagMatrix(_DIAGONAL),
                (m + m.transpose()).normalize_symmetric(),
            ),
            lambda a: np.diag(_DIAGONAL) @ _scaled(a + a.T, 0.5, 0.5),
        ),
    ],
)
def test_expressions_are_their_matrices(feed, ours, dense):
    _assert_is(ours(feed), dense(_FEED))


# Inside compiled functions ---------------------------------------------------


def test_gradients_are_those_of_the_matrix():
    # d/dx sum(w * (M x)) = M' w;  with M = diag(d) A: d/dd = rowsum(w * (A x)).
    rng = np.random.default_rng(4)
    x, w = rng.random((2, 7, 3, 2), np.float32)
    d = rng.random(7, np.float32)
    graph = _graph()

    def gradients(x, d):
        feed = implicit.AdjacencyMultiplier(graph, 'feed')
        both = (feed + feed.transpose()).add_eye()
        with tf.GradientTape() as tape:
            tape.watch([x, d])
            y = implicit.Product(implicit.DiagMatrix(d), both) @ x
            total = tf.reduce_sum(w * y)
        return tape.gradient(total, [x, d])

    of_both = tf.function(gradients)(tf.constant(x), tf.constant(d))
    of_x, of_d = map(tf.convert_to_tensor, of_both)
    both = _FEED + _FEED.T + np.eye(7, dtype=np.float32)
    np.testing.assert_allclose(
        of_x, np.tensordot((np.diag(d) @ both).T, w, axes=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        of_d, (w * np.tensordot(both, x, axes=1)).sum((1, 2)), rtol=1e-5
    )
