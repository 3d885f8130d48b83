"""Layers and options of the models that have no published scores.

The reference is numpy with dense matrices, one pair of node and configuration after
the other.
"""

import numpy as np
import pytest

from baselines.tiles import models
from tests.helpers import dense_layers
from tests.helpers import tile_graphs

_WIDTH = 4
_COLUMNS = 3
# Node 3 has no neighbour; the edge 2 -> 0 is there twice.
_EDGES = [(1, 0), (2, 0), (2, 0), (2, 1)]
_NODES = 4


@pytest.fixture(scope='module', name='pairs')
def _pairs():
    kernel = tile_graphs.random_kernel(
        np.random.default_rng(0), _NODES, _COLUMNS, _EDGES
    )
    graph = tile_graphs.by_hand([kernel])
    return models._KernelBatch(graph, _COLUMNS).paired()


@pytest.fixture(scope='module', name='x')
def _x():
    """Rows are nodes, then columns."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(_NODES, _COLUMNS, _WIDTH)).astype(np.float32)


def _adjacency():
    """A[producer, consumer]: what `feed` adds up."""
    a = np.zeros((_NODES, _NODES))
    for consumer, producer in _EDGES:
        a[producer, consumer] += 1
    return a


def test_chebyshev_polynomials(pairs, x):
    rows = x.reshape(-1, _WIDTH)
    y, weights = dense_layers.randomise_layer(models._Chebyshev(_WIDTH, 3), rows, pairs)
    sage = models._Messages(_WIDTH)
    sage(rows, pairs)
    sage.set_weights(weights[:4])
    expected = sage(rows, pairs).numpy().reshape(x.shape)
    neighbours = _adjacency() + _adjacency().T
    expected = expected + dense_layers.sum_chebyshev(neighbours, x, weights[4:])
    np.testing.assert_allclose(y.reshape(x.shape), expected, atol=1e-4)


def _neighbours(i):
    """Those of node i, itself too; one that is there twice counts twice."""
    both = [(c, p) for c, p in _EDGES] + [(p, c) for c, p in _EDGES]
    return [other for node, other in both if node == i] + [i]


def test_attention_by_its_formula(pairs, x):
    layer = models._Attention(_WIDTH, heads=2)
    y, weights = dense_layers.randomise_layer(layer, x.reshape(-1, _WIDTH), pairs)
    y = y.reshape(x.shape)
    by_name = {id(v): w for v, w in zip(layer.trainable_variables, weights)}
    w = by_name[id(layer._values.kernel)]
    receiver, sender = (by_name[id(end.kernel)] for end in layer._ends)
    own, bias = (by_name[id(v)] for v in (layer._self.kernel, layer._self.bias))
    for c in range(_COLUMNS):
        h = x[:, c] @ w
        for i in range(_NODES):
            expected = x[i, c] @ own + bias
            for head in range(2):
                part = slice(2 * head, 2 * head + 2)
                others = h[_neighbours(i)]
                logits = h[i] @ receiver[:, head] + others @ sender[:, head]
                logits = np.where(logits > 0, logits, 0.2 * logits)
                alpha = np.exp(logits) / np.exp(logits).sum()
                expected[part] += alpha @ others[:, part]
            np.testing.assert_allclose(y[i, c], expected, atol=1e-5)
