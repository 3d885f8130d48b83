"""How tiles go through operands, by hand."""

import numpy as np
import pytest

from baselines.hlo import schema
from tests.helpers import hlo_kernels


def _columns(nodes, edges, *bounds):
    """Columns of (output, kernel) bounds, by name; the untiled ones first."""
    record = hlo_kernels.kernel(nodes, edges, hlo_kernels.configs(*bounds))
    found = hlo_kernels.columns(record, 'loop')
    return {name.removeprefix('exact_access_'): x for name, x in found.items()}


def _near(found, **expected):
    for name, wanted in expected.items():
        assert found[name] == pytest.approx(wanted, abs=1e-5), name


def _turned_sum():
    """The transpose of f32[6, 16] and a row of f32[6]."""
    nodes = [
        hlo_kernels.node('parameter', [6, 16]),
        hlo_kernels.node('transpose', [16, 6]),
        hlo_kernels.node('parameter', [6]),
        hlo_kernels.node('broadcast', [16, 6]),
        hlo_kernels.node('add', [16, 6], root=True),
    ]
    for node in (1, 3):
        nodes[node][1][schema.NODE.at('dimensions_0')] = 1
    bounds = ([16, 6], []), ([16, 1], []), ([8, 6], [])
    return _columns(nodes, [(1, 0), (3, 2), (4, 1), (4, 3)], *bounds)


def test_bytes_and_operations():
    found = _turned_sum()
    # 384 and 24 bytes; a column's 64 and 4, six times; of eight rows 192 and 24, twice.
    _near(
        found,
        moved=np.log([409, 409, 433]),
        moved_change=[0, 0, np.log(433 / 409)],
        # and 384, 64, 192 of the output
        set=np.log([1 + 408 + 384, 1 + 68 + 64, 1 + 216 + 192]),
        work=[0, 0, 0],
        operations=np.full(3, np.log((1 + 3 * 96) / 96)),
    )
    # What follows lies together: all, a row of 16, pieces of 8 of the first operand.
    runs = [
        (384 * np.log(96) + 24 * np.log(6)) / 408,
        64 * np.log(16) / 68,
        (192 * np.log(8) + 24 * np.log(6)) / 216,
    ]
    _near(found, run=runs, run_change=np.array(runs) - runs[0])


def test_innermost_loops():
    found = _turned_sum()
    first, second = 384 / 408, 192 / 216  # shares of the first operand
    _near(
        found,
        turns=[first, 0, second],
        turns_change=[0, -first, second - first],
        output_inner=np.log([6, 16, 6]),
        output_tail_8=[1, 0, 1],
        output_tail_32=[1, 1, 1],
        output_jumps=[first, 0, second],
        output_stays=[0, 4 / 68, 0],  # the row is the same all down a column
        output_splits=[0, 0, 0],
        output_fast=[1, 0, 1],
        reduced_inner=[0, 0, 0],
        reduced_jumps=[0, 0, 0],
        reduced_stays=[1, 1, 1],
        reduced_fast=[0, 0, 0],
    )


def test_what_is_left_of_vectors():
    nodes = [
        hlo_kernels.node('parameter', [40]),
        hlo_kernels.node('exponential', [40], root=True),
    ]
    found = _columns(nodes, [(1, 0)], ([40], []), ([20], []), ([32], []))
    _near(
        found,
        output_tail_8=[0, 4 / 20, 0],
        output_tail_32=[8 / 40, 1, 0],
        output_tail_32_change=[0, 1 - 8 / 40, -8 / 40],
        # Two tiles of 32 take 64 exponentials, of ten operations each.
        work=[0, 0, np.log(641 / 401)],
    )


def test_windows_read_again():
    nodes = [
        hlo_kernels.node('parameter', [10, 4]),
        hlo_kernels.node('reduce-window', [8, 4], root=True),
    ]
    nodes[1][1][schema.NODE.block('window_size')][:2] = 3, 1
    found = _columns(nodes, [(1, 0)], ([8, 4], []), ([3, 4], []))
    # Three tiles of 5 x 4 of 10 x 4.
    _near(found, moved=np.log([161, 241]), work=[0, np.log(37 / 33)])


def test_a_sum_goes_along_what_it_reduces():
    nodes = [
        hlo_kernels.node('parameter', [60, 10]),
        hlo_kernels.node('reduce', [10], root=True),
    ]
    bounds = ([10], [60]), ([10], [1]), ([1], [20])
    found = _columns(nodes, [(1, 0)], *bounds)
    _near(
        found,
        moved=np.log([2401, 2401, 2401]),
        output_inner=np.log([10, 10, 1]),
        output_jumps=[0, 0, 0],
        reduced_inner=np.log([60, 1, 20]),
        reduced_jumps=[1, 0, 1],
        reduced_stays=[0, 1, 0],
        reduced_jumps_change=[0, -1, 0],
    )


def test_dimensions_that_were_joined_take_divisions():
    nodes = [
        hlo_kernels.node('parameter', [3, 4, 5]),
        hlo_kernels.node('transpose', [4, 3, 5]),
        hlo_kernels.node('reshape', [4, 15], root=True),
    ]
    nodes[1][1][schema.NODE.block('dimensions')][:3] = 1, 0, 2
    bounds = ([4, 15], []), ([4, 5], []), ([1, 15], [])
    found = _columns(nodes, [(1, 0), (2, 1)], *bounds)
    _near(
        found,
        turns=[1, 0, 0],
        output_splits=[1, 0, 1],
        output_splits_change=[0, -1, 0],
        output_jumps=[0, 0, 0],
    )


def test_rows_of_a_reshaped_operand_are_not_rounded_up():
    nodes = [
        hlo_kernels.node('parameter', [8, 75]),
        hlo_kernels.node('reshape', [600], root=True),
    ]
    found = _columns(nodes, [(1, 0)], ([600], []), ([7 * 75], []))
    _near(found, moved=np.log([1 + 4 * 600, 1 + 2 * 4 * 7 * 75]))


def test_a_skipping_slice_jumps():
    nodes = [
        hlo_kernels.node('parameter', [16]),
        hlo_kernels.node('slice', [8], root=True),
    ]
    features = nodes[1][1]
    features[schema.NODE.at('slice_dims_stride_0')] = 2
    features[schema.NODE.at('slice_dims_stride_product')] = 2
    found = _columns(nodes, [(1, 0)], ([8], []), ([4], []))
    _near(found, output_jumps=[1, 1], moved=np.log([65, 65]))
