"""What padding costs products and arrays, derived by hand."""

import numpy as np
import pytest

from baselines.hlo import schema
from baselines.layout import padding
from baselines.layout import shapes
from tests.helpers import layout_programs


def _products(arrays, chosen, *operands):
    """Of chosen nodes; operands are the inputs and the kernels of all nodes."""
    exist = np.ones(len(arrays.op), bool)
    found = [shapes.Operand(np.array(nodes), exist) for nodes in operands]
    return padding.count_products(arrays, found, np.array(chosen))


def _padded(products, *fastest):
    return padding.pad_work(products, np.array([0]), np.array([fastest])).item()


def test_images():
    def products_of(images, features):
        arrays = layout_programs.make_arrays(
            ('parameter', [images, 8, 8, 16]),
            ('parameter', [3, 3, 16, features]),
            ('convolution', [images, 8, 8, features]),
            window=9,
        )
        return _products(arrays, [2], [0, 0, 0], [1, 1, 1])

    # 32 images of 8 x 8 pixels and 96 features, 3 x 3 windows.
    products = products_of(32, 96)
    assert not products.of_window and products.share == pytest.approx(1)
    assert _padded(products, 3, 0) == pytest.approx(128 / 96)
    assert _padded(products, 0, 3) == pytest.approx(128 / 32)
    # 8 pixels by 4 images fill no 8 sublanes.
    assert _padded(products_of(4, 128), 3, 0) == pytest.approx(2)


@pytest.mark.parametrize(
    'features, by_first, by_second',
    [
        (64, 256 / 192, 2.0),  # 192 or 64 features in the columns
        (4, 256 / 192 * 32 / 4, 128 / 4),  # 4 rows take as long as 32
        (256, 256 / 192, 1.0),
    ],
)
def test_gradients_of_windows(features, by_first, by_second):
    # 2 images of 64 x 64 pixels; 3 x 3 windows of 192 features.
    arrays = layout_programs.make_arrays(
        ('parameter', [2, 64, 64, 192]),
        ('parameter', [2, 64, 64, features]),
        ('convolution', [3, 3, 192, features]),
        roles=((2, 3), (3, 0), (0, 3)),
        window=64 * 64,
    )
    products = _products(arrays, [2], [0, 0, 0], [1, 1, 1])
    assert products.of_window
    assert _padded(products, 2, 3) == pytest.approx(by_first)
    assert _padded(products, 3, 2) == pytest.approx(by_second)


def test_shares_are_of_multiply_adds():
    arrays = layout_programs.make_arrays(
        ('parameter', [64, 32]),
        ('parameter', [32, 8]),
        ('dot', [64, 8]),  # 64 * 8 * 32
        ('reshape', [512]),
        ('parameter', [8, 8]),
        ('dot', [64, 8]),  # 64 * 8 * 8
    )
    operands = [0, 0, 0, 2, 0, 2], [0, 0, 1, 0, 0, 4]
    products = _products(arrays, [2, 3, 5], *operands)
    assert products.share == pytest.approx([0.8, 0, 0.2])
    assert products.total == 64 * 8 * (32 + 8)


def test_layouts_that_are_left_out_are_row_major():
    dims = np.array([[[8, 4, 2, 0, 0, 0], [5, 0, 0, 0, 0, 0], [0] * 6]])
    vectors = np.full((1, len(schema.LAYOUT)), -1)
    [fastest] = padding.read_fastest_dimensions(vectors, dims)
    assert fastest.tolist() == [[2, 1], [0, -1], [-1, -2]]
    vectors[0, [0, 1, 6]] = 0, 2, 0
    [fastest] = padding.read_fastest_dimensions(vectors, dims)
    assert fastest.tolist() == [[0, 2], [0, -1], [-1, -2]]


def test_padding_of_the_fastest_dimensions():
    """8 x 100 with the second dimension fastest, and the other way round."""
    dims = np.array([[[8.0, 100, 0, 0, 0, 0]] * 3])
    fastest = np.array([[[1, 0], [0, 1], [-1, -1]]])
    [effects] = padding.get_effects(fastest, dims, np.full([1, 3, 2], -9)).reshape(
        1, 3, -1
    )
    np.testing.assert_allclose(effects[0, 2:4], np.log([128 / 100, 1]), rtol=1e-5)
    # 128 / 8 counts as 4.
    np.testing.assert_allclose(effects[1, 2:4], np.log([4, 104 / 100]), rtol=1e-5)
    assert effects[:2, 6:8].tolist() == [[1, 1], [0, 0]]  # row major
