"""The columns that the published 140 leave out."""

import math

import numpy as np
import pytest

from baselines.hlo import graph
from baselines.hlo import schema
from tests.helpers import hlo_modules


def _rows(*instructions):
    """The columns of instructions that are not -1 or 0, by name."""
    module = hlo_modules.module(hlo_modules.computation(*instructions))
    found = graph.extract_graph(module, extra=True).node_feat_extra
    assert found.dtype == np.float32 and found.shape[1] == len(schema.EXTRA)
    named = (dict(zip(schema.EXTRA.names, row.tolist())) for row in found)
    return [{n: v for n, v in row.items() if v not in (0, -1)} for row in named]


def test_published_columns_stay():
    names = schema.NODE_AND_EXTRA.names
    assert names[:140] == schema.NODE.names
    assert len(set(names)) == len(names) == 140 + len(schema.EXTRA)
    module = hlo_modules.chain()
    plain, more = graph.extract_graph(module), graph.extract_graph(module, extra=True)
    assert plain.node_feat_extra is None
    np.testing.assert_array_equal(plain.node_feat, more.node_feat)


def test_absent_entries_are_minus_1_and_dimension_0_is_0():
    numbers = dict(lhs_batch_dimensions=[0])
    dot = dict(id=1, opcode='dot', dot_dimension_numbers=numbers)
    module = hlo_modules.module(hlo_modules.computation(dot))
    (row,) = graph.extract_graph(module, extra=True).node_feat_extra
    batch = row[schema.EXTRA.block('dot_lhs_batch_dimensions')]
    assert batch.tolist() == [0, -1, -1, -1]
    assert row[schema.EXTRA.block('slice_limit')].tolist() == [-1] * 6


def test_dimension_numbers():
    dot = dict(lhs_contracting_dimensions=[2, 3], rhs_batch_dimensions=[6, 7, 8, 9, 10])
    gather = dict(offset_dims=[2], start_index_map=[4, 5], index_vector_dim=6)
    scatter = dict(update_window_dims=[1], inserted_window_dims=[2], index_vector_dim=4)
    instruction = dict(id=1, gather_slice_sizes=[7, 8])
    for name, numbers in (
        ('dot', dot),
        ('gather', gather),
        ('scatter', scatter),
        ('convolution', dict(output_spatial_dimensions=[1, 2])),
    ):
        instruction[f'{name}_dimension_numbers'] = numbers
    (row,) = _rows(instruction)
    assert row == {
        'dot_lhs_contracting_dimensions_0': 2,
        'dot_lhs_contracting_dimensions_1': 3,
        **{f'dot_rhs_batch_dimensions_{i}': 6 + i for i in range(4)},  # the first four
        'gather_offset_dims_0': 2,
        'gather_start_index_map_0': 4,
        'gather_start_index_map_1': 5,
        'gather_index_vector_dim': 6,
        'gather_slice_sizes_0': 7,
        'gather_slice_sizes_1': 8,
        'scatter_update_window_dims_0': 1,
        'scatter_inserted_window_dims_0': 2,
        'scatter_index_vector_dim': 4,
        'convolution_dim_numbers_output_spatial_dims_0': 1,
        'convolution_dim_numbers_output_spatial_dims_1': 2,
    }


def test_slices_and_padding_of_all_dimensions():
    edge = dict(edge_padding_low=2, edge_padding_high=3, interior_padding=4)
    (row,) = _rows(
        dict(
            id=1,
            slice_dimensions=[dict(), dict(), dict(start=2, limit=9, stride=3)],
            dynamic_slice_sizes=[5, 6],
            padding_config=dict(dimensions=[dict(), edge]),
        )
    )
    assert row == {
        'slice_start_2': 2,
        'slice_limit_2': 9,
        'slice_stride_2': 3,
        'dynamic_slice_0': 5,
        'dynamic_slice_1': 6,
        'pad_low_1': 2,
        'pad_high_1': 3,
        'pad_interior_1': 4,
    }


def test_operands_fusions_and_shardings():
    rows = _rows(
        dict(id=5, opcode='parameter', sharding=dict(type=4)),
        dict(id=7, opcode='parameter', sharding=dict(type=5)),  # unknown
        dict(id=6, opcode='fusion', operand_ids=[7, 5, 7, 5], fusion_kind='kLoop'),
        dict(id=9, opcode='fusion', operand_ids=[6], fusion_kind='kNew'),
    )
    assert rows == [
        {'sharding_is_manual': 1},
        {},
        {
            'operand_distance_0': 1,
            'operand_distance_1': 2,
            'operand_distance_2': 1,
            'fusion_kind_is_kLoop': 1,
        },
        {'operand_distance_0': 1},
    ]


@pytest.mark.parametrize(
    'number, field, values, log',
    [
        (11, 'f32s', [-3.0], -math.log(4)),
        (11, 'f32s', [-math.inf], -math.log1p(float(np.finfo(np.float32).max))),
        (11, 'f32s', [math.nan], 0),
        (12, 'f64s', [1e300], math.log1p(float(np.finfo(np.float32).max))),
        (4, 's32s', [7], math.log(8)),
        (2, 's8s', b'\xff', -math.log(2)),
        (10, 'f16s', b'\x00\x3c', math.log(2)),  # 1.0
        (16, 'bf16s', b'\x80\x3f', math.log(2)),
    ],
)
def test_values_of_scalar_constants(number, field, values, log):
    literal = {'shape': dict(element_type=number), field: values}
    (row,) = _rows(dict(id=1, opcode='constant', literal=literal))
    assert row.pop('constant_is_scalar') == 1
    assert row.get('constant_log_value', 0) == pytest.approx(log)


def test_other_constants_have_no_value():
    for literal in (
        dict(shape=dict(element_type=11, dimensions=[1]), f32s=[3]),
        dict(shape=dict(element_type=11)),  # left out of the dump
        dict(shape=dict(element_type=16), bf16s=b'\x80'),  # damaged
        dict(shape=dict(element_type=15), c64s=[1, 2]),
    ):
        assert _rows(dict(id=1, opcode='constant', literal=literal)) == [{}]
