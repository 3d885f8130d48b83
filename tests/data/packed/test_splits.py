"""Packed splits of both collections: what they hold, and when things go wrong."""

import dataclasses
import errno
import os
import pathlib
import shutil
from typing import Any, NamedTuple

import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from tests.helpers import layout_files
from tests.helpers import refusals
from tests.helpers import same_records
from tests.helpers import tile_records


class _Task(NamedTuple):
    """How records of a collection are made and packed."""

    kind: Any
    files: Any  # of tests.helpers
    configs: str  # the array of configurations' features


_TASKS = [
    _Task(tile_store.TileStore, tile_records, 'config_feat'),
    _Task(layout_store.LayoutStore, layout_files, 'node_config_feat'),
]


@pytest.fixture(name='task', params=_TASKS, ids=['tile', 'layout'])
def _task(request):
    return request.param


@pytest.fixture(name='split')
def _split(tmp_path):
    """Five kernels, for what is the same of programs."""
    tile_records.write_split(tmp_path / 'train', tile_records.make_records(5))
    return tmp_path / 'train'


def _open(split, kind=tile_store.TileStore, **kwargs):
    return kind.open(str(split), str(split.parent / 'cache'), **kwargs)


def _folders(split):
    """Names of all folders in the cache, finished or not."""
    cache_dir = split.parent / 'cache'
    return sorted(entry.name for entry in cache_dir.iterdir() if entry.is_dir())


def _message(error_type, split, **kwargs):
    return refusals.read_message(lambda: _open(split, **kwargs), error_type)


