"""The store of a split: what it holds, when it is rebuilt, what it refuses."""

import dataclasses
import errno
import io
import os
import pathlib
import shutil

import numpy as np
import pytest

from baselines.data import columns
from baselines.data import records
from baselines.data import store as store_lib
import tile_records

_REAL = pathlib.Path(__file__).parents[2] / 'shared/data/npz/tile/xla'


@pytest.fixture(name='split')
def _split(tmp_path):
    tile_records.write_split(tmp_path / 'train', tile_records.make_records(5))
    return tmp_path / 'train'


def _open(split, **kwargs):
    return store_lib.open_tile_split(
        str(split), str(split.parent / 'cache'), **kwargs)


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


def _message(error_type, split, **kwargs):
    with pytest.raises(error_type) as caught:
        _open(split, **kwargs)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def test_every_kernel_comes_back(tmp_path):
    kernels = tile_records.write_split(
        tmp_path / 'train', tile_records.make_records(40))
    for _ in range(2):
        store = _open(tmp_path / 'train')
        assert store.num_graphs == len(store) == 40
        assert store.graph_ids == [kernel.graph_id for kernel in kernels]
        for i, kernel in enumerate(kernels):
            _assert_same(store.record(i), kernel)
            assert store.config_counts[i] == kernel.num_configs
            np.testing.assert_array_equal(
                store.node_min[i], kernel.node_feat.min(axis=0))
            np.testing.assert_array_equal(
                store.node_max[i], kernel.node_feat.max(axis=0))
            np.testing.assert_array_equal(
                store.config_min[i], kernel.config_feat.min(axis=0))
            np.testing.assert_array_equal(
                store.config_max[i], kernel.config_feat.max(axis=0))
            assert store.max_opcode[i] == kernel.node_opcode.max()
    assert store.has_runtimes and store.pad == 0 and store.skipped == []
    assert store.feature_names is store.config_feature_names is None


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
    for key in ('node_feat', 'node_opcode', 'edge_index', 'config_feat',
                'config_runtime', 'config_runtime_normalizers'):
        array = getattr(store, key)
        assert isinstance(array, np.memmap), 'copied into memory'
        assert not array.flags.writeable
        np.testing.assert_array_equal(
            array, np.concatenate([getattr(kernel, key) for kernel in kernels]))
    assert not store.record(1).config_feat.flags.writeable
    for index in (3, -1):
        with pytest.raises(IndexError, match=f'kernel {index} of 3'):
            store.record(index)


def test_single_nodes_only_leave_an_empty_column(tmp_path):
    tile_records.write_split(tmp_path / 'train', [
        tile_records.make_record(np.random.default_rng(0), nodes=1)])
    assert _open(tmp_path / 'train').record(0).edge_index.shape == (0, 2)


def test_names_and_padding(tmp_path):
    tile_records.write_split(tmp_path / 'test', tile_records.make_records(
        3, is_test=True, pad=-1, node_features=3, config_features=2,
        feature_names=('x', 'y', 'z'), config_feature_names=('u', 'v')))
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
    tile_records.write_split(path.parent, [tile_records.make_record(
        np.random.default_rng(9), path.stem, configs=50)])


def _add(path):
    shutil.copy(path, path.with_name('another.npz'))


@pytest.mark.parametrize('change, graphs', [
    (_touch, 5), (_replace, 5), (_add, 6), (pathlib.Path.unlink, 4)])
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


@pytest.mark.parametrize('damage', [
    lambda folder: os.truncate(folder / 'config_feat.npy', 1000),
    lambda folder: (folder / 'node_min.npy').unlink(),
    lambda folder: (folder / 'manifest.json').unlink(),
    lambda folder: os.truncate(folder / 'manifest.json', 100),
    lambda folder: (folder / 'manifest.json').write_text('[]'),
    lambda folder: (folder / 'manifest.json').write_text('{"columns": {}}'),
    lambda folder: (folder / 'node_feat.npy').write_bytes(
        bytes((folder / 'node_feat.npy').stat().st_size)),
])
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
    changed = [*kernels[:3], dataclasses.replace(
        kernels[3], config_runtime=changed)]
    renamed = [*kernels[:3], dataclasses.replace(kernels[3], graph_id='zzz')]
    fingerprints = []
    for name, contents in (
            ('one/train', kernels), ('two/train', kernels),
            ('three', changed), ('four', renamed), ('five', kernels[:3])):
        tile_records.write_split(tmp_path / name, contents)
        # Same content, though other times, places and compression.
        if name == 'two/train':
            path = next((tmp_path / name).iterdir())
            with np.load(path) as arrays:
                np.savez(path, **arrays)
        fingerprints.append(store_lib.open_tile_split(
            str(tmp_path / name), str(tmp_path / 'cache')).fingerprint)
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 4
    assert all(int(text, 16) and len(text) == 32 for text in fingerprints)


def test_missing_and_empty_splits(tmp_path):
    for what, words in (('gone', 'there is no such folder'), ('empty', 'no .npz')):
        if what == 'empty':
            (tmp_path / what).mkdir()
        message = _message(ValueError, tmp_path / what)
        assert message.startswith(f'{tmp_path / what}: ') and words in message
        assert '--data_root' in message and '--sample_data' in message
    assert not (tmp_path / 'cache').exists()


def test_home_folder_and_trailing_slash(split, monkeypatch):
    monkeypatch.setenv('HOME', str(split.parent))
    first = store_lib.open_tile_split('~/train/', '~/cache/')
    monkeypatch.setattr(records, 'read_tile', None)
    assert _open(split).source == first.source == str(split)


