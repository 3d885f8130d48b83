"""Sizes and operands of the arrays of a program, by hand."""

import numpy as np

from baselines.hlo import schema
from baselines.layout import shapes
from tests.helpers import layout_programs


def test_missing_columns_count_as_zero():
    columns = schema.DIMENSIONS.start + 1
    arrays = shapes.Arrays.read(np.array([2]), np.full((1, columns), 3))
    assert arrays.dims.tolist() == [[3, 0, 0, 0, 0, 0]]
    assert arrays.window.tolist() == [0]


def test_the_input_of_a_convolution_has_its_batch():
    arrays = layout_programs.make_arrays(
        ('parameter', (3, 3, 5, 7)),
        ('parameter', (2, 9, 9, 5)),
        ('convolution', (2, 9, 9, 7)),
    )
    operands = shapes.find_operands(arrays, np.array([2, 2]), np.array([0, 1]))
    assert arrays.elements[:2].tolist() == [315, 810]
    assert arrays.bytes[:2].tolist() == [4 * 315, 4 * 810]
    assert [node[2] for node, _ in operands] == [1, 0]
    assert [exists.tolist() for _, exists in operands] == [[False, False, True]] * 2


def test_a_dimension_beyond_the_sixth_is_no_place():
    places = shapes.one_hot(np.array([5, 6, 127, -1]))
    assert places.tolist() == [[0, 0, 0, 0, 0, 1], [0] * 6, [0] * 6, [0] * 6]
