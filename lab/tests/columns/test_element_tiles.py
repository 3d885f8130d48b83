"""Tiles in elements, by hand."""

import numpy as np
import pytest

from baselines.hlo import schema
from tests.helpers import hlo_kernels


def _rows(*bounds):
    """Raw columns of (output, kernel, input) bounds."""
    rows = hlo_kernels.configs(*((output, kernel) for output, kernel, _ in bounds))
    for row, (*_, taken) in zip(rows, bounds):
        row[16 : 16 + len(taken)] = taken
    return rows


def _sum(*bounds):
    """A sum over the first dimension of f32[60, 10, 100]; the untiled one first."""
    whole = ([10, 100], [60], [60, 10, 100])
    nodes = [
        hlo_kernels.node('parameter', [60, 10, 100]),
        hlo_kernels.node('reduce', [10, 100], root=True),
    ]
    return hlo_kernels.kernel(nodes, [(1, 0)], _rows(whole, *bounds))


def _columns(record):
    found = hlo_kernels.columns(record, 'loop')
    return {name.removeprefix('loop_'): x for name, x in found.items()}


def test_a_sum_over_the_slowest_dimension():
    found = _columns(
        _sum(([10, 32], [20], [20, 10, 32]), ([3, 100], [60], [60, 3, 100]))
    )
    logs = {name: np.exp(x).tolist() for name, x in found.items()}

    def near(name, *wanted):
        assert logs[name] == pytest.approx(wanted, rel=1e-5), name

    near('output_tile_0', 100, 32, 100)
    near('output_trips_0', 1, 4, 1)
    near('output_trips_1', 1, 1, 4)
    near('output_tile_2', 1, 1, 1)
    near('kernel_trips_0', 1, 3, 1)
    near('output_elements', 1000, 320, 300)
    near('output_share', 1, 0.32, 0.3)
    # 32 of 100 lie together; 3 whole rows of 100 do, and 60 x 3 rows do not.
    near('output_run', 1000, 32, 300)
    near('input_run', 60_000, 32, 300)
    near('input_run_share', 1, 32 / 60_000, 300 / 60_000)
    near('trips', 1, 12, 4)
    near('overhead', 1 / 120_000, 12 / 120_000, 4 / 120_000)
    near('work', 60_000, 320 * 20, 300 * 60)
    # 12 times 20 x 10 x 32 and 4 times 60 x 3 x 100, of 60 x 10 x 100.
    near('input_again', 1, 12 * 6400 / 60_000, 4 * 18_000 / 60_000)
    near('footprint', 61_000, 320 + 6400, 300 + 18_000)
    near('waste', 1, 4 * 32 / 100, 4 * 3 / 10)
    near('kernel_inner', 60, 20, 60)
    near('input_inner', 100, 32, 100)
    assert found['output_first'].tolist() == [6, 0, 1]
    assert found['output_last'].tolist() == [-1, 0, 1]
    assert found['input_last'].tolist() == [-1, 2, 1]
    assert found['output_by_8'].tolist() == [0, 1, 0]
    assert found['fastest_kept'].tolist() == [1, 1, 1]
    assert found['fastest_reduced'].tolist() == [0, 0, 0]
    assert found['extremes'].tolist() == [0, 0, 0]


def test_the_innermost_loop_skips_dimensions_of_one_element():
    found = _columns(_sum(([5, 1], [1], [1, 5, 1]), ([1, 1], [60], [60, 1, 1])))
    inner = {what: np.exp(found[f'{what}_inner']) for what in ('output', 'kernel')}
    assert inner['output'] == pytest.approx([100, 5, 1])
    assert inner['kernel'] == pytest.approx([60, 1, 60])
    assert np.exp(found['input_inner']) == pytest.approx([100, 5, 60])
    assert found['alone'].tolist() == [0, 1, 0]


