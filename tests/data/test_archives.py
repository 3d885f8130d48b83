"""Unpacking archives: good ones whole, hostile ones not at all."""

import io
import os
import pathlib
import tarfile

import pytest

from baselines.data import archives

_FOLDER = 'npz/tile/xla/train'


def _entry(name, data=b'', kind=tarfile.REGTYPE, **attributes):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, data


def _tar(tmp_path, *entries, mode='w'):
    path = str(tmp_path / 'a.tar')
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
    assert archives.unpack(path, str(root), _FOLDER) == (4, 0, 0)
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
    assert archives.unpack(path, str(tmp_path / 'root'), _FOLDER) == (1, 1, 2)
    assert _written(folder) == ['a.npz', 'b.npz']
    assert (folder / 'a.npz').read_bytes() == b'mine'


_NO_FILE = f'is no ordinary file in {_FOLDER}'
_SPARSE = {'GNU.sparse.size': '1', 'GNU.sparse.map': '0,1'}


@pytest.mark.parametrize(
    'entry, message',
    [
        (_entry('../evil.npz', b'x'), f"'../evil.npz' {_NO_FILE}"),
        (_entry(f'{_FOLDER}/../../e.npz', b'x'), _NO_FILE),
        (_entry('/tmp/evil.npz', b'x'), _NO_FILE),
        (_entry(f'/{_FOLDER}/e.npz', b'x'), _NO_FILE),
        (_entry(f'{_FOLDER}/sub/e.npz', b'x'), _NO_FILE),
        (_entry('npz/tile/xla/valid/e.npz', b'x'), _NO_FILE),
        (_entry(_FOLDER, b'x'), _NO_FILE),
        (_entry(f'{_FOLDER}/s.npz', kind=tarfile.SYMTYPE, linkname='/etc'), _NO_FILE),
        (_entry(_FOLDER, kind=tarfile.SYMTYPE, linkname='/tmp'), _NO_FILE),
        (_entry(f'{_FOLDER}/h.npz', kind=tarfile.LNKTYPE, linkname='/etc/a'), _NO_FILE),
        (_entry(f'{_FOLDER}/c.npz', kind=tarfile.CHRTYPE, devmajor=1), _NO_FILE),
        (_entry(f'{_FOLDER}/f.npz', kind=tarfile.FIFOTYPE), _NO_FILE),
        (_entry(f'{_FOLDER}/p.npz', b'x', pax_headers=_SPARSE), _NO_FILE),
        (
            _entry(f'{_FOLDER}/p.npz', b'x', pax_headers={'path': '../evil.npz'}),
            f"'../evil.npz' {_NO_FILE}",
        ),
        (_GOOD, 'is in it twice'),
        (
            _entry(f'{_FOLDER}/p.npz', b'x', pax_headers={'size': str(10**15)}),
            'claims 1,000,000,000,000,000 bytes, but the archive ends',
        ),
        (
            _entry(f'{_FOLDER}/p.npz', b'x', pax_headers={'size': '-9'}),
            'claims -9 byte',
        ),
    ],
)
def test_hostile_entries_refuse_the_archive(tmp_path, entry, message):
    path = _tar(tmp_path, _GOOD, entry)
    with pytest.raises(ValueError, match='a.tar cannot be used: ') as caught:
        archives.unpack(path, str(tmp_path / 'root'), _FOLDER)
    assert message in str(caught.value)
    assert _written(tmp_path) == ['a.tar']


@pytest.mark.parametrize('kind', [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_claims_gigabytes(tmp_path, kind):
    info, _ = _entry('long', kind=kind)
    info.size = 8 * 10**9
    path = tmp_path / 'a.tar'
    path.write_bytes(info.tobuf() + bytes(1024))
    with pytest.raises(ValueError, match='a header claims 8,000,000,'):
        archives.unpack(str(path), str(tmp_path / 'root'), _FOLDER)


def test_damaged_header_in_the_middle(tmp_path):
    path = _tar(tmp_path, _GOOD, _entry(f'{_FOLDER}/b.npz', b'2'))
    with open(path, 'r+b') as stream:
        stream.seek(1024)
        stream.write(b'garbage')
    with pytest.raises(ValueError, match='it is truncated or damaged'):
        archives.unpack(path, str(tmp_path / 'root'), _FOLDER)


@pytest.mark.parametrize('content', [b'', b'<html>Not here</html>', None])
def test_what_is_no_plain_tar_is_refused(tmp_path, content):
    path = _tar(tmp_path, _GOOD, mode='w:gz')
    if content is not None:
        pathlib.Path(path).write_bytes(content)
    with pytest.raises(ValueError, match='a.tar cannot be used'):
        archives.unpack(path, str(tmp_path / 'root'), _FOLDER)


def test_archives_without_files_are_refused(tmp_path):
    path = _tar(tmp_path, _entry('npz', kind=tarfile.DIRTYPE))
    with pytest.raises(ValueError, match='it holds no .npz file'):
        archives.unpack(path, str(tmp_path / 'root'), _FOLDER)


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, 'MAX_FILES', 2)
    path = _tar(tmp_path, *(_entry(f'{_FOLDER}/{i}.npz') for i in range(3)))
    with pytest.raises(ValueError, match='it holds more than 2 files'):
        archives.unpack(path, str(tmp_path / 'root'), _FOLDER)


def test_no_room(tmp_path):
    with pytest.raises(OSError, match='not enough space in .* to keep it: 1,000,000'):
        archives.require_room(str(tmp_path / 'not' / 'yet'), 10**15, 'keep it')
    archives.require_room(str(tmp_path), 1, 'keep it')
