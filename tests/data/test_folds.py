"""Folds of a split by program, and the views that they are."""

import dataclasses

import numpy as np
import pytest

from baselines.data import families
from baselines.data import folds
from baselines.data.layout import store as layout_store
from baselines.data.packed import views
from baselines.data.tile import store as store_lib
from baselines.data.tile import store as tile_store
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import tile_records

# Rows -------------------------------------------------------------------------


def _rows():
    """20 21 22 | 0 1 | 2 (its neighbour in the first) | 23 24, as rows of two."""
    bases = [np.arange(10), np.arange(20, 30)]
    bases = [np.stack([base, -base], axis=1) for base in bases]
    return views.GatheredRows(
        bases, [1, 0, 0, 1, 0, 1], [0, 5, 0, 7, 2, 3], [3, 0, 2, 0, 1, 2]
    )


_WHOLE = np.array([20, 21, 22, 0, 1, 2, 23, 24])


def test_rows_in_one_array():
    rows = _rows()
    assert rows.shape == (8, 2) and len(rows) == 8 and rows.dtype == np.int64
    np.testing.assert_array_equal(rows, np.stack([_WHOLE, -_WHOLE], axis=1))
    assert np.asarray(rows, np.float32).dtype == np.float32


@pytest.mark.parametrize('start', range(9))
@pytest.mark.parametrize('stop', range(9))
def test_slices(start, stop):
    np.testing.assert_array_equal(_rows()[start:stop][:, 0], _WHOLE[start:stop])


def test_other_slices_and_rows_by_number():
    rows = _rows()
    for some in (slice(None), slice(-3, None), slice(1, 7, 2), slice(6, 1, -2)):
        np.testing.assert_array_equal(rows[some][:, 0], _WHOLE[some])
    some = np.array([[7, 0], [3, 3], [5, 2]])
    np.testing.assert_array_equal(rows[some][..., 0], _WHOLE[some])
    assert rows[4].tolist() == [1, -1]
    assert rows[np.zeros(0, int)].shape == (0, 2)


def test_a_slice_of_one_piece_is_a_view():
    bases = [np.arange(10)]
    rows = views.GatheredRows(bases, [0, 0], [2, 6], [3, 2])
    assert np.shares_memory(rows[0:3], bases[0])
    assert rows[1:4].tolist() == [3, 4, 6]


def test_rows_that_are_not_there():
    for bad in (8, -1, [0, 8]):
        with pytest.raises(IndexError):
            _rows()[np.array(bad)]
    with pytest.raises(TypeError, match='not by bool'):
        _rows()[np.full(8, True)]


# Views ------------------------------------------------------------------------


def _assert_same(found, expected):
    for field in dataclasses.fields(expected):
        np.testing.assert_array_equal(
            getattr(found, field.name), getattr(expected, field.name), field.name
        )


def test_a_view_of_tile_splits(tmp_path):
    stores = []
    for seed, name in enumerate(('train', 'valid')):
        tile_records.write_split(
            tmp_path / name, tile_records.make_records(5, seed=seed)
        )
        stores.append(
            store_lib.TileStore.open(str(tmp_path / name), str(tmp_path / 'cache'))
        )
    view = views.view(stores, [[4, 0, 1], [2]], 'some', 'print')
    picked = [stores[0].record(i) for i in (4, 0, 1)] + [stores[1].record(2)]
    assert isinstance(view, store_lib.TileStore)
    assert (view.source, view.fingerprint, view.num_graphs) == ('some', 'print', 4)
    assert view.graph_ids == [record.graph_id for record in picked]
    for number, record in enumerate(picked):
        _assert_same(view.record(number), record)
        assert view.config_counts[number] == len(record.config_runtime)
        np.testing.assert_array_equal(
            view.node_max[number], record.node_feat.max(axis=0)
        )
        assert view.max_opcode[number] == record.node_opcode.max()
    # Nothing was copied.
    begin, end = view.config_offsets[3:5]
    assert np.shares_memory(view.config_feat[begin:end], stores[1].config_feat)
    assert view.has_runtimes and view.skipped == []
    # A view of a view.
    again = views.view([view], [[3, 1]], 'fewer', '')
    _assert_same(again.record(0), picked[3])
    _assert_same(again.record(1), picked[1])


def _layout_stores(root):
    stores = []
    for seed, name in enumerate(('train', 'valid')):
        layout_files.write_split(root / name, layout_files.make_programs(4, seed=seed))
        stores.append(
            layout_store.LayoutStore.open(str(root / name), str(root / 'cache'))
        )
    return stores


def test_a_view_of_layout_splits(tmp_path):
    stores = _layout_stores(tmp_path)
    view = views.view(stores, [[3, 1], [0, 2]], 'some', 'print')
    picked = [(stores[0], 3), (stores[0], 1), (stores[1], 0), (stores[1], 2)]
    assert isinstance(view, layout_store.LayoutStore)
    for number, (store, graph) in enumerate(picked):
        _assert_same(view.record(number), store.record(graph))
        np.testing.assert_array_equal(
            view.group_codes(number), store.group_codes(graph)
        )
        assert np.shares_memory(view.vectors(number), store.arrays['config_vectors'])
        assert view.relative_noise([number]) == pytest.approx(
            store.relative_noise([graph]), nan_ok=True
        )
        for name in ('group_runtime', 'group_first', 'group_size'):
            np.testing.assert_array_equal(
                getattr(view, name)[view.rows('group', number)],
                getattr(store, name)[store.rows('group', graph)],
            )