def _touch(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def _replace(path):
    tile_records.write_split(
        path.parent,
        [tile_records.make_record(np.random.default_rng(9), path.stem, configs=50)],
    )


# What a split holds -----------------------------------------------------------


def test_every_graph_comes_back(tmp_path, task):
    graphs = task.files.write_split(tmp_path / 'train', task.files.make_records(20))
    for _ in range(2):
        store = _open(tmp_path / 'train', task.kind)
        assert len(store) == 20
        assert store.graph_ids == [graph.graph_id for graph in graphs]
        for i, graph in enumerate(graphs):
            same_records.assert_same(store.record(i), graph)
            assert store.config_counts[i] == graph.num_configs
            configs = getattr(graph, task.configs)
            for low, high, rows in (
                (store.node_min, store.node_max, graph.node_feat),
                (
                    store.config_min,
                    store.config_max,
                    configs.reshape(-1, configs.shape[-1]),
                ),
            ):
                assert low.dtype == high.dtype == np.float32
                np.testing.assert_array_equal(low[i], rows.min(axis=0))
                np.testing.assert_array_equal(high[i], rows.max(axis=0))
            assert store.max_opcode[i] == graph.node_opcode.max()
    assert store.has_runtimes and store.pad == 0 and store.skipped == []


def test_columns_are_mapped_and_counted_within_graphs(tmp_path, task):
    rng = np.random.default_rng(0)
    graphs = [
        task.files.make_record(rng, name, nodes=nodes, configs=configs)
        for name, nodes, configs in (('a', 5, 5), ('b', 4, 2), ('c', 6, 9))
    ]
    task.files.write_split(tmp_path / 'train', graphs)
    store = _open(tmp_path / 'train', task.kind)
    assert store.node_offsets.tolist() == [0, 5, 9, 15]
    assert store.edge_offsets.tolist() == [0, 4, 7, 12]
    assert store.config_offsets.tolist() == [0, 5, 7, 16]
    for key in ('node_feat', 'node_opcode', 'edge_index', 'config_runtime'):
        array = getattr(store, key)
        assert isinstance(array, np.memmap), 'copied into memory'
        assert not array.flags.writeable
        whole = np.concatenate([getattr(graph, key) for graph in graphs])
        np.testing.assert_array_equal(array, whole)
    for index in (3, -1):
        with pytest.raises(IndexError, match=f'graph {index} of 3'):
            store.record(index)
    offsets = {f'{owner}_offsets' for owner in store.columns.values()}
    assert set(store.arrays) == {*store.columns, *offsets} - {'graph_offsets'}


def test_graphs_in_memory_are_packed_as_their_files_are(tmp_path, task):
    graphs = task.files.write_split(tmp_path / 'train', task.files.make_records(5))
    opened = _open(tmp_path / 'train', task.kind)
    made = task.kind.from_records('here', graphs)
    for name, column in opened.arrays.items():
        assert made.arrays[name].dtype == column.dtype
        np.testing.assert_array_equal(made.arrays[name], column, name)
    assert (made.source, made.graph_ids) == ('here', opened.graph_ids)
    assert made.has_runtimes and not made.fingerprint


def test_unpublished_runtimes_and_padding(tmp_path, task):
    graphs = task.files.make_records(3, is_test=True, node_features=3, pad=-1)
    task.files.write_split(tmp_path / 'test', graphs)
    for _ in range(2):
        store = _open(tmp_path / 'test', task.kind)
        assert not store.has_runtimes
        assert store.pad == store.record(1).pad == -1


def test_the_default_is_what_runtimes_are_divided_by():
    rng = np.random.default_rng(0)
    known = tile_records.make_record(
        rng,
        configs=3,
        config_runtime=np.array([40, 20, 20]),
        config_runtime_normalizers=np.full(3, 20),
    )
    test = tile_records.make_record(rng, 'test', is_test=True)
    store = tile_store.TileStore.from_records('here', [known, test])
    assert [store.default_of(i) for i in (0, 1)] == [1, None]
    store = layout_store.LayoutStore.from_records('here', layout_files.make_records(1))
    assert store.default_of(0) is None


def test_limit_takes_the_first_by_name(split):
    assert _open(split, limit=2).graph_ids == _open(split).graph_ids[:2]
    assert len(_open(split, limit=99)) == 5
    # Toy data and all of it do not push each other out of the cache.
    assert len(_folders(split)) == 3


# When it is packed again ------------------------------------------------------


def _add(path):
    shutil.copy(path, path.with_name('another.npz'))


@pytest.mark.parametrize(
    'change, graphs', [(_touch, 5), (_replace, 5), (_add, 6), (pathlib.Path.unlink, 4)]
)
def test_a_changed_split_is_packed_anew(split, change, graphs):
    before = _open(split)
    old_folders, old_values = _folders(split), np.array(before.config_feat)
    change(sorted(split.glob('*.npz'))[1])
    after = _open(split)
    assert len(after) == graphs
    for i, path in enumerate(sorted(split.glob('*.npz'))):
        same_records.assert_same(after.record(i), records.TileRecord.read(str(path)))
    # The old version has gone, but who has it mapped can go on.
    assert len(_folders(split)) == 1 and _folders(split) != old_folders
    np.testing.assert_array_equal(before.config_feat, old_values)


def test_a_change_that_keeps_size_and_time_is_seen(split):
    path = sorted(split.glob('*.npz'))[1]
    with np.load(path) as stored:
        arrays = dict(stored)
    runtimes = arrays['config_runtime']
    np.savez(path, **arrays)
    _open(split)
    state = path.stat()
    np.savez(path, **{**arrays, 'config_runtime': runtimes[::-1]})
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    found = _open(split).part('config_runtime', 1)
    np.testing.assert_array_equal(found, runtimes[::-1])


@pytest.mark.parametrize(
    'damage',
    [
        lambda folder: os.truncate(folder / 'config_feat.bin', 1000),
        lambda folder: (folder / 'node_min.bin').unlink(),
        lambda folder: (folder / 'manifest.json').unlink(),
        lambda folder: os.truncate(folder / 'manifest.json', 100),
        lambda folder: (folder / 'manifest.json').write_text('[]'),
    ],
)
def test_a_damaged_cache_is_rebuilt(split, damage):
    _open(split)
    folders = _folders(split)
    damage(split.parent / 'cache' / folders[0])
    store = _open(split)
    for i, path in enumerate(sorted(split.glob('*.npz'))):
        same_records.assert_same(store.record(i), records.TileRecord.read(str(path)))
    assert _folders(split) == folders


def test_fingerprint_is_of_the_content(tmp_path, task):
    graphs = task.files.write_split(tmp_path / 'first', task.files.make_records(4))
    changed = graphs[3].config_runtime.copy()
    changed[0] += 1
    prints = {}
    for name, contents in (
        ('first', graphs),
        ('same', graphs),
        (
            'changed',
            [*graphs[:3], dataclasses.replace(graphs[3], config_runtime=changed)],
        ),
        ('renamed', [*graphs[:3], dataclasses.replace(graphs[3], graph_id='zzz')]),
        ('fewer', graphs[:3]),
    ):
        task.files.write_split(tmp_path / name, contents)
        # Same content, though other times, places and compression.
        if name == 'same':
            path = next((tmp_path / name).iterdir())
            with np.load(path) as arrays:
                np.savez(path, **arrays)
        prints[name] = _open(tmp_path / name, task.kind).fingerprint
    assert prints['first'] == prints['same']
    assert len(set(prints.values())) == 4
    assert all(int(text, 16) and len(text) == 32 for text in prints.values())


# When things go wrong ---------------------------------------------------------


def test_missing_and_empty_splits(tmp_path, task):
    (tmp_path / 'empty').mkdir()
    for name in ('gone', 'empty'):
        message = _message(ValueError, tmp_path / name, kind=task.kind)
        assert message.startswith(f'{tmp_path / name}: ')
        assert '--data_root' in message and '--sample_data' in message
    (tmp_path / 'train').mkdir()
    assert 'train' in _message(ValueError, tmp_path / 'valid', kind=task.kind)
    assert not (tmp_path / 'cache').exists()


def test_damaged_files_stop_or_are_left_out(tmp_path, task, capsys):
    split = tmp_path / 'train'
    ids = [
        graph.graph_id
        for graph in task.files.write_split(split, task.files.make_records(5))
    ]
    bad = split / f'{ids.pop(2)}.npz'
    whole = bad.read_bytes()
    os.truncate(bad, 100)
    message = _message(ValueError, split, kind=task.kind)
    assert message.startswith(f'{bad}: ') and '--skip_bad_files' in message
    assert _folders(split) == []
    store = _open(split, task.kind, skip_bad_files=True)
    assert store.graph_ids == ids
    assert [name for name, _ in store.skipped] == [bad.name]
    assert capsys.readouterr().err == f'warning: left out: {store.skipped[0][1]}\n'
    # From the cache it is said again, and only with leave.
    assert _open(split, task.kind, skip_bad_files=True).graph_ids == ids
    assert f'1 of 5 files of {split}' in capsys.readouterr().err
    message = _message(ValueError, split, kind=task.kind)
    assert f'{bad.name} (1 of 5)' in message and '--skip_bad_files' in message
    # Repaired, it is back.
    bad.write_bytes(whole)
    assert len(_open(split, task.kind)) == 5


@pytest.mark.parametrize('sign', [*' ,;\n', '\xa0', os.fsdecode(b'\xff')])
def test_a_name_that_no_ranking_could_hold(split, sign):
    path = split / f'a{sign}b.npz'
    shutil.copy(next(split.iterdir()), path)
    with pytest.raises(ValueError, match='rename') as caught:
        _open(split)
    assert str(caught.value).startswith(f'{path}: ')
    assert len(_open(split, skip_bad_files=True)) == 5


@pytest.mark.parametrize(
    'change, words',
    [
        ({'node_features': 139}, ('node_feat: 139', '140')),
        ({'config_features': 12}, ('config_feat: 12', '24')),
        ({'pad': -1}, ('pad: -1', '0')),
    ],
)
def test_files_that_do_not_agree(split, change, words):
    odd = tile_records.make_record(np.random.default_rng(0), 'q', **change)
    tile_records.write_split(split, [odd])
    message = _message(ValueError, split)
    assert message.startswith(f'{split}/q.npz: ') and 'program_0_0000.npz' in message
    assert all(word in message for word in words)
    assert len(_open(split, skip_bad_files=True)) == 5


def test_a_file_that_cannot_be_read_is_named(split, monkeypatch):
    def failing(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(records.TileRecord, 'read', failing)
    message = _message(OSError, split, skip_bad_files=True)
    assert str(split / 'program_0_0000.npz') in message and 'cache' not in message
    assert _folders(split) == []
