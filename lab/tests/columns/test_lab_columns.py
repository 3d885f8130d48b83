"""The column sets of the laboratory among those of the toolkit."""

import numpy as np
import pytest

from baselines.core import registry
from baselines.features import column_sets
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.features import tree_table
from tests.helpers import hlo_kernels


def _store(*bounds):
    kernels = [
        hlo_kernels.addition([60, 100], hlo_kernels.configs(*rows)) for rows in bounds
    ]
    return hlo_kernels.store(*kernels)


def test_sets_are_found_by_name_in_one_order():
    assert list(column_sets.find()) == ['tile', 'loop', 'release', 'estimate']
    assert list(column_sets.find(registry.find_column_sets('cpu'))) == [
        'loop',
        'release',
    ]
    counts = [len(columns.names) for columns in column_sets.find().values()]
    assert counts == [35, 118, 1, 7]
    with pytest.raises(ValueError, match="'loops'; did you mean 'loop'"):
        column_sets.find(['loops'])


def test_trees_of_a_cpu_see_them_alone():
    names = tree_table.TreeTable(_store([([60, 100], [])])).names
    assert names[0] == column_sets.find()['loop'].names[0]
    assert names[-1] == 'release_thunks'  # no columns of nodes behind them
    assert len(names) == 118 + 1


def test_only_loop_reads_extra_columns():
    assert column_sets.read_extra(['tile', 'loop'])
    assert column_sets.read_extra(['exact_cost_time'])
    assert not column_sets.read_extra(['tile', 'release', 'estimate', 'log_time'])


def test_trees_use_the_rows_of_a_graph_model():
    store = _store([([60, 100], []), ([6, 100], [])], [([60, 100], []), ([3, 10], [])])
    shared = tile_table.TileTable(store, ['tile', 'loop', 'release', 'estimate'])
    alone, some = tree_table.TreeTable(store), tree_table.TreeTable(store, None, shared)
    assert some.names == alone.names
    rows = np.array([1, 0, 0]), np.array([1, 1, 0])
    np.testing.assert_array_equal(some.rows(*rows), alone.rows(*rows))


def test_ranges_survive_json():
    store = _store([([60, 100], []), ([6, 100], [])])
    table = tile_table.TileTable(store, ['tile', 'loop', 'release'])
    fitted = normalizer_lib.Normalizer.fit(store, table=table)
    described = fitted.to_json()
    again = normalizer_lib.Normalizer.from_json(described)
    assert list(again.table_ranges) == ['tile', 'loop', 'release']
    assert again.to_json() == described
    with pytest.raises(ValueError, match='loop_min'):
        normalizer_lib.Normalizer.from_json({**described, 'loop_min': 'x'})
