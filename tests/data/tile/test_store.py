"""The store of a split: what it holds, and when it is packed anew."""

import dataclasses
import os
import pathlib
import shutil

import numpy as np
import pytest

from baselines.data.tile import records
from baselines.data.tile import store as store_lib
from tests.helpers import places
from tests.helpers import tile_records

_REAL = places.SHARED / 'npz/tile/xla'


@pytest.fixture(name='split')
def _split(tmp_path):
    tile_records.write_split(tmp_path / 'train', tile_records.make_records(5))
    return tmp_path / 'train'


def _open(split, **kwargs):
    return store_lib.TileStore.open(str(split), str(split.parent / 'cache'), **kwargs)


def _folders(split):
    """Names of all folders in the cache, finished or not."""
    cache_dir = split.parent / 'cache'
    return sorted(entry.name for entry in cache_dir.iterdir() if entry.is_dir())


def _assert_same(record, expected):
    for field in dataclasses.fields(records.TileRecord):
        found, wanted = getattr(record, field.name), getattr(expected, field.name)
        if isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        else:
            assert found == wanted


def test_every_kernel_comes_back(tmp_path):
    kernels = tile_records.write_split(
        tmp_path / 'train', tile_records.make_records(40)
    )
    for _ in range(2):
        store = _open(tmp_path / 'train')
        assert store.num_graphs == len(store) == 40
        assert store.graph_ids == [kernel.graph_id for kernel in kernels]
        for i, kernel in enumerate(kernels):
            _assert_same(store.record(i), kernel)
            assert store.config_counts[i] == kernel.num_configs
            np.testing.assert_array_equal(
                store.node_min[i], kernel.node_feat.min(axis=0)
            )
            np.testing.assert_array_equal(
                store.node_max[i], kernel.node_feat.max(axis=0)
            )
            np.testing.assert_array_equal(
                store.config_min[i], kernel.config_feat.min(axis=0)
            )
            np.testing.assert_array_equal(
                store.config_max[i], kernel.config_feat.max(axis=0)
            )
            assert store.max_opcode[i] == kernel.node_opcode.max()
    assert store.has_runtimes and store.pad == 0 and store.skipped == []
    assert store.feature_names is store.config_feature_names is None


def test_kernels_in_memory_are_packed_as_their_files_are(split):
    opened = _open(split)
    made = store_lib.TileStore.of_records('here', tile_records.make_records(5))
    in_order = [made.graph_ids.index(name) for name in opened.graph_ids]
    for i, place in enumerate(in_order):
        _assert_same(made.record(place), opened.record(i))
    for name in ('node_min', 'config_max', 'max_opcode'):
        found = getattr(made, name)[in_order]
        np.testing.assert_array_equal(found, getattr(opened, name))


def test_packed_arrays(tmp_path):
    rng = np.random.default_rng(0)
    kernels = [
        tile_records.make_record(rng, 'a', nodes=3, configs=5),
        tile_records.make_record(rng, 'b', nodes=1, configs=2),
        tile_records.make_record(rng, 'c', nodes=2, configs=9),
    ]
    tile_records.write_split(tmp_path / 'train', kernels)
    store = _open(tmp_path / 'train')
    assert store.node_offsets.tolist() == [0, 3, 4, 6]
    assert store.edge_offsets.tolist() == [0, 2, 2, 3]
    assert store.config_offsets.tolist() == [0, 5, 7, 16]
    assert store.with_at_least(5).tolist() == [0, 2]
    assert store.with_at_least(10).tolist() == []
    assert store.edge_index.tolist() == [[1, 0], [2, 1], [1, 0]]
    for key in (
        'node_feat',
        'node_opcode',
        'edge_index',
        'config_feat',
        'config_runtime',
        'config_runtime_normalizers',
    ):
        array = getattr(store, key)
        assert isinstance(array, np.memmap), 'copied into memory'
        assert not array.flags.writeable
        np.testing.assert_array_equal(
            array, np.concatenate([getattr(kernel, key) for kernel in kernels])
        )
    assert not store.record(1).config_feat.flags.writeable
    for index in (3, -1):
        with pytest.raises(IndexError, match=f'graph {index} of 3'):
            store.record(index)


def test_single_nodes_only_leave_an_empty_column(tmp_path):
    tile_records.write_split(
        tmp_path / 'train',
        [tile_records.make_record(np.random.default_rng(0), nodes=1)],
    )
    assert _open(tmp_path / 'train').record(0).edge_index.shape == (0, 2)


def test_names_and_padding(tmp_path):
    tile_records.write_split(
        tmp_path / 'test',
        tile_records.make_records(
            3,
            is_test=True,
            pad=-1,
            node_features=3,
            config_features=2,
            feature_names=('x', 'y', 'z'),
            config_feature_names=('u', 'v'),
        ),
    )
    for _ in range(2):
        store = _open(tmp_path / 'test')
        assert store.pad == -1 and not store.has_runtimes
        assert store.feature_names == ('x', 'y', 'z')
        assert store.record(2).config_feature_names == ('u', 'v')


