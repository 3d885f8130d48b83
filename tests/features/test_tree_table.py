"""The columns that trees see."""

import numpy as np
import pytest

from baselines.features import tile_table
from baselines.features import tree_table
from tests.helpers import hlo_kernels
from tests.helpers.hlo_kernels import configs


def test_what_trees_see():
    store = hlo_kernels.store(
        hlo_kernels.addition([20, 300], configs(([2, 2], []), ([1, 3], []))),
        hlo_kernels.addition([8, 128], configs(([1, 1], []))),
    )
    table = tree_table.TreeTable(store)
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
    some = tree_table.TreeTable(store, wanted)
    assert some.names == wanted
    chosen = some.rows(np.array([1, 0, 0]), np.array([0, 0, 1]))
    np.testing.assert_array_equal(chosen.T, [found[name] for name in wanted])
    shared = tile_table.TileTable(store, ('tile', 'estimate'))
    shared.rows(np.arange(3))
    some = tree_table.TreeTable(store, wanted, shared)
    np.testing.assert_array_equal(
        some.rows(np.array([0, 0]), np.array([0, 1])), chosen[1:]
    )
    with pytest.raises(ValueError, match="'log_trips_lane'.*pip install ./lab$"):
        tree_table.TreeTable(store, ['log_trips_lane'])
