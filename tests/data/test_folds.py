"""Folds of a split by program."""

import dataclasses
import functools

import numpy as np
import pytest

from baselines.data import folds
from baselines.data.layout import store as layout_store
from baselines.data.tile import store as tile_store
from tests.helpers import layout_files
from tests.helpers import refusals
from tests.helpers import same_records
from tests.helpers import tile_records


@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_a_fold_holds_its_graphs_as_they_were(tmp_path, task):
    kind, files = {
        'tile': (tile_store.TileStore, tile_records),
        'layout': (layout_store.LayoutStore, layout_files),
    }[task]
    cache_dir = str(tmp_path / 'cache')
    stores = {}
    for seed, name in enumerate(('train', 'valid')):
        graphs = [
            dataclasses.replace(graph, graph_id=f'{name}{number}_0')
            for number, graph in enumerate(files.make_records(4, seed=seed))
        ]
        files.write_split(tmp_path / name, graphs)
        stores[name] = kind.open(str(tmp_path / name), cache_dir)
    for _ in range(2):
        made = folds.make_fold('1/2', stores, cache_dir)
        origin = {
            graph_id: (store, graph)
            for store in stores.values()
            for graph, graph_id in enumerate(store.graph_ids)
        }
        for part in (made['train'], made['valid']):
            assert isinstance(part, kind) and part.has_runtimes
            assert set(part.arrays) == set(stores['train'].arrays)
            for number, graph_id in enumerate(part.graph_ids):
                store, graph = origin[graph_id]
                for name in kind.columns:
                    expected = store.part(name, graph)
                    np.testing.assert_array_equal(part.part(name, number), expected)


# Folds ------------------------------------------------------------------------


def test_parse():
    assert folds.parse_fold('') is None
    assert folds.parse_fold('1/2') == (1, 2) and folds.parse_fold('5/5') == (5, 5)


@pytest.mark.parametrize(
    'bad', ['3/2', '0/2', '1/1', 'a/b', '1', '-1/2', '1/2/3', '١/٢']
)
def test_parse_refuses(bad):
    refusals.assert_refused(lambda: folds.parse_fold(bad), '--fold', repr(bad))


def test_assign_by_hand():
    # Graphs a:3 b:2 c:2 d:1 of 8, configurations a:30 b:40 c:20 d:10 of 100.
    # Size = graphs * 100 + configurations * 8: a 540, b 520, c 360, d 180.
    groups = ['d', 'c', 'c', 'b', 'b', 'a', 'a', 'a']
    configs = [10, 5, 15, 20, 20, 10, 10, 10]
    # a -> 0, b -> 1, c -> 1 (520 < 540), d -> 0 (540 < 880).
    assert folds.assign_folds(groups, configs, 2).tolist() == [0, 1, 1, 1, 1, 0, 0, 0]
    assert folds.assign_folds(groups, configs, 4).tolist() == [3, 2, 2, 1, 1, 0, 0, 0]
    # Of equal groups the first by name goes first; a tie goes to the first fold.
    assert folds.assign_folds(['y', 'x', 'z'], [1, 1, 1], 2).tolist() == [1, 0, 0]


def _split(names, seed=0, **changes):
    rng = np.random.default_rng(seed)
    return tile_store.TileStore.from_records(
        '/data/split',
        [tile_records.make_record(rng, name, configs=12, **changes) for name in names],
    )


# Program q is in both, and has two batch sizes; so does p.
_TRAIN = ['p_batch_1_aa', 'p_batch_1_bb', 'p_batch_8_cc', 'q_batch_2_dd', 'r_ee']
_VALID = ['q_batch_4_ff', 'q_batch_2_gg', 's_hh']


def _folded(fold, cache_dir='', **stores):
    stores = {
        'train': _split(_TRAIN),
        'valid': _split(_VALID, 1),
        'test': 'test',
        **stores,
    }
    return folds.make_fold(fold, stores, str(cache_dir))


def test_folds_of_a_split(tmp_path):
    found = [_folded(f'{number}/3', tmp_path) for number in (1, 2, 3)]
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
    assert found[1]['valid'].source == '/data/{train,valid}/valid of fold 2 of 3'
    stores = {'train': _split(_TRAIN), 'valid': _split(_VALID, 1)}
    assert folds.hash_fold('2/3', stores, 'valid') == found[1]['valid'].fingerprint
    record = found[1]['valid'].record(1)
    same_records.assert_same(record, stores['valid'].record(0))


def test_splits_that_are_not_folded():
    for fold, valid, words in (
        ('1/5', _split(_VALID), ('5 programs', 'not 4')),
        ('1/2', _split(_VALID, is_test=True), ('/data/split',)),
        ('1/2', _split(['s_hh', 'r_ee']), ('r_ee',)),
    ):
        folded = functools.partial(_folded, fold, valid=valid)
        refusals.assert_refused(folded, '--fold', *words)
    stores = {'train': 1, 'valid': 2, 'test': 3}
    assert folds.make_fold('', stores, '') == stores