def test_limit_takes_the_first_by_name(split):
    assert _open(split, limit=2).graph_ids == _open(split).graph_ids[:2]
    assert _open(split, limit=99).num_graphs == 5
    # Toy data and all of it do not push each other out of the cache.
    assert len(_folders(split)) == 3


def test_an_unchanged_split_is_not_read_again(split, monkeypatch):
    first = _open(split)
    monkeypatch.setattr(records, 'read_tile', None)
    assert _open(split).fingerprint == first.fingerprint


def _touch(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def _replace(path):
    tile_records.write_split(
        path.parent,
        [tile_records.make_record(np.random.default_rng(9), path.stem, configs=50)],
    )


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
    assert after.num_graphs == graphs
    for i, path in enumerate(sorted(split.glob('*.npz'))):
        _assert_same(after.record(i), records.read_tile(str(path)))
    # The old version has gone, but who has it mapped can go on.
    assert len(_folders(split)) == 1 and _folders(split) != old_folders
    np.testing.assert_array_equal(before.config_feat, old_values)


def test_other_entries_of_the_folder_do_not_count(split):
    (split / 'README.txt').write_text('text')
    (split / '.hidden.npz').write_text('text')
    (split / 'folder.npz').mkdir()
    assert _open(split).num_graphs == 5


@pytest.mark.parametrize(
    'damage',
    [
        lambda folder: os.truncate(folder / 'config_feat.npy', 1000),
        lambda folder: (folder / 'node_min.npy').unlink(),
        lambda folder: (folder / 'manifest.json').unlink(),
        lambda folder: os.truncate(folder / 'manifest.json', 100),
        lambda folder: (folder / 'manifest.json').write_text('[]'),
        lambda folder: (folder / 'manifest.json').write_text('{"columns": {}}'),
        lambda folder: (folder / 'node_feat.npy').write_bytes(
            bytes((folder / 'node_feat.npy').stat().st_size)
        ),
    ],
)
def test_a_damaged_cache_is_rebuilt(split, damage):
    _open(split)
    folders = _folders(split)
    damage(split.parent / 'cache' / folders[0])
    store = _open(split)
    for i, path in enumerate(sorted(split.glob('*.npz'))):
        _assert_same(store.record(i), records.read_tile(str(path)))
    assert _folders(split) == folders


def test_fingerprint_is_of_the_content(tmp_path):
    kernels = tile_records.make_records(4)
    changed = kernels[3].config_runtime.copy()
    changed[0] += 1
    changed = [*kernels[:3], dataclasses.replace(kernels[3], config_runtime=changed)]
    renamed = [*kernels[:3], dataclasses.replace(kernels[3], graph_id='zzz')]
    fingerprints = []
    for name, contents in (
        ('one/train', kernels),
        ('two/train', kernels),
        ('three', changed),
        ('four', renamed),
        ('five', kernels[:3]),
    ):
        tile_records.write_split(tmp_path / name, contents)
        # Same content, though other times, places and compression.
        if name == 'two/train':
            path = next((tmp_path / name).iterdir())
            with np.load(path) as arrays:
                np.savez(path, **arrays)
        fingerprints.append(
            store_lib.TileStore.open(
                str(tmp_path / name), str(tmp_path / 'cache')
            ).fingerprint
        )
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 4
    assert all(int(text, 16) and len(text) == 32 for text in fingerprints)


def test_home_folder_and_trailing_slash(split, monkeypatch):
    monkeypatch.setenv('HOME', str(split.parent))
    first = store_lib.TileStore.open('~/train/', '~/cache/')
    monkeypatch.setattr(records, 'read_tile', None)
    assert _open(split).source == first.source == str(split)


def test_no_bar_without_a_terminal(split, capsys):
    _open(split)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ''


@pytest.mark.skipif(not _REAL.is_dir(), reason=f'{_REAL} is not there')
def test_real_splits(tmp_path):
    sizes = {}
    for name in ('train', 'valid', 'test'):
        store = store_lib.TileStore.open(str(_REAL / name), str(tmp_path))
        sizes[name] = (
            len(store),
            store.node_offsets[-1],
            store.config_offsets[-1],
            store.has_runtimes,
        )
        for i, graph_id in enumerate(store.graph_ids):
            _assert_same(
                store.record(i),
                records.read_tile(str(_REAL / name / f'{graph_id}.npz')),
            )
    # Sums of the columns nodes and configs in the data's README.
    assert sizes == {
        'train': (10, 195, 696, True),
        'valid': (5, 99, 56, True),
        'test': (5, 155, 5124, False),
    }
