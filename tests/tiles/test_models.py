"""Layers and options of the models that have no published scores.

The reference is numpy with dense matrices, one pair of node and configuration after
the other.
"""

import numpy as np
import pytest

from baselines.tiles import models
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


def _run(layer, x, pairs):
    """(output [nodes, columns, width], its weights after a nudge)."""
    flat = x.reshape(-1, x.shape[-1])
    layer(flat, pairs)
    rng = np.random.default_rng(2)
    for v in layer.trainable_variables:
        v.assign(rng.normal(0, 0.5, v.shape))
    y = layer(flat, pairs).numpy()
    return y.reshape(*x.shape[:2], -1), [v.numpy() for v in layer.trainable_variables]


def _along_nodes(matrix, x):
    return np.einsum('ij,jch->ich', matrix, x)


def test_chebyshev_polynomials(pairs, x):
    y, weights = _run(models._Chebyshev(_WIDTH, 3), x, pairs)
    w, b, w_consumers, w_operands, *filters = weights
    sage = models._Messages(_WIDTH)
    sage(x.reshape(-1, _WIDTH), pairs)
    sage.set_weights([w, b, w_consumers, w_operands])
    expected = sage(x.reshape(-1, _WIDTH), pairs).numpy().reshape(x.shape)
    a = _adjacency() + _adjacency().T
    scale = np.maximum(a.sum(1), 1) ** -0.5
    laplacian = -scale[:, None] * a * scale
    # T_1 = L, T_2 = 2 L^2 - 1, T_3 = 4 L^3 - 3 L.
    square = laplacian @ laplacian
    polynomials = [
        laplacian,
        2 * square - np.eye(_NODES),
        4 * square @ laplacian - 3 * laplacian,
    ]
    for polynomial, w_k in zip(polynomials, filters):
        expected = expected + _along_nodes(polynomial, x) @ w_k
    np.testing.assert_allclose(y, expected, atol=1e-4)


def _neighbours(i):
    """Those of node i, itself too; one that is there twice counts twice."""
    both = [(c, p) for c, p in _EDGES] + [(p, c) for c, p in _EDGES]
    return [other for node, other in both if node == i] + [i]


def test_attention_by_its_formula(pairs, x):
    layer = models._Attention(_WIDTH, heads=2)
    y, weights = _run(layer, x, pairs)
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
