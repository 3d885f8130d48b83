"""Formulas of layers on dense matrices, for tests of layers on edges."""

import numpy as np


def randomise_layer(layer, *inputs):
    """Calls a layer with random weights; returns its output and these weights."""
    layer(*inputs)
    rng = np.random.default_rng(2)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    weights = [variable.numpy() for variable in layer.trainable_variables]
    return layer(*inputs).numpy(), weights


def multiply_nodes(matrix, x):
    """Multiplies [n, n] and [n, c, d] along nodes."""
    return np.einsum('ij,jch->ich', matrix, x)


def sum_chebyshev(neighbours, x, filters):
    """Sums T_k(L) x W_k for k = 1, 2, 3; L is -A, divided by the roots of degrees."""
    scale = np.maximum(neighbours.sum(1), 1) ** -0.5
    laplacian = -scale[:, None] * neighbours * scale
    # T_1 = L, T_2 = 2 L^2 - 1, T_3 = 4 L^3 - 3 L.
    square = laplacian @ laplacian
    polynomials = [
        laplacian,
        2 * square - np.eye(len(square)),
        4 * square @ laplacian - 3 * laplacian,
    ]
    parts = zip(polynomials, filters, strict=True)
    return sum(multiply_nodes(polynomial, x) @ w_k for polynomial, w_k in parts)
