"""Reading what anybody may have written: files, JSON and archives."""

import os
import pathlib
import socket

import pytest

from baselines.core import untrusted


def _made_odd(folder, kind):
    """Makes something that is no regular file; returns its path."""
    path = folder / 'odd'
    if kind == 'pipe':
        os.mkfifo(path)
    elif kind == 'socket':
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == 'folder':
        path.mkdir()
    else:
        path.symlink_to(kind)
    return path


@pytest.mark.parametrize(
    'kind', ['pipe', 'socket', 'folder', '/dev/zero', 'other_pipe', 'odd', 'nothing']
)
def test_what_is_no_regular_file_is_not_opened(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    os.mkfifo(tmp_path / 'other_pipe')
    path = _made_odd(tmp_path if kind != 'socket' else pathlib.Path('.'), kind)
    with pytest.raises(ValueError, match=path.name):
        untrusted.open_regular(str(path))


def test_regular_files_are_opened_also_through_links(tmp_path):
    (tmp_path / 'file').write_bytes(b'12345')
    (tmp_path / 'link').symlink_to('file')
    for name in ('file', 'link'):
        with untrusted.open_regular(str(tmp_path / name), 5) as stream:
            assert stream.read() == b'12345'
        assert untrusted.read(str(tmp_path / name), 5) == b'12345'
    with pytest.raises(ValueError, match='5 bytes .*4'):
        untrusted.open_regular(str(tmp_path / 'file'), 4)
    with pytest.raises(FileNotFoundError):
        untrusted.open_regular(str(tmp_path / 'gone'))


def test_json_is_strict():
    assert untrusted.loads(b'{"a": [1, 2.5, null]}') == {'a': [1, 2.5, None]}
    for content in ('{"a": 1, "a": 2}', '[NaN]', '[-Infinity]', '[' * 100_000, '[1'):
        with pytest.raises(ValueError):
            untrusted.loads(content)
    assert untrusted.loads('[Infinity]', finite=False) == [float('inf')]
    with pytest.raises(ValueError, match='309'):
        untrusted.loads('1' * 309, finite=False)
