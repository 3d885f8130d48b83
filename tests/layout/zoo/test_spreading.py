"""Where layouts come from and where they meet, by hand."""

import numpy as np
import tensorflow as tf

from baselines.hlo import schema
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import spreading


def _arrays(*nodes):
    """Nodes as (opcode, dims, dimensions of a transpose or reduction)."""
    ops, rows = [], np.zeros((len(nodes), 140), np.float32)
    for row, (op, dims, dimensions) in zip(rows, nodes):
        ops.append(schema.OPCODE_NUMBERS[op])
        row[2 + 4] = 1  # s32: 4 bytes
        row[21 : 21 + len(dims)] = dims
        row[31 : 31 + len(dimensions)] = dimensions
        row[[93, 94, 99, 100, 105, 106]] = -1
    columns = arrays_lib.Unscaled(None).nodes(tf.constant(rows))
    return arrays_lib.make_arrays(tf.constant(ops), columns)


def _edges(*pairs):
    """(consumer, producer) pairs."""
    return tuple(tf.constant(end, tf.int32) for end in zip(*pairs))


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
    return arrays, edges, tf.constant([1])


def test_arrays():
    arrays = _program()[0]
    assert arrays.rank.numpy().tolist() == [2] * 7 + [1]
    assert arrays.elements.numpy().tolist() == [32] * 7 + [4]
    assert arrays.bytes.numpy().tolist() == [128] * 7 + [16]


def test_layouts_spread_up_to_what_is_fixed():
    arrays, edges, chosen = _program()
    origin = spreading.spread(arrays, chosen, edges, hops=4)
    fixed, anyhow = spreading.FIXED, spreading.ANY
    unknown = spreading.UNKNOWN
    assert origin.node.numpy().tolist() == [fixed, 1, 1, 1, fixed, anyhow, 1, unknown]
    for node, first in ((2, [0, 1]), (3, [1, 0]), (6, [1, 0])):
        assert origin.dims.numpy()[node].tolist() == [*first, 2, 3, 4, 5]
    near = spreading.spread(arrays, chosen, edges, hops=1)
    assert near.node.numpy().tolist()[:4] == [fixed, 1, 1, unknown]


def test_copies_where_layouts_meet_what_is_row_major():
    arrays, edges, chosen = _program()
    origin = spreading.spread(arrays, chosen, edges, hops=4)
    matrix, copied, row_major = spreading.meetings(arrays, chosen, origin, edges)
    assert not len(matrix.rows) and not copied.numpy().any()
    assert row_major.numpy().tolist() == [0, 128, 0, 0, 0, 0, 0, 0]  # 2 to 4


def test_two_layouts_meet():
    arrays = _arrays(('dot', (4, 8), ()), ('dot', (4, 8), ()), ('add', (4, 8), ()))
    edges, chosen = _edges((2, 0), (2, 1)), tf.constant([0, 1])
    origin = spreading.spread(arrays, chosen, edges, hops=4)
    assert origin.node.numpy().tolist() == [0, 1, 0]
    matrix, copied, _ = spreading.meetings(arrays, chosen, origin, edges)
    assert [part.numpy().tolist() for part in matrix] == [[0], [1], [1.0]]
    assert copied.numpy().tolist() == [128, 0, 0]


def test_reductions():
    arrays, edges, chosen = _program()
    origin = spreading.spread(arrays, chosen, edges, hops=4)
    total, of_dim = spreading.reductions(arrays, origin, edges)
    assert total.numpy().tolist() == [0, 32, 0, 0, 0, 0, 0, 0]
    assert of_dim.numpy()[1].tolist() == [0, 1, 0, 0, 0, 0]


def test_the_input_of_a_convolution_has_its_batch():
    rows = [
        ['parameter', (3, 3, 5, 7)],
        ['parameter', (2, 9, 9, 5)],
        ['convolution', (2, 9, 9, 7)],
    ]
    arrays = _arrays(*[(op, dims, ()) for op, dims in rows])
    roles = np.full((3, 3, 2), -1, np.float32)
    roles[2] = (0, 3), (0, 3), (2, 3)  # output, input, kernel
    arrays = arrays._replace(roles=tf.constant(roles))
    operands = spreading.operands(arrays, _edges((2, 0), (2, 1)))
    assert [int(node[2]) for node, _ in operands] == [1, 0]
    assert [exists.numpy().tolist() for _, exists in operands] == [[0, 0, 1]] * 2


def test_padding_of_the_fastest_dimensions():
    """8 x 100 with the second dimension fastest, and the other way round."""
    dims = tf.constant([[[8.0, 100, 0, 0, 0, 0]] * 3])
    roles = tf.fill([1, 3, 2], effects.NO_ROLE)
    fastest = tf.constant([[[1.0, 0], [0, 1], [-1, -1]]])
    found = effects.of_layouts(fastest, effects.hat(fastest), dims, roles)
    [found] = found.numpy().reshape(1, 3, -1)
    np.testing.assert_allclose(found[0, 2:4], np.log([128 / 100, 1]), rtol=1e-5)
    np.testing.assert_allclose(found[1, 2:4], np.log([16, 104 / 100]), rtol=1e-5)
    assert found[:2, 6:8].tolist() == [[1, 1], [0, 0]]  # row major


def test_columns_are_unscaled():
    """Of nodes only column 0 and the two sizes 21 and 22 have been kept."""
    used = [column in (0, 21, 22) for column in range(140)]
    low = [0.0] * 140
    low[21:24] = 1.0, -2.0, 5.0
    high = [1.0] * 140
    high[21:24] = 3.0, 2.0, 5.0
    unscaled = arrays_lib.Unscaled(
        {
            'node_used': used,
            'node_min': low,
            'node_max': high,
            'config_used': [True],
            'config_min': [-1],
            'config_max': [3],
        }
    )
    found = unscaled.nodes(tf.constant([[0.0, 0.5, 0.25]]))
    # 1 + 0.5 * 2, -2 + 0.25 * 4, and the constant; what is constant stays.
    assert found['dims'].numpy().tolist() == [[2, -1, 5, 0, 0, 0]]
    [fastest] = unscaled.fastest(tf.constant([[0.5]])).numpy()
    # There is but one column of configurations: the output's fastest dimension.
    assert fastest.tolist() == [[1, -1], [-1, -1], [-1, -1]]
    [fastest] = arrays_lib.Unscaled(None).fastest(tf.constant([[0.5, 0.25]])).numpy()
    assert fastest.tolist() == [[0.5, 0.25], [-1, -1], [-1, -1]]