def test_one_damaged_file_stops_and_is_named(split):
    bad = sorted(split.glob('*.npz'))[2]
    os.truncate(bad, 100)
    message = _message(ValueError, split)
    assert message.startswith(f'{bad}: not a complete npz file')
    assert '--skip_bad_files' in message
    assert _folders(split) == []


def test_one_damaged_file_skipped(split, capsys):
    bad = sorted(split.glob('*.npz'))[2]
    ids = [path.stem for path in sorted(split.glob('*.npz')) if path != bad]
    os.truncate(bad, 100)
    store = _open(split, skip_bad_files=True)
    assert store.graph_ids == ids
    assert [name for name, _ in store.skipped] == [bad.name]
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if 'warning' in line] == [
        f'warning: left out: {store.skipped[0][1]}']
    assert str(bad) in lines[0]
    # From the cache it is said again, and only with leave.
    assert _open(split, skip_bad_files=True).graph_ids == ids
    assert capsys.readouterr().err == (
        f'warning: 1 of 5 files of {split} stay left out: damaged\n')
    message = _message(ValueError, split)
    assert message.startswith(f'{bad}: not a complete npz file')
    assert f'{bad.name} (1 of 5)' in message and '--skip_bad_files' in message
    # Repaired, it is back.
    _replace(bad)
    assert _open(split).num_graphs == 5


def test_nothing_but_damaged_files(split):
    for path in split.glob('*.npz'):
        os.truncate(path, 10)
    message = _message(ValueError, split, skip_bad_files=True)
    assert message.startswith(f'{split}: all 5 files are damaged, such as: ')
    assert _folders(split) == []


@pytest.mark.parametrize('change, words', [
    ({'node_features': 139}, 'columns of node_feat: 139, but 140 in '),
    ({'config_features': 12}, 'columns of config_feat: 12, but 24 in '),
    ({'pad': -1}, 'pad: -1, but 0 in '),
    ({'feature_names': tuple(f'n{i}' for i in range(140))},
     'feature_names: different, but others in '),
])
def test_files_that_do_not_agree(split, change, words):
    odd = tile_records.make_record(np.random.default_rng(0), 'q', **change)
    tile_records.write_split(split, [odd])
    message = _message(ValueError, split)
    assert message.startswith(f'{split}/q.npz: {words}program_0_0000.npz')
    assert _open(split, skip_bad_files=True).num_graphs == 5


def test_when_the_first_file_is_the_odd_one(split):
    tile_records.write_split(split, [tile_records.make_record(
        np.random.default_rng(0), 'a', node_features=7)])
    assert _message(ValueError, split, skip_bad_files=True).startswith(
        f'{split}: 5 files do not agree with the first, a.npz, and only 1 do')


def test_the_cache_is_in_the_way_of_a_file(split):
    (split.parent / 'cache').write_text('text')
    message = _message(OSError, split)
    assert str(split.parent / 'cache') in message and '--cache_dir' in message


class _FullDisk(io.BytesIO):
    """A file on a disk with room for so many bytes in all."""

    room = 0

    def write(self, data):
        _FullDisk.room -= memoryview(data).nbytes
        if _FullDisk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize('room', [0, 100, 300, 5_000, 20_000])
def test_a_full_disk_leaves_nothing(split, monkeypatch, room):
    with monkeypatch.context() as patch:
        patch.setattr(
            columns, 'open', lambda path, mode, **_: _FullDisk(), raising=False)
        _FullDisk.room = room
        message = _message(OSError, split)
    assert message.startswith('[Errno 28] No space left on device: the cache')
    assert '--cache_dir' in message and str(split.parent / 'cache') in message
    assert _folders(split) == []
    assert _open(split).num_graphs == 5


def test_ctrl_c_leaves_nothing_and_keeps_the_old_version(split, monkeypatch):
    _open(split)
    folders = _folders(split)
    _touch(next(split.glob('*.npz')))
    read = records.read_tile

    def interrupted(path):
        if path.endswith('4.npz'):
            raise KeyboardInterrupt
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(records, 'read_tile', interrupted)
        with pytest.raises(KeyboardInterrupt):
            _open(split)
    assert _folders(split) == folders
    assert _open(split).num_graphs == 5


def test_a_file_that_cannot_be_read_is_named(split, monkeypatch):
    broken = split / 'program_0_0000.npz'

    def failing(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(records, 'read_tile', failing)
    message = _message(OSError, split, skip_bad_files=True)
    assert str(broken) in message and 'cache' not in message
    assert _folders(split) == []


def test_no_bar_without_a_terminal(split, capsys):
    _open(split)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ''


@pytest.mark.skipif(not _REAL.is_dir(), reason=f'{_REAL} is not there')
def test_real_splits(tmp_path):
    sizes = {}
    for name in ('train', 'valid', 'test'):
        store = store_lib.open_tile_split(str(_REAL / name), str(tmp_path))
        sizes[name] = (
            len(store), store.node_offsets[-1], store.config_offsets[-1],
            store.has_runtimes)
        for i, graph_id in enumerate(store.graph_ids):
            _assert_same(store.record(i), records.read_tile(
                str(_REAL / name / f'{graph_id}.npz')))
    # Sums of the columns nodes and configs in the data's README.
    assert sizes == {
        'train': (10, 195, 696, True),
        'valid': (5, 99, 56, True),
        'test': (5, 155, 5124, False),
    }
