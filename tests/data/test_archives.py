"""Unpacking archives: good ones whole, hostile ones not at all."""

import io
import os
import tarfile

import pytest

from baselines.data import archives
from tests.helpers import refusals

_FOLDER = 'npz/tile/xla/train'


def _entry(name, data=b'', kind=tarfile.REGTYPE, **attributes):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, data


def _tar(tmp_path, *entries, mode='w'):
    path = tmp_path / 'a.tar'
    with tarfile.open(path, mode) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return path


def _written(root):
    return sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
    )


_GOOD = _entry(f'{_FOLDER}/a.npz', b'first')


def test_files_are_unpacked_into_the_folder(tmp_path):
    long = 'x' * 150 + '.4x4_0123456789abcdef.npz'  # does not fit a plain header
    path = _tar(
        tmp_path,
        _entry('npz', kind=tarfile.DIRTYPE),
        _entry('npz/tile/xla/train', kind=tarfile.DIRTYPE),
        _GOOD,
        _entry(f'./{_FOLDER}/b.npz', b'2' * 3_000_000),
        _entry(f'{_FOLDER}/{long}', b'3'),
        _entry(f'{_FOLDER}/empty.npz'),
    )
    root = tmp_path / 'root'
    assert archives.unpack(str(path), str(root), _FOLDER) == (4, 0, 0)
    folder = root / 'npz' / 'tile' / 'xla' / 'train'
    assert {p.name for p in folder.iterdir()} == {'a.npz', 'b.npz', long, 'empty.npz'}
    assert (folder / 'a.npz').read_bytes() == b'first'
    assert (folder / 'b.npz').read_bytes() == b'2' * 3_000_000
    assert (folder / 'empty.npz').read_bytes() == b''


def test_existing_files_are_kept_and_others_ignored(tmp_path):
    folder = tmp_path / 'root' / 'npz' / 'tile' / 'xla' / 'train'
    folder.mkdir(parents=True)
    (folder / 'a.npz').write_bytes(b'mine')
    path = _tar(
        tmp_path,
        _GOOD,
        _entry(f'{_FOLDER}/b.npz', b'2'),
        _entry(f'{_FOLDER}/readme.txt', b'x'),
        _entry(f'{_FOLDER}/._a.npz', b'x'),
    )
    assert archives.unpack(str(path), str(tmp_path / 'root'), _FOLDER) == (1, 1, 2)
    assert _written(folder) == ['a.npz', 'b.npz']
    assert (folder / 'a.npz').read_bytes() == b'mine'


_SPARSE = {'GNU.sparse.size': '1', 'GNU.sparse.map': '0,1'}
_HUGE = {'size': str(10**15)}


def _refused(path, *words):
    """Makes sure that an archive is refused, and nothing of it unpacked."""
    root = path.parent / 'root'
    unpack = lambda: archives.unpack(str(path), str(root), _FOLDER)
    refusals.assert_refused(unpack, str(path), *words)
    assert _written(path.parent) == [path.name]


_NAMES = '../e.npz', f'{_FOLDER}/../../e.npz', f'/{_FOLDER}/e.npz', f'{_FOLDER}/s/e.npz'
_KINDS = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE


@pytest.mark.parametrize(
    'entry, word',
    [
        *((_entry(name, b'x'), repr(name)) for name in (*_NAMES, _FOLDER)),
        *((_entry(f'{_FOLDER}/e.npz', kind=k, linkname='/a'), 'e.npz') for k in _KINDS),
        (_entry(_FOLDER, kind=tarfile.SYMTYPE, linkname='/tmp'), _FOLDER),
        (_entry(f'{_FOLDER}/e.npz', b'x', pax_headers=_SPARSE), 'e.npz'),
        (_entry(f'{_FOLDER}/e.npz', b'x', pax_headers={'path': '../p'}), "'../p'"),
        (_GOOD, 'twice'),
        (_entry(f'{_FOLDER}/e.npz', b'x', pax_headers=_HUGE), f'{10**15:,} bytes'),
        (_entry(f'{_FOLDER}/e.npz', b'x', pax_headers={'size': '-9'}), '-9 byte'),
    ],
)
def test_hostile_entries_refuse_the_archive(tmp_path, entry, word):
    _refused(_tar(tmp_path, _GOOD, entry), word)


@pytest.mark.parametrize('kind', [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_claims_gigabytes(tmp_path, kind):
    info, _ = _entry('long', kind=kind)
    info.size = 8 * 10**9
    path = tmp_path / 'a.tar'
    path.write_bytes(info.tobuf() + bytes(1024))
    _refused(path, '8,000,000,')


def test_damaged_header_in_the_middle(tmp_path):
    path = _tar(tmp_path, _GOOD, _entry(f'{_FOLDER}/b.npz', b'2'))
    with open(path, 'r+b') as stream:
        stream.seek(1024)
        stream.write(b'garbage')
    _refused(path, 'damaged')


def test_what_is_no_tar_of_graphs(tmp_path, monkeypatch):
    _refused(_tar(tmp_path, _GOOD, mode='w:gz'))
    _refused(_tar(tmp_path, _entry('npz', kind=tarfile.DIRTYPE)), '.npz')
    monkeypatch.setattr(archives, 'MAX_FILES', 2)
    path = _tar(tmp_path, *(_entry(f'{_FOLDER}/{i}.npz') for i in range(3)))
    _refused(path, '2 files')
    for content in (b'', b'<html>Not here</html>'):
        path.write_bytes(content)
        _refused(path)


def test_no_room(tmp_path):
    place = str(tmp_path / 'not' / 'yet')
    message = refusals.read_message(
        lambda: archives.require_room(place, 10**15, 'keep it'), OSError
    )
    assert str(tmp_path) in message and f'{10**15:,}' in message
    archives.require_room(str(tmp_path), 1, 'keep it')
