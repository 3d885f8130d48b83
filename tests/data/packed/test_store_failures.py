"""The store when things go wrong: bad input, full disks, killed processes."""

import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from baselines.data.packed import columns
from baselines.data.tile import records
from baselines.data.tile import store as store_lib
from tests.helpers import places
from tests.helpers import tile_records


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


def _message(error_type, split, **kwargs):
    with pytest.raises(error_type) as caught:
        _open(split, **kwargs)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def _touch(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def _replace(path):
    tile_records.write_split(
        path.parent,
        [tile_records.make_record(np.random.default_rng(9), path.stem, configs=50)],
    )


def test_missing_and_empty_splits(tmp_path):
    for what, words in (('gone', 'there is no such folder'), ('empty', 'no .npz')):
        if what == 'empty':
            (tmp_path / what).mkdir()
        message = _message(ValueError, tmp_path / what)
        assert message.startswith(f'{tmp_path / what}: ') and words in message
        assert '--data_root' in message and '--sample_data' in message
    assert not (tmp_path / 'cache').exists()


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
        f'warning: left out: {store.skipped[0][1]}'
    ]
    assert str(bad) in lines[0]
    # From the cache it is said again, and only with leave.
    assert _open(split, skip_bad_files=True).graph_ids == ids
    assert capsys.readouterr().err == (
        f'warning: 1 of 5 files of {split} stay left out: damaged\n'
    )
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


@pytest.mark.parametrize(
    'change, words',
    [
        ({'node_features': 139}, 'columns of node_feat: 139, but 140 in '),
        ({'config_features': 12}, 'columns of config_feat: 12, but 24 in '),
        ({'pad': -1}, 'pad: -1, but 0 in '),
        (
            {'feature_names': tuple(f'n{i}' for i in range(140))},
            'feature_names: different, but others in ',
        ),
    ],
)
def test_files_that_do_not_agree(split, change, words):
    odd = tile_records.make_record(np.random.default_rng(0), 'q', **change)
    tile_records.write_split(split, [odd])
    message = _message(ValueError, split)
    assert message.startswith(f'{split}/q.npz: {words}program_0_0000.npz')
    assert _open(split, skip_bad_files=True).num_graphs == 5


def test_when_the_first_file_is_the_odd_one(split):
    tile_records.write_split(
        split,
        [tile_records.make_record(np.random.default_rng(0), 'a', node_features=7)],
    )
    assert _message(ValueError, split, skip_bad_files=True).startswith(
        f'{split}: 5 files do not agree with the first, a.npz, and only 1 do'
    )


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
            columns, 'open', lambda path, mode, **_: _FullDisk(), raising=False
        )
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


def _child(split, before=''):
    """Starts a process that opens the split and prints its fingerprint."""
    program = f"""
import sys, time
from baselines.data.tile import records
from baselines.data.tile import store
{before}
opened = store.TileStore.open(sys.argv[1], sys.argv[2])
print(opened.fingerprint, opened.num_graphs)
"""
    return subprocess.Popen(
        [sys.executable, '-c', program, str(split), str(split.parent / 'cache')],
        cwd=places.ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_two_processes_at_once(split):
    children = [_child(split) for _ in range(2)]
    results = [child.communicate(timeout=60)[0] for child in children]
    assert results == [f'{_open(split).fingerprint} 5\n'] * 2
    assert len(_folders(split)) == 1


def test_killed_in_the_middle_of_packing(split):
    child = _child(
        split,
        before="""
read = records.read_tile
def read_three(path):
    if path.endswith('3.npz'):
        print('midway', flush=True)
        time.sleep(60)
    return read(path)
records.read_tile = read_three
""",
    )
    assert child.stdout.readline() == 'midway\n'
    child.kill()
    child.communicate()
    assert len(_folders(split)) == 1 and _folders(split)[0].startswith('.')
    assert _open(split).num_graphs == 5
    assert len(_folders(split)) == 1 and not _folders(split)[0].startswith('.')


def test_a_file_that_cannot_be_read_is_named(split, monkeypatch):
    broken = split / 'program_0_0000.npz'

    def failing(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(records, 'read_tile', failing)
    message = _message(OSError, split, skip_bad_files=True)
    assert str(broken) in message and 'cache' not in message
    assert _folders(split) == []