def test_a_reduction_to_a_maximum_is_told_from_an_elementwise_one():
    nodes = [
        hlo_kernels.node('parameter', []),
        hlo_kernels.node('maximum', []),
        hlo_kernels.node('parameter', [8, 4]),
        hlo_kernels.node('reduce', [8], root=True),
    ]
    rows = _rows(([8], [4], [8, 4]), ([8], [1], [8, 1]))
    reduced = hlo_kernels.kernel(nodes, [(1, 0), (3, 2)], rows)
    assert _columns(reduced)['extremes'].tolist() == [1, 1]
    # Over the fastest dimension: sums stay slow.
    assert _columns(reduced)['alone'].tolist() == [0, 1]
    nodes[1] = hlo_kernels.node('add', [])
    added = hlo_kernels.kernel(nodes, [(1, 0), (3, 2)], rows)
    assert _columns(added)['alone'].tolist() == [0, 0]
    nodes = [
        hlo_kernels.node('parameter', [8, 4]),
        hlo_kernels.node('maximum', [8, 4], root=True),
    ]
    elementwise = hlo_kernels.kernel(nodes, [(1, 0)], _rows(([8, 4], [], [8, 4])))
    assert _columns(elementwise)['extremes'].tolist() == [0]


def _bits(name, nodes, *bounds):
    record = hlo_kernels.kernel(nodes, [(1, 0)], _rows(*bounds))
    return _columns(record)[name].tolist()


def test_a_convolution_at_one_position():
    nodes = [
        hlo_kernels.node('parameter', [2, 6, 6, 8]),
        hlo_kernels.node(
            'convolution', [2, 6, 6, 8], output_feature=3, output_batch=0, root=True
        ),
    ]
    outputs = ([2, 6, 6, 8], [2, 1, 1, 8], [1, 1, 2, 8], [1, 6, 1, 1], [1, 1, 1, 4])
    features = nodes[1][1]
    for window, inputs, groups, steps, wanted in (
        ([3, 3], 1, 8, 1, [0, 1, 0, 0, 1]),
        ([3, 1], 1, 8, 1, [0, 1, 1, 0, 1]),  # nothing moves along the second
        ([1, 3], 1, 8, 1, [0, 1, 0, 1, 1]),
        ([3, 3], 1, 8, 4, [0] * 5),  # two steps each way
        # A library's: of all features, of two to one, of one to two.
        ([3, 3], 8, 1, 1, [0] * 5),
        ([3, 3], 2, 8, 1, [0] * 5),
        ([3, 3], 1, 4, 1, [0] * 5),
    ):
        bounds = [(output, [*window, inputs], [2, 6, 6, 8]) for output in outputs]
        features[schema.NODE.block('window_size')][:2] = window
        features[schema.NODE.at('feature_group_count')] = groups
        features[schema.NODE.at('window_stride_product')] = steps
        assert _bits('one_position', nodes, *bounds) == wanted
    assert _bits('part_joined', nodes, *bounds) == [0] * 5
    pooled = hlo_kernels.node('reduce-window', [2, 6, 6, 8], root=True)
    pooled[1][schema.NODE.block('window_size')][:4] = 1, 3, 3, 1
    pooled[1][schema.NODE.at('window_stride_product')] = 1
    assert _bits('one_position', [nodes[0], pooled], *bounds) == [0, 1, 0, 0, 1]


def test_a_part_of_what_is_joined():
    joined = hlo_kernels.node('concatenate', [6, 10], root=True)
    joined[1][schema.NODE.at('dimensions_0')] = 1
    nodes = [hlo_kernels.node('parameter', [6, 5]), joined]
    bounds = [(output, [], [6, 5]) for output in ([6, 10], [2, 10], [6, 5], [1, 1])]
    assert _bits('part_joined', nodes, *bounds) == [0, 0, 1, 1]
    assert _bits('straight', nodes, *bounds) == [0] * 4
    # 60 elements of 2 ns and one round; 3, 2 and 60 rounds, the latter of 0.15 ns.
    wanted = np.array([220, 420, 209, 6009]) / 220
    assert np.exp(_bits('time', nodes, *bounds)) == pytest.approx(wanted)


def test_a_transpose_of_what_is_left():
    turned = hlo_kernels.node('transpose', [4, 3, 5, 2])
    turned[1][schema.NODE.block('dimensions')][:4] = 0, 2, 3, 1
    nodes = [hlo_kernels.node('parameter', [4, 2, 3, 5]), turned]
    inputs = ([4, 2, 3, 5], [4, 1, 3, 5], [4, 2, 1, 1], [1, 2, 1, 5], [2, 2, 3, 1])
    bounds = [([60, 2], [], taken) for taken in inputs]
    assert _bits('straight', nodes, *bounds) == [0, 1, 1, 0, 0]
    # A reshape before it: which dimensions are turned is not known.
    bounds = [([60, 2], [], taken) for taken in ([8, 15], [1, 15])]
    assert _bits('straight', nodes, *bounds) == [0, 0]
