"""npz files of strangers: their lists of contents, and what is no file."""

import io
import os
import zipfile

import numpy as np
import pytest

from baselines.data import npz
from baselines.data.layout import store as layout_store
from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from tests.helpers import layout_files
from tests.helpers import tile_records

_SCHEMA = {
    'a': npz.Field('iu', ('n',)),
    'pad': npz.Field('iu', (), np.int64, -1, 0, optional=True),
}


def _zipped(save=np.savez, **arrays):
    content = io.BytesIO()
    save(content, **arrays)
    return content.getvalue()


def _read(folder, data):
    path = folder / 'f.npz'
    path.write_bytes(data)
    return npz.read_arrays(str(path), _SCHEMA, 10_000)


_GOOD = _zipped(a=np.arange(3), pad=np.array(-1))


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_a_good_file(tmp_path, save):
    found = _read(tmp_path, _zipped(save, a=np.arange(3), pad=np.array(-1)))
    assert found['a'].tolist() == [0, 1, 2] and found['pad'] == -1


def test_a_name_that_only_the_directory_has(tmp_path):
    # One bit; pad would be taken as absent, and so as 0.
    at = _GOOD.rindex(b'pad.npy')
    data = _GOOD[:at] + b'q' + _GOOD[at + 1 :]
    with pytest.raises(ValueError, match="holds 'qad.npy', which such a file does not"):
        _read(tmp_path, data)


def test_a_member_that_is_there_twice(tmp_path):
    content = io.BytesIO(_GOOD)
    with pytest.warns(UserWarning), zipfile.ZipFile(content, 'a') as archive:
        archive.writestr('pad.npy', _zipped(x=np.array(0)))
    with pytest.raises(ValueError, match="f.npz: holds 'pad.npy' twice"):
        _read(tmp_path, content.getvalue())


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_a_member_that_unpacks_to_more_than_it_declares(tmp_path, save):
    data = bytearray(_zipped(save, a=np.zeros(1000, np.int8)))
    size = (1128).to_bytes(4, 'little')  # with 128 bytes of header
    assert data.count(size) >= 1
    data = bytes(data).replace(size, (128).to_bytes(4, 'little'))
    with pytest.raises(ValueError, match='f.npz: '):
        _read(tmp_path, data)


def test_members_that_nobody_knows(tmp_path):
    data = _zipped(a=np.arange(3), pda=np.array(-1))
    with pytest.raises(ValueError, match="holds 'pda.npy', which such a .*: a, pad"):
        _read(tmp_path, data)


@pytest.mark.parametrize('code', [0x110000, 0xFFFFFFFF, 0xD800, 0xDFFF])
@pytest.mark.parametrize('order', '<>')
def test_names_with_characters_that_do_not_exist(tmp_path, code, order):
    record = tile_records.make_record(np.random.default_rng(0), 'k')
    arrays = {k: v for k, v in vars(record).items() if isinstance(v, np.ndarray)}
    names = np.full(140, 'name', f'{order}U4')
    arrays['feature_names'] = names
    np.savez(tmp_path / 'k.npz', **arrays)
    assert records.read_tile(str(tmp_path / 'k.npz')).feature_names[1] == 'name'
    names.view(f'{order}u4')[5] = code
    np.savez(tmp_path / 'k.npz', **arrays)
    with pytest.raises(ValueError, match='feature_names holds characters that do not'):
        records.read_tile(str(tmp_path / 'k.npz'))


_ODD = {
    'pipe': os.mkfifo,
    'device': lambda path: path.symlink_to('/dev/zero'),
    'link to nothing': lambda path: path.symlink_to('/nowhere/at/all'),
    'link to itself': lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize('kind', sorted(_ODD))
@pytest.mark.parametrize('is_tile', [True, False])
def test_what_is_no_file_is_named_or_skipped(tmp_path, capsys, kind, is_tile):
    split = tmp_path / 'train'
    if is_tile:
        tile_records.write_split(split, tile_records.make_records(3))
        store = tile_store.TileStore
    else:
        layout_files.write_split(split, layout_files.make_programs(3))
        store = layout_store.LayoutStore
    _ODD[kind](split / 'a_stranger.npz')
    with pytest.raises(ValueError, match='a_stranger.npz: .*--skip_bad_files'):
        store.open(str(split), str(tmp_path / 'cache'))
    found = store.open(str(split), str(tmp_path / 'cache'), skip_bad_files=True)
    assert found.num_graphs == 3
    assert [name for name, _ in found.skipped] == ['a_stranger.npz']
    assert 'warning: left out: ' in capsys.readouterr().err
