"""Tiles against arrays: kernels small enough to work out by hand, and real ones."""

import numpy as np
import pytest

from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_columns
from baselines.features import tile_table
from baselines.tiles import graphs
from tests.helpers import hlo_kernels
from tests.helpers.hlo_kernels import configs

_MIB = 2**20


def _columns(record):
    """{name without log_: values of the configurations}, logarithms undone."""
    found = hlo_kernels.columns(record, 'tile_columns')
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


# The table -----------------------------------------------------------------------


def _kernels():
    return hlo_kernels.store(
        hlo_kernels.addition(
            [64, 512], configs(([8, 4], []), ([1, 1], []), ([2, 2], []))
        ),
        hlo_kernels.product(([16, 2], [64, 2]), ([16, 2], [128, 2])),
    )


def test_parts_come_in_one_order_and_rows_know_their_kernel():
    store = _kernels()
    table = tile_table.TileTable(store, ('estimate', 'tile_columns'))
    assert table.parts == ('tile_columns', 'estimate')
    assert table.names[0] == 'log_tile_lanes' and table.names[-1] == 'log_time'
    every = table.rows(np.arange(5))
    assert every.shape == (5, len(table.names))
    again = tile_table.TileTable(store, table.parts)
    np.testing.assert_array_equal(again.rows(np.array([4, 1])), every[[4, 1]])
    trips = every[:, table.names.index('log_trips_depth')]
    np.testing.assert_allclose(np.exp(trips), [1, 1, 1, 2, 1], rtol=1e-6)


def test_trees_use_the_rows_of_a_graph_model():
    store = _kernels()
    shared = tile_table.TileTable(store, list(tile_table.PARTS))
    alone, some = tile_table.TreeTable(store), tile_table.TreeTable(store, None, shared)
    assert some.names == alone.names
    rows = np.array([1, 0, 0]), np.array([1, 2, 0])
    np.testing.assert_array_equal(some.rows(*rows), alone.rows(*rows))


def test_a_model_sees_the_table_scaled_behind_its_columns():
    store = _kernels()
    plain = normalizer_lib.Normalizer.fit(store)
    table = tile_table.TileTable(store, ('estimate', 'tile_columns'))
    fitted = normalizer_lib.Normalizer.fit(store, table=table)
    width = len(tile_columns.TileColumns.names) + 7
    assert fitted.num_config_features == plain.num_config_features + width
    seen = graphs.TileGraphs(store, fitted).scoring_items(np.arange(2))['config_feats']
    raw = graphs.TileGraphs(store, plain).scoring_items(np.arange(2))['config_feats']
    np.testing.assert_array_equal(seen[:, :-width], raw)
    part = seen[:, -width:]
    assert part.min() == 0 and part.max() == 1
    again = normalizer_lib.Normalizer.from_json(fitted.to_json())
    assert again.table_parts == ('tile_columns', 'estimate')
    found = graphs.TileGraphs(store, again).scoring_items(np.arange(2))['config_feats']
    np.testing.assert_array_equal(found, seen)


def test_ranges_of_other_columns_are_refused():
    store = _kernels()
    table = tile_table.TileTable(store, ['tile_columns'])
    described = normalizer_lib.Normalizer.fit(store, table=table).to_json()
    described['tile_columns_max'] = [1.0]
    with pytest.raises(ValueError, match='has 1 entries, but --tile_columns has 35'):
        normalizer_lib.Normalizer.from_json(described)


def test_withdrawn_columns_are_refused():
    described = normalizer_lib.Normalizer.fit(_kernels()).to_json()
    described['access_columns_min'] = [0.0] * 31
    with pytest.raises(ValueError, match='reads access_columns, which were withdrawn'):
        normalizer_lib.Normalizer.from_json(described)
    with pytest.raises(ValueError, match="no column 'cost_time'.*; grow them again"):
        tile_table.TreeTable(_kernels(), ['cost_time'])


def test_what_trees_see():
    store = hlo_kernels.store(
        hlo_kernels.addition([20, 300], configs(([2, 2], []), ([1, 3], []))),
        hlo_kernels.addition([8, 128], configs(([1, 1], []))),
    )
    table = tile_table.TreeTable(store)
    assert table.counts.tolist() == [2, 1]
    rows = table.rows(np.array([1, 0, 0]), np.array([0, 0, 1]))
    assert rows.dtype == np.float32 and rows.shape == (3, len(table.names))
    assert len(set(table.names)) == len(table.names)
    found = dict(zip(table.names, rows.T))
    assert found['config_output_bounds_1'].tolist() == [1, 2, 3]
    # 20 is 3 times 8 rows, 300 is 3 times 128 lanes; tiles of 1, 2 and 3 of them.
    trips = np.exp(found['log_trips_lanes'])
    assert trips == pytest.approx([1, 2, 1])
    assert found['max_shape_dimensions_0'] == pytest.approx(np.log([9, 21, 21]))
    assert found['mean_is_root'] == pytest.approx([2 * np.log(2) / 6] * 3)
    assert found['max_is_root'] == pytest.approx([np.log(2)] * 3)
    assert found['count_63'].tolist() == [4] * 3  # parameters
    assert found['count_2'].tolist() == [1] * 3  # an addition
    assert found['nodes'].tolist() == [6] * 3
    wanted = ['nodes', 'log_time', 'config_output_bounds_1', 'log_trips_lanes']
    some = tile_table.TreeTable(store, wanted)
    assert some.names == wanted
    chosen = some.rows(np.array([1, 0, 0]), np.array([0, 0, 1]))
    np.testing.assert_array_equal(chosen.T, [found[name] for name in wanted])
    shared = tile_table.TileTable(store, ('tile_columns', 'estimate'))
    shared.rows(np.arange(3))
    some = tile_table.TreeTable(store, wanted, shared)
    np.testing.assert_array_equal(
        some.rows(np.array([0, 0]), np.array([0, 1])), chosen[1:]
    )
    with pytest.raises(ValueError, match="no column 'log_trips_lane', which the trees"):
        tile_table.TreeTable(store, ['log_trips_lane'])
