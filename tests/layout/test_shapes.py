"""Sizes and operands of the arrays of a program, by hand."""

import numpy as np

from baselines.hlo import schema
from baselines.layout import shapes


def _arrays(*nodes):
    """Nodes as (opcode, dims)."""
    rows = np.zeros((len(nodes), len(schema.NODE)), np.float32)
    rows[:, schema.NODE.at('shape_element_type_is_s32')] = 1  # 4 bytes
    for row, (_, dims) in zip(rows, nodes):
        row[schema.DIMENSIONS][: len(dims)] = dims
    ops = [schema.OPCODE_NUMBERS[op] for op, _ in nodes]
    return shapes.Arrays.read(np.array(ops), rows)


def test_missing_columns_count_as_zero():
    columns = schema.DIMENSIONS.start + 1
    arrays = shapes.Arrays.read(np.array([2]), np.full((1, columns), 3))
    assert arrays.dims.tolist() == [[3, 0, 0, 0, 0, 0]]
    assert arrays.window.tolist() == [0]


def test_the_input_of_a_convolution_has_its_batch():
    arrays = _arrays(
        ('parameter', (3, 3, 5, 7)),
        ('parameter', (2, 9, 9, 5)),
        ('convolution', (2, 9, 9, 7)),
    )
    roles = np.full((3, 3, 2), -1)
    roles[2] = (0, 3), (0, 3), (2, 3)  # output, input, kernel
    arrays = arrays._replace(roles=roles)
    operands = shapes.operands(arrays, np.array([2, 2]), np.array([0, 1]))
    assert arrays.elements[:2].tolist() == [315, 810]
    assert arrays.bytes[:2].tolist() == [4 * 315, 4 * 810]
    assert [node[2] for node, _ in operands] == [1, 0]
    assert [exists.tolist() for _, exists in operands] == [[False, False, True]] * 2


def test_a_dimension_beyond_the_sixth_is_no_place():
    places = shapes.one_hot(np.array([5, 6, 127, -1]))
    assert places.tolist() == [[0, 0, 0, 0, 0, 1], [0] * 6, [0] * 6, [0] * 6]