def test_every_column_of_a_store_is_in_its_views(tmp_path):
    for store in (
        _layout_stores(tmp_path)[0],
        tile_store.TileStore.of_records('here', tile_records.make_records(2)),
    ):
        offsets = {f'{what}_offsets' for what in store.columns.values()}
        assert set(store.arrays) == {*store.columns, *offsets} - {'graph_offsets'}


# Folds ------------------------------------------------------------------------


def test_parse():
    assert folds.parse('') is None
    assert folds.parse('1/2') == (1, 2) and folds.parse('5/5') == (5, 5)


@pytest.mark.parametrize(
    'bad', ['3/2', '0/2', '1/1', 'a/b', '1', '1/', '/2', '-1/2', '1/2/3', ' 1/2', '١/٢']
)
def test_parse_refuses(bad):
    finished_runs.assert_refused(lambda: folds.parse(bad), '--fold', repr(bad))


def test_assign_by_hand():
    # Graphs a:3 b:2 c:2 d:1 of 8, configurations a:30 b:40 c:20 d:10 of 100.
    # Size = graphs * 100 + configurations * 8: a 540, b 520, c 360, d 180.
    groups = ['d', 'c', 'c', 'b', 'b', 'a', 'a', 'a']
    configs = [10, 5, 15, 20, 20, 10, 10, 10]
    # a -> 0, b -> 1, c -> 1 (520 < 540), d -> 0 (540 < 880).
    assert folds.assign(groups, configs, 2).tolist() == [0, 1, 1, 1, 1, 0, 0, 0]
    assert folds.assign(groups, configs, 4).tolist() == [3, 2, 2, 1, 1, 0, 0, 0]
    # Of equal groups the first by name goes first; a tie goes to the first fold.
    assert folds.assign(['y', 'x', 'z'], [1, 1, 1], 2).tolist() == [1, 0, 0]
    finished_runs.assert_refused(
        lambda: folds.assign(groups, configs, 5), '--fold', '5 folds', 'there are 4'
    )


def _split(names, seed=0, **changes):
    rng = np.random.default_rng(seed)
    return tile_store.TileStore.of_records(
        '/data/split',
        [tile_records.make_record(rng, name, configs=12, **changes) for name in names],
    )


# Program q is in both, and has two batch sizes; so does p.
_TRAIN = ['p_batch_1_aa', 'p_batch_1_bb', 'p_batch_8_cc', 'q_batch_2_dd', 'r_ee']
_VALID = ['q_batch_4_ff', 'q_batch_2_gg', 's_hh']


def _folded(fold, **stores):
    stores = {
        'train': _split(_TRAIN),
        'valid': _split(_VALID, 1),
        'test': 'test',
        **stores,
    }
    return folds.with_fold(fold, stores, families.program_of_kernel)


def test_folds_of_a_split():
    found = [_folded(f'{number}/3') for number in (1, 2, 3)]
    # p and q (3 kernels each) alone, r and s (1 each) together.
    assert [part['valid'].graph_ids for part in found] == [
        ['p_batch_1_aa', 'p_batch_1_bb', 'p_batch_8_cc'],
        ['q_batch_2_dd', 'q_batch_4_ff', 'q_batch_2_gg'],
        ['r_ee', 's_hh'],
    ]
    for part in found:
        assert sorted(part['train'].graph_ids + part['valid'].graph_ids) == sorted(
            _TRAIN + _VALID
        )
        assert part['test'] == 'test'
    prints = {part[name].fingerprint for part in found for name in ('train', 'valid')}
    assert len(prints) == 6
    assert found[1]['valid'].source == '/data/{train,valid}, valid of fold 2/3'
    stores = {'train': _split(_TRAIN), 'valid': _split(_VALID, 1)}
    assert folds.fingerprint('2/3', stores, 'valid') == found[1]['valid'].fingerprint
    record = found[1]['valid'].record(1)
    _assert_same(record, stores['valid'].record(0))


def test_no_fold_changes_nothing():
    stores = {'train': 1, 'valid': 2, 'test': 3}
    assert folds.with_fold('', stores, str) == stores


def test_splits_that_cannot_be_folded():
    finished_runs.assert_refused(
        lambda: _folded('1/5'),
        '--fold: 5 folds need at least 5 programs',
        'there are 4',
    )
    finished_runs.assert_refused(
        lambda: _folded('1/2', valid=_split(_VALID, is_test=True)),
        '--fold',
        'all runtimes in /data/split are 0',
    )
    finished_runs.assert_refused(
        lambda: _folded('1/2', valid=_split(['s_hh', 'r_ee'])),
        '--fold: r_ee is in both',
    )
    finished_runs.assert_refused(
        lambda: _folded('1/2', valid=_split(_VALID, node_features=141)),
        'node_feat has 141 columns, but 140',
    )
