"""What the layout models work out about arrays, by hand, and their options."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines.data import config_lists as lists
from baselines.features import expansion
from baselines.features import normalizer as normalizer_lib
from baselines.layout import lists as lists_lib
from baselines.layout import models
from baselines.tasks import layout
from tests.helpers import layout_programs

PARAMETER, DOT, ADD, TRANSPOSE, BROADCAST, CONVOLUTION, REDUCE = (
    63,
    34,
    2,
    98,
    13,
    26,
    70,
)


def _arrays(*nodes):
    """Nodes as (opcode, dims, dimensions of a transpose or reduction)."""
    rows = []
    for op, dims, dimensions in nodes:
        pad = [0] * (6 - len(dims))
        listed = list(dimensions) + [0] * (6 - len(dimensions))
        kind = [0.0] * 8 + [1.0] + [0.0] * 10  # 4 bytes
        rows.append([op, *kind, *dims, *pad, *listed, *[-1] * 6, 0])
    return models._arrays(tf.constant(rows, tf.float32))


def _edges(*pairs):
    """(consumer, producer) pairs."""
    return tuple(tf.constant(end, tf.int32) for end in zip(*pairs))


def _program():
    """A dot's layout goes to 2, 3 and 6; 4 is as the parameter is."""
    arrays = _arrays(
        (PARAMETER, (4, 8), ()),
        (DOT, (4, 8), ()),
        (ADD, (4, 8), ()),
        (TRANSPOSE, (8, 4), (1, 0)),
        (ADD, (4, 8), ()),
        (BROADCAST, (8, 4), ()),
        (ADD, (8, 4), ()),
        (REDUCE, (4,), (1,)),
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
    origin = models._spread(arrays, chosen, edges, hops=4)
    fixed, anyhow, unknown = models._FIXED, models._ANY, models._UNKNOWN
    assert origin.node.numpy().tolist() == [fixed, 1, 1, 1, fixed, anyhow, 1, unknown]
    for node, first in ((2, [0, 1]), (3, [1, 0]), (6, [1, 0])):
        assert origin.dims.numpy()[node].tolist() == [*first, 2, 3, 4, 5]
    near = models._spread(arrays, chosen, edges, hops=1)
    assert near.node.numpy().tolist()[:4] == [fixed, 1, 1, unknown]


def test_copies_where_layouts_meet_what_is_row_major():
    arrays, edges, chosen = _program()
    origin = models._spread(arrays, chosen, edges, hops=4)
    matrix, (copied, row_major) = models._meetings(arrays, chosen, origin, edges)
    assert not len(matrix.rows) and not copied.numpy().any()
    assert row_major.numpy().tolist() == [0, 128, 0, 0, 0, 0, 0, 0]  # 2 to 4


def test_two_layouts_meet():
    arrays = _arrays((DOT, (4, 8), ()), (DOT, (4, 8), ()), (ADD, (4, 8), ()))
    edges, chosen = _edges((2, 0), (2, 1)), tf.constant([0, 1])
    origin = models._spread(arrays, chosen, edges, hops=4)
    assert origin.node.numpy().tolist() == [0, 1, 0]
    matrix, (copied, _) = models._meetings(arrays, chosen, origin, edges)
    assert [part.numpy().tolist() for part in matrix] == [[0], [1], [1.0]]
    assert copied.numpy().tolist() == [128, 0, 0]


def test_reductions():
    arrays, edges, chosen = _program()
    origin = models._spread(arrays, chosen, edges, hops=4)
    total, of_dim = models._reductions(arrays, origin, edges)
    assert total.numpy().tolist() == [0, 32, 0, 0, 0, 0, 0, 0]
    assert of_dim.numpy()[1].tolist() == [0, 1, 0, 0, 0, 0]


def test_the_input_of_a_convolution_has_its_batch():
    rows = [
        [PARAMETER, (3, 3, 5, 7)],
        [PARAMETER, (2, 9, 9, 5)],
        [CONVOLUTION, (2, 9, 9, 7)],
    ]
    arrays = _arrays(*[(op, dims, ()) for op, dims in rows])
    roles = np.full((3, 6), -1, np.float32)
    roles[2] = 0, 3, 0, 3, 2, 3
    arrays = arrays._replace(roles=tf.constant(roles))
    operands = models._operands(arrays, _edges((2, 0), (2, 1)))
    assert [int(node[2]) for node, _ in operands] == [1, 0]
    assert [exists.numpy().tolist() for _, exists in operands] == [[0, 0, 1]] * 2


def test_padding_of_the_fastest_dimensions():
    """8 x 100 with the second dimension fastest, and the other way round."""
    tensors = tf.constant([[8.0, 100, 0, 0, 0, 0] * 3 + [-9.0] * 6])
    fastest = tf.constant([[[1.0, 0], [0, 1], [-1, -1]]])
    found = models._of_layouts(fastest, models._hat(fastest), tensors)
    [found] = found.numpy().reshape(1, 3, -1)
    np.testing.assert_allclose(found[0, 2:4], np.log([128 / 100, 1]), rtol=1e-5)
    np.testing.assert_allclose(found[1, 2:4], np.log([16, 104 / 100]), rtol=1e-5)
    assert found[:2, 6:8].tolist() == [[1, 1], [0, 0]]  # row major


def test_columns_are_unscaled():
    scaling = {
        'node_used': [True, False, True],
        'node_min': [1.0, 5.0, -2.0],
        'node_max': [3.0, 5.0, 2.0],
    }
    unscaled = models._Unscaled(scaling, 'node', (2, 1, 0, 9))
    assert unscaled(tf.constant([[0.5, 0.25]])).numpy().tolist() == [[-1, 5, 2, 0]]
    as_they_are = models._Unscaled(None, 'config', (1, 7))
    assert as_they_are(tf.constant([[0.5, 0.25]])).numpy().tolist() == [[0.25, -1]]


def test_raw_columns_that_were_expanded_are_refused():
    columns = {
        f'{part}_{what}': np.array([True] if what == 'used' else [float(what == 'max')])
        for part in ('node', 'config')
        for what in ('used', 'min', 'max')
    }
    normalizer = normalizer_lib.Normalizer(**columns)
    layout.Layouts.make_model('HybridSAGE', {}, '', 2, 10, normalizer)
    expanded = dataclasses.replace(
        normalizer, expansion=expansion.Expansion(node_signlog=True)
    )
    with pytest.raises(
        ValueError, match='HybridSAGE undoes .* without --features and --mod128'
    ):
        layout.Layouts.make_model('HybridSAGE', {}, '', 2, 10, expanded)


@pytest.mark.parametrize(
    'name, options, message',
    [
        ('HybridSAGE', {'hops': 0}, 'hops is at least 1, not 0'),
        ('HybridSAGE', {'feature_dropout': 1}, 'feature_dropout is .* below 1, not 1'),
        ('ResSAGE', {'join': 'never'}, "join is one of early, late, not 'never'"),
        ('GCN', {'norm': 'batch'}, "norm is one of layer, none, not 'batch'"),
        ('ChebSAGE', {'num_gnns': 0}, 'num_gnns is at least 1, not 0'),
        ('AttentionSAGE', {'heads': 5}, 'heads divide hidden_dim=32, and 5 do not'),
    ],
)
def test_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(models, name)(4, 10, **options)


@pytest.mark.parametrize('name', ['ResSAGE', 'GCN', 'ChebSAGE', 'AttentionSAGE'])
def test_late_layers_keep_cells_few(name):
    late = getattr(models, name)(4, 10)
    assert late.num_gnns == models.HybridSAGE(4, 10).num_gnns
    assert getattr(models, name)(4, 10, join='early').num_gnns > 1


class _Comparing:
    """Scores a configuration by its runtime, less the mean of the list's."""

    def forward(self, graph, num_configs):
        del num_configs
        runtimes = graph.node_sets['g']['runtimes']
        return runtimes - tf.reduce_mean(runtimes, 1, keepdims=True)


def test_lists_are_averaged():
    program = layout_programs.random_program(0, configs=300)
    expected, times = np.zeros(300), np.zeros(300)
    for cut in lists.list_cuts(300):
        expected[cut] += program.runtimes[cut] - program.runtimes[cut].mean()
        times[cut] += 1
    scores = lists_lib.ListScorer(_Comparing()).score(program)
    np.testing.assert_allclose(scores, expected / times, rtol=1e-4, atol=10)
