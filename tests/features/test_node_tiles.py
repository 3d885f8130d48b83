"""Tiles of nodes, by hand."""

import numpy as np
import pytest

from baselines.features import node_tiles
from baselines.hlo import schema
from tests.helpers import hlo_kernels

_W = node_tiles.WHOLE


def _named(node, **columns):
    """A node with entries of lists of columns, from the first one on."""
    opcode, features = node
    for name, values in columns.items():
        first = schema.NODE.at(f'{name}_0')
        features[first : first + len(values)] = values
    return opcode, features


def _tiles(nodes, edges, reduced=()):
    """Tiles of the nodes of a kernel whose root is the last one."""
    nodes[-1][1][schema.IS_ROOT] = 1
    output = nodes[-1][1][schema.DIMENSIONS][None].astype(int)
    sizes = np.zeros((1, 6), int)
    sizes[0, : len(reduced)] = reduced
    rows = hlo_kernels.configs((output[0].tolist(), reduced))
    store = hlo_kernels.store(hlo_kernels.kernel(nodes, edges, rows))
    return node_tiles.NodeTiles(store, output, sizes)


def _of_operand(operand, result, opcode, reduced=(), **columns):
    """The source, times and plus of the operand's dimensions."""
    node = _named(hlo_kernels.node(opcode, result), **columns)
    tiles = _tiles([hlo_kernels.node('parameter', operand), node], [(1, 0)], reduced)
    assert tiles.reached.all()
    return [
        values[0, : len(operand)].tolist()
        for values in (tiles.source, tiles.times, tiles.plus)
    ]


@pytest.mark.parametrize(
    'operand, result, opcode, columns, source',
    [
        ([8, 6], [8, 6], 'exponential', {}, [0, 1]),
        ([6], [8, 6], 'broadcast', dict(dimensions=[1]), [1]),
        ([3, 4, 5], [5, 3, 4], 'transpose', dict(dimensions=[2, 0, 1]), [1, 2, 0]),
        ([8, 6], [8, 9], 'concatenate', dict(dimensions=[1]), [0, _W]),
        ([8, 6], [9, 6], 'pad', {}, [0, 1]),
        ([3, 4, 5], [4], 'reduce', dict(dimensions=[0, 2]), [_W, 0, _W]),
        # Of a product no more is certain than what has the same place and size.
        ([8, 6], [8, 9], 'dot', {}, [0, _W]),
    ],
)
def test_sources(operand, result, opcode, columns, source):
    found = _of_operand(operand, result, opcode, **columns)
    rank = len(operand)
    assert found == [source, [1.0] * rank, [0.0] * rank]


def test_what_bounds_reduce_is_cut_by_them():
    reduce = dict(dimensions=[2, 0])
    found, *_ = _of_operand([3, 4, 5], [4], 'reduce', [5, 3], **reduce)
    assert found == [7, 0, 6]
    found, *_ = _of_operand([3, 4, 5], [4], 'reduce', [5, 2], **reduce)
    assert found == [_W, 0, _W]


def test_windows_reach_further():
    columns = dict(window_size=[5, 1], window_stride=[2, 1])
    found = _of_operand([19, 4], [8, 4], 'reduce-window', **columns)
    # Of t results (t - 1) x 2 + 5.
    assert found == [[0, 1], [2, 1], [3, 0]]


def test_slices_skip():
    columns = dict(slice_dims_stride=[2, 1, 3, 6])  # the sum and the product
    found = _of_operand([10, 7, 9], [5, 7, 3], 'slice', **columns)
    assert found == [[0, 1, 2], [2, 1, 3], [0, 0, 0]]


@pytest.mark.parametrize(
    'operand, result, source, times',
    [
        ([8, 12], [8, 3, 4], [0, 1], [1, 4]),
        ([6, 4, 5], [24, 5], [0, 0, 1], [1 / 4, 1, 1]),
        ([7, 1, 5], [7, 5], [0, _W, 1], [1, 1, 1]),
    ],
)
def test_reshapes(operand, result, source, times):
    found = _of_operand(operand, result, 'reshape')
    exists = np.array(source) < _W
    assert found[0] == source
    assert np.array(found[1])[exists].tolist() == np.array(times)[exists].tolist()


def test_operations_follow_each_other():
    """The transposed maximum of windows of a parameter that skips."""
    skipping = dict(slice_dims_stride=[2, 1, 3, 2])
    window = dict(window_size=[3, 1], window_stride=[1, 1])
    nodes = [
        hlo_kernels.node('parameter', [20, 4]),
        hlo_kernels.node('parameter', [20, 4]),  # of nothing
        _named(hlo_kernels.node('slice', [10, 4]), **skipping),
        _named(hlo_kernels.node('reduce-window', [8, 4]), **window),
        _named(hlo_kernels.node('transpose', [4, 8]), dimensions=[1, 0]),
    ]
    tiles = _tiles(nodes, [(4, 3), (3, 2), (2, 0)])
    assert tiles.reached.tolist() == [True, False, True, True, True]
    assert tiles.root.tolist() == [4]
    assert tiles.source[:, :2].tolist() == [[1, 0], [_W] * 2, [1, 0], [1, 0], [0, 1]]
    # t positions take t + 2 elements, which are 2 apart.
    assert tiles.times[0, :2].tolist() == [2, 1]
    assert tiles.plus[0, :2].tolist() == [4, 0]


def test_a_result_that_bounds_are_not_of_is_whole():
    nodes = [hlo_kernels.node('parameter', [8]), hlo_kernels.node('negate', [8])]
    nodes[1][1][schema.IS_ROOT] = 1
    rows = hlo_kernels.configs(([4], []))
    store = hlo_kernels.store(hlo_kernels.kernel(nodes, [(1, 0)], rows))
    output = np.array([[4, 0, 0, 0, 0, 0]])
    tiles = node_tiles.NodeTiles(store, output, 0 * output)
    assert (tiles.source == _W).all()
