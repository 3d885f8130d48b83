"""The layers of the plain models, against their papers' formulas on dense matrices."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.layout.zoo import neighbourhood
from baselines.layout.zoo import plain

# Node 3 has no neighbour; the edge 2 -> 0 is there twice.
_CONSUMERS, _PRODUCERS = [1, 2, 2, 2], [0, 0, 0, 1]
_NODES, _CONFIGS, _WIDTH = 4, 3, 4


@pytest.fixture(scope='module', name='part')
def _part():
    return neighbourhood.Neighbourhood(
        nodes=tf.range(_NODES),
        consumer=tf.constant(_CONSUMERS),
        producer=tf.constant(_PRODUCERS),
        program=tf.zeros(_NODES, tf.int32),
        sizes=tf.fill([1, 1, 1], 4.0),
    )


@pytest.fixture(scope='module', name='x')
def _x():
    rng = np.random.default_rng(1)
    return rng.normal(size=(_NODES, _CONFIGS, _WIDTH)).astype(np.float32)


def _neighbours():
    """A + A': how many edges lie between two nodes."""
    a = np.zeros((_NODES, _NODES))
    np.add.at(a, (_CONSUMERS, _PRODUCERS), 1)
    return a + a.T


def _run(layer, x, part):
    """(output, its weights by variable name after a nudge)."""
    layer(x, part)
    rng = np.random.default_rng(2)
    for v in layer.trainable_variables:
        v.assign(rng.normal(0, 0.5, v.shape))
    return layer(x, part).numpy(), [v.numpy() for v in layer.trainable_variables]


def _along_nodes(matrix, x):
    return np.einsum('ij,jch->ich', matrix, x)


def test_graph_convolution(part, x):
    y, (w, b) = _run(plain.Convolution(_WIDTH, tf.nn.relu), x, part)
    a = _neighbours() + np.eye(_NODES)
    scale = a.sum(1) ** -0.5
    expected = _along_nodes(scale[:, None] * a * scale, x) @ w + b
    np.testing.assert_allclose(y, np.maximum(expected, 0), atol=1e-5)


def _mean_over_neighbours(x):
    a = _neighbours()
    return _along_nodes(a / np.maximum(a.sum(1), 1)[:, None], x)


@pytest.mark.parametrize('with_mean', [False, True])
def test_chebyshev_polynomials(part, x, with_mean):
    kind = plain.ChebyshevSage if with_mean else plain.Chebyshev
    y, (w, b, *filters) = _run(kind(_WIDTH, tf.identity, 3), x, part)
    a = _neighbours()
    scale = np.maximum(a.sum(1), 1) ** -0.5
    laplacian = -scale[:, None] * a * scale
    # T_1 = L, T_2 = 2 L^2 - 1, T_3 = 4 L^3 - 3 L.
    square = laplacian @ laplacian
    polynomials = [
        laplacian,
        2 * square - np.eye(_NODES),
        4 * square @ laplacian - 3 * laplacian,
    ]
    expected = x @ w + b
    if with_mean:
        expected = expected + _mean_over_neighbours(x) @ filters.pop()
    assert len(filters) == 3
    for polynomial, w_k in zip(polynomials, filters):
        expected = expected + _along_nodes(polynomial, x) @ w_k
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_sage(part, x):
    layer = plain.Sage(_WIDTH, tf.identity)
    y, (w, b, of_neighbours) = _run(layer, x, part)
    expected = x @ w + b + _mean_over_neighbours(x) @ of_neighbours
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_attention(part, x):
    layer = plain.Attention(_WIDTH, tf.identity, heads=2)
    y, (w, receiver, sender) = _run(layer, x, part)
    a = _neighbours() + np.eye(_NODES)
    for c in range(_CONFIGS):
        h = x[:, c] @ w
        for head in range(2):
            part_of_head = slice(2 * head, 2 * head + 2)
            logits = (h @ receiver[:, head])[:, None] + (h @ sender[:, head])[None]
            # A neighbour by two edges counts twice.
            shares = a * np.exp(np.where(logits > 0, logits, 0.2 * logits))
            shares /= shares.sum(1, keepdims=True)
            np.testing.assert_allclose(
                y[:, c, part_of_head], shares @ h[:, part_of_head], atol=1e-5
            )
