"""The layers of the plain models, against their papers' formulas on dense matrices."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.layout.zoo import neighbourhood
from baselines.layout.zoo import plain
from tests.helpers import dense_layers

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


def test_graph_convolution(part, x):
    y, (w, b) = dense_layers.randomise_layer(
        plain.Convolution(_WIDTH, tf.nn.relu), x, part
    )
    a = _neighbours() + np.eye(_NODES)
    scale = a.sum(1) ** -0.5
    expected = dense_layers.multiply_nodes(scale[:, None] * a * scale, x) @ w + b
    np.testing.assert_allclose(y, np.maximum(expected, 0), atol=1e-5)


def _mean_over_neighbours(x):
    a = _neighbours()
    return dense_layers.multiply_nodes(a / np.maximum(a.sum(1), 1)[:, None], x)


@pytest.mark.parametrize('with_mean', [False, True])
def test_chebyshev_polynomials(part, x, with_mean):
    kind = plain.ChebyshevSage if with_mean else plain.Chebyshev
    y, (w, b, *filters) = dense_layers.randomise_layer(
        kind(_WIDTH, tf.identity, 3), x, part
    )
    expected = x @ w + b
    if with_mean:
        expected = expected + _mean_over_neighbours(x) @ filters.pop()
    expected = expected + dense_layers.sum_chebyshev(_neighbours(), x, filters)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_sage(part, x):
    layer = plain.Sage(_WIDTH, tf.identity)
    y, (w, b, of_neighbours) = dense_layers.randomise_layer(layer, x, part)
    expected = x @ w + b + _mean_over_neighbours(x) @ of_neighbours
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_attention(part, x):
    layer = plain.Attention(_WIDTH, tf.identity, heads=2)
    y, (w, receiver, sender) = dense_layers.randomise_layer(layer, x, part)
    a = _neighbours() + np.eye(_NODES)
    for c in range(_CONFIGS):
        h = x[:, c] @ w
        for head in range(2):
            part_of_head = slice(2 * head, 2 * head + 2)
            logits = (h @ receiver[:, head])[:, None] + (h @ sender[:, head])[None]
            # A neighbour by two edges counts twice.
            shares = a * np.exp(np.where(logits > 0, logits, 0.2 * logits))
            shares /= shares.sum(1, keepdims=True)
            expected = shares @ h[:, part_of_head]
            np.testing.assert_allclose(y[:, c, part_of_head], expected, atol=1e-5)
