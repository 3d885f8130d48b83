"""Tiles of nodes, by hand."""

import numpy as np
import pytest

from baselines.features import kernel_nodes
from baselines.hlo import schema
from tests.helpers import hlo_kernels
from tpugraphs_lab.columns import node_tiles

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
    return node_tiles.NodeTiles(kernel_nodes.KernelNodes(store), output, sizes)


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
