"""The columns beyond the published 140."""

import numpy as np

from baselines.hlo import graph
from tests.helpers import hlo_modules


def _rows(*instructions, pad=0):
    found = graph.extract_graph(
        hlo_modules.module(hlo_modules.computation(*instructions)), pad=pad, extra=True
    )
    return [dict(zip(found.feature_names, row)) for row in found.node_feat]


def _with(row, prefix):
    """The non-zero values of the columns that begin with `prefix`."""
    return {k[len(prefix) :]: v for k, v in row.items() if k.startswith(prefix) and v}


def test_they_follow_the_published_columns_under_unique_names():
    plain = graph.extract_graph(hlo_modules.chain())
    more = graph.extract_graph(hlo_modules.chain(), extra=True)
    np.testing.assert_array_equal(more.node_feat[:, :140], plain.node_feat)
    assert more.feature_names[:140] == plain.feature_names
    assert len(set(more.feature_names)) == more.node_feat.shape[1]


def test_dot():
    (row,) = _rows(
        dict(
            id=1,
            dot_dimension_numbers=dict(
                lhs_contracting_dimensions=[2, 3],
                rhs_contracting_dimensions=[1],
                lhs_batch_dimensions=[5],
                rhs_batch_dimensions=[6, 7, 8, 9, 10],
            ),
        )
    )
    assert _with(row, 'dot_') == {
        'lhs_contracting_dimensions_0': 2,
        'lhs_contracting_dimensions_1': 3,
        'rhs_contracting_dimensions_0': 1,
        'lhs_batch_dimensions_0': 5,
        'rhs_batch_dimensions_0': 6,
        'rhs_batch_dimensions_1': 7,
        'rhs_batch_dimensions_2': 8,
        'rhs_batch_dimensions_3': 9,
    }


def test_gather_and_scatter():
    (row,) = _rows(
        dict(
            id=1,
            gather_dimension_numbers=dict(
                offset_dims=[2],
                collapsed_slice_dims=[3],
                start_index_map=[4, 5],
                index_vector_dim=6,
            ),
            gather_slice_sizes=[7, 8],
            scatter_dimension_numbers=dict(
                update_window_dims=[1],
                inserted_window_dims=[2, 3],
                scatter_dims_to_operand_dims=[4],
                index_vector_dim=5,
            ),
        )
    )
    assert _with(row, 'gather_') == {
        'offset_dims_0': 2,
        'collapsed_slice_dims_0': 3,
        'start_index_map_0': 4,
        'start_index_map_1': 5,
        'index_vector_dim': 6,
        'slice_sizes_0': 7,
        'slice_sizes_1': 8,
        'slice_sizes_sum': 15,
        'slice_sizes_product': 56,
    }
    assert _with(row, 'scatter_') == {
        'update_window_dims_0': 1,
        'inserted_window_dims_0': 2,
        'inserted_window_dims_1': 3,
        'scatter_dims_to_operand_dims_0': 4,
        'index_vector_dim': 5,
    }


def test_operands_in_stored_order_with_repeats():
    rows = _rows(
        dict(id=7, shape=dict(element_type=11, dimensions=[2, 3])),
        dict(id=4, shape=dict(element_type=4)),
        dict(id=9, operand_ids=[7, 4, 7, 4]),
    )
    assert _with(rows[0], 'operand_') == {
        f'{i}_dimensions_product': 1 for i in range(3)
    }
    of_f32 = {
        'dimensions_0': 2,
        'dimensions_1': 3,
        'dimensions_sum': 5,
        'dimensions_product': 6,
        'element_type_is_f32': 1,
    }
    assert rows[2]['operand_count'] == 4
    assert _with(rows[2], 'operand_0_') == of_f32
    assert _with(rows[2], 'operand_1_') == {
        'element_type_is_s32': 1,
        'dimensions_product': 1,
    }
    assert _with(rows[2], 'operand_2_') == of_f32


def test_literals_and_constants():
    rows = _rows(
        dict(id=1, opcode='constant', literal=dict(shape={}, f32s=[1])),
        dict(
            id=2,
            opcode='constant',
            literal=dict(shape=dict(dimensions=[2]), f32s=[1, 2]),
        ),
        dict(id=3, opcode='constant'),
        dict(id=4, opcode='add'),
    )
    names = ('is_constant', 'has_literal', 'literal_is_scalar')
    assert [[row[name] for name in names] for row in rows] == [
        [1, 1, 1],
        [1, 1, 0],
        [1, 0, 0],
        [0, 0, 0],
    ]


def test_fft():
    rows = _rows(
        dict(id=1, opcode='fft', fft_length=[4, 6]),
        dict(id=2, opcode='fft', fft_type=3),
        dict(id=3, opcode='add'),
    )
    assert _with(rows[0], 'fft_') == {
        'type_is_fft': 1,
        'length_0': 4,
        'length_1': 6,
        'length_sum': 10,
        'length_product': 24,
    }
    assert _with(rows[1], 'fft_type') == {'_is_irfft': 1}
    assert not _with(rows[2], 'fft_type')


def test_comparison_interior_padding_output_dimensions_tuple_index():
    (row,) = _rows(
        dict(
            id=1,
            comparison_direction='GE',
            tuple_index=3,
            padding_config={
                'dimensions': [dict(interior_padding=i) for i in (1, 0, 2)]
            },
            convolution_dimension_numbers=dict(output_spatial_dimensions=[1, 2]),
        ),
        pad=-1,
    )
    assert _with(row, 'comparison_direction_is_') == {'ge': 1}
    assert [row[f'padding_config_interior_padding_{i}'] for i in range(6)] == [
        1,
        0,
        2,
        -1,
        -1,
        -1,
    ]
    assert row['padding_config_interior_padding_sum'] == 3
    assert row['padding_config_interior_padding_product'] == 0
    prefix = 'convolution_dim_numbers_output_spatial_dims_'
    assert [row[f'{prefix}{i}'] for i in range(4)] == [1, 2, -1, -1]
    assert row['tuple_index'] == 3
