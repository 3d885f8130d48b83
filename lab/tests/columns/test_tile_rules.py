"""Tiles that pass through operations by their dimension numbers, by hand."""

import dataclasses

import numpy as np
import pytest

from baselines.features import kernel_nodes
from baselines.hlo import graph
from baselines.hlo import schema
from tests.helpers import hlo_kernels
from tests.helpers import hlo_modules
from tpugraphs_lab.columns import node_tiles

_W = node_tiles.WHOLE
_R = schema.RANK  # the source of the first dimension that is summed over


def _record(opcode, operands, result, reduced=(), **fields):
    """The kernel of an operation with `fields`."""
    shape = lambda dims: dict(element_type=11, dimensions=dims)
    parameters = [
        dict(id=i, opcode='parameter', shape=shape(dims))
        for i, dims in enumerate(operands, start=1)
    ]
    ids = [parameter['id'] for parameter in parameters]
    last = dict(id=9, opcode=opcode, operand_ids=ids, shape=shape(result), **fields)
    module = hlo_modules.module(hlo_modules.computation(*parameters, last))
    nodes = graph.extract_graph(module, extra=True)
    empty = hlo_kernels.kernel(
        [hlo_kernels.node('abs')], [], hlo_kernels.configs((result, reduced))
    )
    return dataclasses.replace(
        empty,
        node_feat=nodes.node_feat,
        node_feat_extra=nodes.node_feat_extra,
        node_opcode=nodes.node_opcode.astype(np.int32),
        edge_index=nodes.edge_index.astype(np.int32),
    )


def _node_tiles(store):
    whole = [
        np.asarray(store.config_max[:, block])
        for block in (schema.OUTPUT_BOUNDS, schema.KERNEL_BOUNDS)
    ]
    return node_tiles.NodeTiles(kernel_nodes.KernelNodes(store), *whole)


def _tiles(opcode, operands, result, reduced=(), **fields):
    """Sources, times and plus of operands, of an operation with `fields`."""
    record = _record(opcode, operands, result, reduced, **fields)
    tiles = _node_tiles(hlo_kernels.store(record))
    assert tiles.reached.all()
    return [
        tuple(
            values[node, : len(dims)].tolist()
            for values in (tiles.source, tiles.times, tiles.plus)
        )
        for node, dims in enumerate(operands)
    ]


def _sources(*arguments, **fields):
    return [source for source, _, _ in _tiles(*arguments, **fields)]


@pytest.mark.parametrize(
    'operands, numbers, sources',
    [
        # [batch, rows, depth] x [batch, depth, columns]
        (([2, 3, 4], [2, 4, 5]), ([2], [1], [0], [0]), ([0, 1, _R], [0, _R, 2])),
        # The same numbers in another order, where sizes alone would mislead.
        (([4, 2, 4], [5, 4, 2]), ([0], [1], [1], [2]), ([_R, 0, 1], [2, _R, 0])),
    ],
)
def test_dots(operands, numbers, sources):
    names = ('contracting_dimensions', 'batch_dimensions')
    sides = [f'{side}_{name}' for name in names for side in ('lhs', 'rhs')]
    result = [2, operands[0][1] if operands[0][0] == 2 else 4, 5]
    found = _sources(
        'dot', operands, result, [4], dot_dimension_numbers=dict(zip(sides, numbers))
    )
    assert found == list(sources)


def test_kernels_without_dimension_numbers_are_read_by_sizes():
    numbers = dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])
    record = _record(
        'dot', ([5, 4], [4, 5]), [5, 5], [4], dot_dimension_numbers=numbers
    )
    other = dataclasses.replace(record, graph_id='other', node_feat_extra=None)
    store = hlo_kernels.store(other, record)
    # By sizes the columns of the left are needed whole, as are the right's rows.
    by_sizes, exact = [[0, _W], [_W, 1]], [[0, _R], [_R, 1]]

    def sources(store):
        source = _node_tiles(store).source[:, :2].tolist()
        return [source[:2], source[3:5]]  # the operands of both

    assert sources(store) == [by_sizes, exact]
    both = hlo_kernels.store(
        record, dataclasses.replace(record, graph_id='same')
    ).with_extra()
    assert sources(both) == [exact, exact]


def test_bounds_of_another_sum_do_not_cut_a_dot():
    numbers = dict(lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0])
    found = _sources(
        'dot', ([3, 4], [4, 5]), [3, 5], [7], dot_dimension_numbers=numbers
    )
    assert found == [[0, _W], [_W, 1]]


def test_gathers():
    # Rows of 5 from a table, at [7, 2] places: a tile of t x 2 places needs 2 t rows.
    numbers = dict(offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0])
    table, places = _tiles(
        'gather',
        ([9, 5], [7, 2, 1]),
        [7, 2, 5],
        gather_dimension_numbers=dict(numbers, index_vector_dim=2),
        gather_slice_sizes=[1, 5],
    )
    assert table == ([0, 2], [2, 1], [0, 0])
    assert places == ([0, 1, _W], [1, 1, 1], [0, 0, 0])


_NHWC = dict(
    input_batch_dimension=0,
    input_spatial_dimensions=[1, 2],
    input_feature_dimension=3,
    kernel_spatial_dimensions=[0, 1],
    kernel_input_feature_dimension=2,
    kernel_output_feature_dimension=3,
    output_batch_dimension=0,
    output_spatial_dimensions=[1, 2],
    output_feature_dimension=3,
)
_WINDOW = dict(
    dimensions=[
        dict(size=3, stride=2, window_dilation=1, base_dilation=1),
        dict(size=3, stride=1, window_dilation=2, base_dilation=1),
    ]
)


@pytest.mark.parametrize(
    'inner, groups, feature, times', [(3, 1, _R + 2, 1), (1, 3, 3, 0.5)]
)
def test_convolutions(inner, groups, feature, times):
    image, filters = _tiles(
        'convolution',
        ([2, 8, 9, 3], [3, 3, inner, 6]),
        [2, 3, 5, 6],
        [3, 3, inner],
        convolution_dimension_numbers=_NHWC,
        window=_WINDOW,
        feature_group_count=groups,
    )
    # Three windows, two rows apart, reach 3 - 2 further; of columns 1 + 2 x 2 - 1.
    assert image == ([0, 1, 2, feature], [1, 2, 1, times], [0, 1, 4, 0])
    assert filters[0] == [_R, _R + 1, _R + 2, 3]


def test_dynamic_slices():
    found = _sources('dynamic-slice', ([8, 6], []), [8, 2])
    assert found[0] == [0, 1]


@pytest.mark.parametrize('opcode', ['convolution', 'dot', 'gather'])
def test_any_columns_give_tiles(opcode):
    rng = np.random.default_rng(0)
    chain = [hlo_kernels.node(opcode) for _ in range(40)]
    edges = [(i, j) for i in range(1, 40) for j in (i - 1, i - 2) if j >= 0]
    record = hlo_kernels.kernel(chain, edges, hlo_kernels.configs(([2], [3])))
    wild = lambda columns: rng.choice([-1e30, -1, 0, 1, 2, 5, 6, 1e30], (40, columns))
    record = dataclasses.replace(
        record,
        node_feat=wild(140).astype(np.float32),
        node_feat_extra=wild(len(schema.EXTRA)).astype(np.float32),
    )
    store = hlo_kernels.store(record).with_extra()
    sizes = np.full((1, 6), 2)
    with np.errstate(all='ignore'):
        tiles = node_tiles.NodeTiles(kernel_nodes.KernelNodes(store), sizes, sizes)
    assert ((tiles.source >= 0) & (tiles.source <= _W)).all()
