"""The house's sparse matrices and those of the drop-in models.py do not drift."""

import numpy as np
import tensorflow as tf

from baselines.layout import models
from baselines.layout import sparse


def test_products_are_those_of_dense_matrices_in_both_files():
    rows, cols, values = [0, 2, 2, 2], [1, 0, 1, 1], [2.0, 3.0, 4.0, 5.0]
    dense = np.zeros((3, 2), np.float32)
    np.add.at(dense, (rows, cols), values)
    x = np.array([[1.0, -2.0], [0.5, 8.0]], np.float32)
    parts = tf.constant(rows), tf.constant(cols), tf.constant(values)
    assert sparse.Matrix._fields == models.Matrix._fields
    for module in (sparse, models):
        found = module.multiply(module.Matrix(*parts), tf.constant(x), 3).numpy()
        assert found.tolist() == (dense @ x).tolist()


def test_positions_of_a_mask():
    found = sparse.where(tf.constant([False, True, True]))
    assert (found.numpy().tolist(), found.dtype) == ([1, 2], tf.int32)
