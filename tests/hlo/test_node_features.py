"""Node features: every column, from instructions made for it."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.hlo import graph
from baselines.hlo import schema
from tests.helpers import hlo_modules
from tests.helpers import hlo_rows

_INT64 = st.integers(-(2**63), 2**63 - 1)
_LISTS = st.lists(st.one_of(st.integers(-3, 9), _INT64), max_size=8)


def test_root_of_its_own_computation_only():
    module = hlo_modules.module(
        hlo_modules.computation({'id': 5}, {'id': 6}, id=1, root_id=5),
        hlo_modules.computation({'id': 7}, {'id': 8}, id=2, root_id=5),
    )
    assert graph.extract_graph(module).node_feat[:, 0].tolist() == [1, 0, 0, 0]


def test_casts_round_once():
    # Between the float32 neighbours 2^54 and 2^54 + 2^31, just above half-way.
    # As float64 it would first become the tie, and then round to even, down.
    number = 2**54 + 2**30 + 1
    assert np.float32(np.float64(number)) == 2.0**54
    parameter = hlo_modules.computation(dict(id=1, parameter_number=number))
    [row] = graph.extract_graph(hlo_modules.module(parameter)).node_feat
    assert row.dtype == np.float32
    assert row[schema.NODE.at('parameter_number')] == 2.0**54 + 2**31


@given(
    pad=st.sampled_from([0, -1]),
    lists=st.lists(_LISTS, min_size=5, max_size=5),
    numbers=st.lists(_INT64, min_size=4, max_size=4),
    present=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_any_numbers_give_the_rows_of_the_rules(pad, lists, numbers, present):
    dimensions, sizes, strides, layout, spatial = lists
    instruction = dict(
        id=3,
        shape={
            'element_type': numbers[0] % 26,
            'dimensions': dimensions,
            'layout': {'minor_to_major': layout},
        },
        dimensions=strides,
        dynamic_slice_sizes=sizes,
        parameter_number=numbers[1],
    )
    if present[0]:
        fields = 'size stride padding_low padding_high window_dilation base_dilation'
        instruction['window'] = {
            'dimensions': [
                dict(zip(fields.split(), (a, b, b, a, a, b)), window_reversal=a > b)
                for a, b in zip(sizes, strides)
            ]
        }
    if present[1]:
        fields = 'input_batch input_feature kernel_input_feature kernel_output_feature'
        fields = f'{fields} output_batch output_feature'.split()
        instruction['convolution_dimension_numbers'] = dict(
            zip([f'{field}_dimension' for field in fields], numbers + numbers[:2]),
            input_spatial_dimensions=spatial,
            kernel_spatial_dimensions=sizes,
            output_spatial_dimensions=strides,
        )
    if present[2]:
        instruction['slice_dimensions'] = [
            dict(start=a, limit=numbers[3], stride=a) for a in spatial
        ]
        instruction['padding_config'] = {
            'dimensions': [
                dict(edge_padding_low=a, edge_padding_high=-1 - a) for a in dimensions
            ]
        }
    module = hlo_modules.module(
        hlo_modules.computation(dict(id=2), instruction, dict(id=4))
    )
    np.testing.assert_array_equal(
        graph.extract_graph(module, pad=pad).node_feat,
        hlo_rows.compute_rows(module, pad),
    )


def test_opcodes():
    names = 'abs tan trace tuple-select Add erf topk erf convolution'.split()
    module = hlo_modules.module(
        hlo_modules.computation(*({'opcode': name} for name in ['', *names]))
    )
    found = graph.extract_graph(module)
    assert found.node_opcode.dtype == np.uint8
    assert found.node_opcode.tolist() == [0, 1, 120, 97, 101, 0, 0, 0, 0, 26]
    assert found.unknown_opcodes == {'': 1, 'Add': 1, 'erf': 2, 'topk': 1}


def test_limits(monkeypatch):
    found = graph.extract_graph(hlo_modules.module())
    assert (found.node_feat.shape, found.edge_index.shape) == ((0, 140), (0, 2))
    assert found.node_splits.tolist() == [0]
    with pytest.raises(ValueError, match=' -2;'):
        graph.extract_graph(hlo_modules.chain(), pad=-2)
    monkeypatch.setattr(graph, 'MAX_NODES', 2)
    with pytest.raises(ValueError, match='3 .* 2'):
        graph.extract_graph(hlo_modules.chain())
