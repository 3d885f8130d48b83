"""The table of the columns that are computed of tile configurations."""

import numpy as np
import pytest

from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.tiles import graphs
from tests.helpers import hlo_kernels
from tests.helpers.hlo_kernels import configs


def _kernels():
    return hlo_kernels.store(
        hlo_kernels.addition(
            [64, 512], configs(([8, 4], []), ([1, 1], []), ([2, 2], []))
        ),
        hlo_kernels.product(([16, 2], [64, 2]), ([16, 2], [128, 2])),
    )


def test_sets_come_in_one_order_and_rows_know_their_kernel():
    store = _kernels()
    table = tile_table.TileTable(store, ('estimate', 'tile'))
    assert table.sets == ('tile', 'estimate')
    assert table.names[0] == 'log_tile_lanes' and table.names[-1] == 'log_time'
    every = table.rows(np.arange(5))
    assert every.shape == (5, len(table.names))
    again = tile_table.TileTable(store, table.sets)
    np.testing.assert_array_equal(again.rows(np.array([4, 1])), every[[4, 1]])
    trips = every[:, table.names.index('log_trips_depth')]
    np.testing.assert_allclose(np.exp(trips), [1, 1, 1, 2, 1], rtol=1e-6)


def test_a_model_sees_the_table_scaled_behind_its_columns():
    store = _kernels()
    plain = normalizer_lib.Normalizer.fit(store)
    table = tile_table.TileTable(store, ('estimate', 'tile'))
    fitted = normalizer_lib.Normalizer.fit(store, table=table)
    width = 35 + 7
    assert fitted.num_config_features == plain.num_config_features + width
    seen = graphs.TileGraphs(store, fitted).pack_all(np.arange(2))['config_feats']
    raw = graphs.TileGraphs(store, plain).pack_all(np.arange(2))['config_feats']
    np.testing.assert_array_equal(seen[:, :-width], raw)
    part = seen[:, -width:]
    assert part.min() == 0 and part.max() == 1
    again = normalizer_lib.Normalizer.from_json(fitted.to_json())
    assert list(again.table_ranges) == ['tile', 'estimate']
    found = graphs.TileGraphs(store, again).pack_all(np.arange(2))['config_feats']
    np.testing.assert_array_equal(found, seen)


def test_ranges_of_other_columns_are_refused():
    store = _kernels()
    table = tile_table.TileTable(store, ['tile'])
    described = normalizer_lib.Normalizer.fit(store, table=table).to_json()
    for change, message in (
        ({'tile_max': [1.0]}, 'tile_min .*35 and 1'),
        ({'loop_min': [0.0]}, "'loop'.*pip install ./lab$"),
        ({'release_max': [0.0]}, "'release'.*pip install ./lab$"),
    ):
        with pytest.raises(ValueError, match=message):
            normalizer_lib.Normalizer.from_json({**described, **change})
