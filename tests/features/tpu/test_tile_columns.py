"""Tiles against arrays: kernels small enough to work out by hand, and real ones."""

import numpy as np
import pytest

from tests.helpers import hlo_kernels
from tests.helpers.hlo_kernels import configs

_MIB = 2**20


def _columns(record):
    """{name without log_: values of the configurations}, logarithms undone."""
    found = hlo_kernels.columns(record, 'tile')
    return {n[len('log_') :]: np.exp(x.astype(np.float64)) for n, x in found.items()}


def _check(record, **expected):
    found = _columns(record)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, err_msg=name)


def test_trips_waste_and_shares():
    # 20 x 300: 3 x 3 registers.  In tiles of 2 x 2 registers the last ones are half
    # empty: 32 x 512 elements; whole, 24 x 384.
    record = hlo_kernels.addition(
        [20, 300], configs(([2, 2], []), ([3, 3], []), ([], []))
    )
    _check(
        record,
        tile_sublanes=[16, 24, 24],
        tile_lanes=[256, 384, 384],
        trips_sublanes=[2, 1, 1],
        trips_lanes=[2, 1, 1],
        waste_sublanes=[32 / 20, 24 / 20, 24 / 20],
        waste_lanes=[512 / 300, 384 / 300, 384 / 300],
        tile_elements=[16 * 256, 24 * 384, 24 * 384],
        tile_share=[4096 / 6000, 9216 / 6000, 9216 / 6000],
        # All of both operands and the result follow both loops.
        traffic_lanes=[1, 1, 1],
        visited_bytes=np.full(3, 1 + 3 * 24 * 384 * 4),
    )


def test_dimensions_come_fastest_first_whatever_the_rank():
    flat = hlo_kernels.addition([4096], configs(([2], [])))
    _check(flat, tile_lanes=[2048], trips_lanes=[2], trips_sublanes=[1])
    # Slowest in memory are 16, then 3, then 256.
    record = hlo_kernels.addition(
        [3, 16, 256], configs(([4, 1, 2], [])), layout=[2, 0, 1]
    )
    _check(
        record,
        trips_lanes=[1],
        trips_sublanes=[1],
        trips_third=[4],
        waste_sublanes=[8 / 3],
    )


@pytest.mark.parametrize(
    'tile, run',
    [
        ([2, 3], 16 * 384),  # whole rows: they follow each other
        ([3, 2], 256),  # pieces of rows
    ],
)
def test_a_run_ends_where_a_dimension_is_cut(tile, run):
    _check(hlo_kernels.addition([24, 384], configs((tile, []))), run=[run])


def test_a_product():
    # Two tiles in each direction; the sum over 1,024 in halves, and whole.
    record = hlo_kernels.product(([16, 2], [64, 2]), ([16, 2], [128, 2]))
    _check(
        record,
        trips_lanes=[2, 2],
        trips_sublanes=[2, 2],
        trips_depth=[2, 1],
        tile_depth=[512, 1024],
        waste_depth=[1, 1],
        # Columns tick: the left operand's 1 of 3.5 MiB is needed again.
        traffic_lanes=np.full(2, (2.5 + 1 * 2) / 3.5),
        traffic_sublanes=np.full(2, (1.5 + 2 * 2) / 3.5),
        traffic_depth=[(3 + 0.5 * 2) / 3.5, 1],
        # The sum is innermost, so the result stays, but both operands change with
        # it: the left one comes again for each of two columns, the right one for
        # each of two rows.  With a whole sum the left one stays.
        visited_bytes=[(1 * 2 + 2 * 2 + 0.5) * _MIB, (1 + 2 * 2 + 0.5) * _MIB],
    )


def test_short_sums_leave_the_matrix_unit_empty():
    # 64 at a time of 128 places.
    _check(hlo_kernels.product(([32, 4], [8, 4])), waste_depth=[2], trips_depth=[16])
