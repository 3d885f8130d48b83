"""Where layouts come from and what takes them over, by hand."""

import numpy as np

from baselines.hlo import schema
from baselines.layout import shapes
from baselines.layout import spreading


def _arrays(*nodes):
    """Nodes as (opcode, dims, dimensions of a transpose or reduction)."""
    rows = np.zeros((len(nodes), len(schema.NODE)), np.float32)
    rows[:, schema.NODE.at('shape_element_type_is_s32')] = 1  # 4 bytes
    for row, (_, dims, dimensions) in zip(rows, nodes):
        row[schema.DIMENSIONS][: len(dims)] = dims
        row[schema.NODE.block('dimensions')][: len(dimensions)] = dimensions
    ops = [schema.OPCODE_NUMBERS[op] for op, _, _ in nodes]
    return shapes.Arrays.read(np.array(ops), rows)


def _edges(*pairs):
    """(consumer, producer) pairs."""
    return tuple(np.array(end) for end in zip(*pairs))


def _program():
    """A dot's layout goes to 2, 3 and 6; 4 is as the parameter is."""
    arrays = _arrays(
        ('parameter', (4, 8), ()),
        ('dot', (4, 8), ()),
        ('add', (4, 8), ()),
        ('transpose', (8, 4), (1, 0)),
        ('add', (4, 8), ()),
        ('broadcast', (8, 4), ()),
        ('add', (8, 4), ()),
        ('reduce', (4,), (1,)),
    )
    edges = _edges((1, 0), (2, 1), (3, 2), (4, 0), (4, 2), (6, 5), (6, 3), (7, 2))
    return arrays, edges, np.array([1])


def test_arrays():
    arrays = _program()[0]
    assert arrays.rank.tolist() == [2] * 7 + [1]
    assert arrays.elements.tolist() == [32] * 7 + [4]
    assert arrays.bytes.tolist() == [128] * 7 + [16]


def test_missing_columns_count_as_zero():
    columns = schema.DIMENSIONS.start + 1
    arrays = shapes.Arrays.read(np.array([2]), np.full((1, columns), 3))
    assert arrays.dims.tolist() == [[3, 0, 0, 0, 0, 0]]
    assert arrays.window.tolist() == [0]


def test_layouts_spread_up_to_what_is_fixed():
    arrays, edges, chosen = _program()
    origin = spreading.spread(arrays, chosen, *edges, hops=4)
    fixed, anyhow = spreading.FIXED, spreading.ANY
    unknown = spreading.UNKNOWN
    assert origin.node.tolist() == [fixed, 1, 1, 1, fixed, anyhow, 1, unknown]
    for node, first in ((2, [0, 1]), (3, [1, 0]), (6, [1, 0])):
        assert origin.dims[node].tolist() == [*first, 2, 3, 4, 5]
    near = spreading.spread(arrays, chosen, *edges, hops=1)
    assert near.node.tolist()[:4] == [fixed, 1, 1, unknown]


def test_an_array_of_two_layouts_has_the_first_operands():
    arrays = _arrays(('dot', (4, 8), ()), ('dot', (4, 8), ()), ('add', (4, 8), ()))
    origin = spreading.spread(arrays, np.array([0, 1]), *_edges((2, 0), (2, 1)))
    assert origin.node.tolist() == [0, 1, 0]


def test_reductions_and_followers():
    arrays, edges, chosen = _program()
    origin = spreading.spread(arrays, chosen, *edges)
    total, of_dimension = spreading.reductions(arrays, origin, *edges)
    assert total.tolist() == [0, 32, 0, 0, 0, 0, 0, 0]
    assert of_dimension[1].tolist() == [0, 1, 0, 0, 0, 0]
    # The arrays of 2, 3 and 6.
    followers = spreading.followers(arrays, origin)
    assert followers.tolist() == [0, 3 * 32, 0, 0, 0, 0, 0, 0]


def test_the_input_of_a_convolution_has_its_batch():
    arrays = _arrays(
        ('parameter', (3, 3, 5, 7), ()),
        ('parameter', (2, 9, 9, 5), ()),
        ('convolution', (2, 9, 9, 7), ()),
    )
    roles = np.full((3, 3, 2), -1)
    roles[2] = (0, 3), (0, 3), (2, 3)  # output, input, kernel
    arrays = arrays._replace(roles=roles)
    operands = shapes.operands(arrays, *_edges((2, 0), (2, 1)))
    assert [node[2] for node, _ in operands] == [1, 0]
    assert [exists.tolist() for _, exists in operands] == [[False, False, True]] * 2


def test_a_dimension_beyond_the_sixth_is_no_place():
    places = shapes.one_hot(np.array([5, 6, 127, -1]))
    assert places.tolist() == [[0, 0, 0, 0, 0, 1], [0] * 6, [0] * 6, [0] * 6]
