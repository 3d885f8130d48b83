"""The columns that trees see of a layout, by hand."""

import numpy as np
import pytest

from baselines.data.layout import store as store_lib
from baselines.layout import layout_table
from tests.helpers import layout_files


@pytest.fixture(name='store', scope='module')
def _store():
    return store_lib.LayoutStore.from_records('here', [layout_files.two_dots()])


def test_two_dots(store):
    table = layout_table.LayoutTable(store)
    assert table.counts.tolist() == [4]
    rows = table.rows(np.zeros(4, int), np.arange(4))
    found = dict(zip(table.names, rows.T))
    assert len(found) == len(table.names) == rows.shape[1]
    # 4 x 200 x 8 multiply-adds, and 4 x 16 x 200: with the worst padding, below, 32 and
    # 64 times as much.
    assert found['layout_0_share'] == pytest.approx([2 / 3] * 4)
    assert found['layout_1_share'] == pytest.approx([1 / 3] * 4)
    # Of 4 x 200, 200 columns are filled up to 256 and 4 rows to 32, or 4 columns to
    # 128; of 4 x 16, 16 to 128 and 4 to 32, row major as no configuration says.
    first, second = np.array([1.28 * 8, 32, 32, 1.28 * 8]), 8 * 8
    assert found['padded_work'] == pytest.approx(first / 3 + second * 2 / 3)
    logs = np.log(first) / 3 + np.log(second) * 2 / 3
    assert found['log_padded_work'] == pytest.approx(logs, rel=1e-5)
    assert np.exp(found['layout_1_log_padded']) == pytest.approx(first, rel=1e-5)
    assert found['layout_1_output_0'].tolist() == [1, 0, 0, 1]
    assert found['layout_1_output_1'].tolist() == [0, 1, 1, 0]
    assert found['layout_0_input_0'].tolist() == [1, 1, 0, 0]
    assert found['layout_2_share'].tolist() == [-1] * 4
    # Elements that move: outputs, inputs and kernels of both.
    moved = (800 + 64) + (32 + 800) + (1600 + 3200)
    assert found['log_bytes'] == pytest.approx([np.log1p(4 * moved)] * 4)
    # The fastest dimension is the last one of 864 elements, or of 64.
    last = np.array([864, 64, 64, 864]) / moved
    assert found['output_is_last_0'] == pytest.approx(last)


def test_chosen_columns_and_rows(store, monkeypatch):
    every = layout_table.LayoutTable(store).rows(np.zeros(4, int), np.arange(4))
    names = ['layout_1_output_0', 'padded_work']
    some = layout_table.LayoutTable(store, names)
    wanted = every[:, [layout_table.NAMES.index(name) for name in names]]
    found = some.rows(np.zeros(2, int), np.array([3, 1]))
    np.testing.assert_array_equal(found, wanted[[3, 1]])
    monkeypatch.setattr(layout_table, 'PAIRS', 2)  # a configuration at a time
    again = layout_table.LayoutTable(store).rows(np.zeros(4, int), np.arange(4))
    np.testing.assert_array_equal(every, again)
    with pytest.raises(ValueError, match="'padded'"):
        layout_table.LayoutTable(store, ['padded'])


@pytest.mark.parametrize('vectors', [3, 100])  # found by marks, and by sorting
def test_assignments(vectors):
    codes = np.array([[0, vectors - 1], [1, vectors - 1]], np.uint8)
    node, code, assigned = layout_table.find_assignments(codes, vectors)
    # Of the first instruction two vectors, of the second the last one.
    assert node.tolist() == [0, 0, 1]
    assert code.tolist() == [0, 1, vectors - 1]
    assert assigned.tolist() == [[0, 2], [1, 2]]
