"""Downloading, from a server on this machine."""

import base64
import contextlib
import fcntl
import hashlib
import http.server
import io
import os
import tarfile
import threading
import time

import pytest

from baselines.core import text
from baselines.data import collections
from baselines.data import download
from tests.helpers import refusals
from tpugraphs import commands

_NAME = 'npz_tile_xla_train'
_FILES = {f'k_{i}.npz': bytes([i]) * 40_000 for i in range(5)}


def _archive(split_folder, contents):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode='w') as tar:
        for name, data in contents.items():
            info = tarfile.TarInfo(f'{split_folder}/{name}')
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


class _Server(http.server.ThreadingHTTPServer):
    """Serves `contents` {path: bytes}; the other attributes make trouble."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), _Handler)
        self.contents = {}
        self.asked = []  # (path, Range header)
        self.etag = '"1"'
        self.ranges = True
        self.cut_after = []  # bytes after which the next answers end
        self.headers = {}  # sent instead of the right ones; None leaves out
        self.answer = None  # writes to a connection in place of all that


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        server, asked = self.server, self.headers.get('Range')
        server.asked.append((self.path, asked))
        if server.answer:
            server.answer(self.wfile)
            return
        body = server.contents.get(self.path)
        if body is None:
            self.send_error(404)
            return
        total, start = len(body), 0
        if asked and server.ranges and self.headers['If-Range'] == server.etag:
            start = int(asked[len('bytes=') : -1])
        if start >= total:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        headers = {'ETag': server.etag, 'Content-Length': str(total - start)}
        if start:
            headers['Content-Range'] = f'bytes {start}-{total - 1}/{total}'
        for key, value in {**headers, **server.headers}.items():
            if value is not None:
                self.send_header(key, value)
        self.end_headers()
        end = start + server.cut_after.pop(0) if server.cut_after else total
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture(name='server')
def _server(monkeypatch):
    monkeypatch.setenv('no_proxy', '*')
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        server.url = f'http://127.0.0.1:{server.server_port}/v0'
        server.contents[f'/v0/{_NAME}.tar'] = _archive('npz/tile/xla/train', _FILES)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(name='split')
def _split():
    return download.list_splits(['tile:xla'])[0]


def _unpacked(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _data(tmp_path):
    return tmp_path / 'npz' / 'tile' / 'xla' / 'train'


def test_folders():
    assert download.list_splits(['layout:nlp:random', 'tile:xla', 'tile:xla']) == [
        *(f'npz/layout/nlp/random/{split}' for split in ('train', 'valid', 'test')),
        *(f'npz/tile/xla/{split}' for split in ('train', 'valid', 'test')),
    ]
    assert len(download.list_splits(['all'])) == 3 * len(collections.NAMES)
    for names in (['tile'], []):
        find = lambda names=names: download.list_splits(names)
        refusals.assert_refused(find, *map(repr, names), 'all')


def test_a_split_arrives_and_is_not_fetched_twice(server, split, tmp_path):
    counts = download.download(split, str(tmp_path), server.url)
    assert counts == (5, 0, 0)
    assert _unpacked(_data(tmp_path)) == _FILES
    assert os.listdir(tmp_path / 'archives') == [f'{_NAME}.json']
    assert len(server.asked) == 1
    assert download.download(split, str(tmp_path), server.url) is None
    assert len(server.asked) == 1
    # A file that vanished is fetched again; the others are kept.
    (_data(tmp_path) / 'k_3.npz').unlink()
    counts = download.download(split, str(tmp_path), server.url + '/')
    assert counts == (1, 4, 0)
    assert _unpacked(_data(tmp_path)) == _FILES


def test_a_kept_archive_is_used_again(server, split, tmp_path):
    download.download(split, str(tmp_path), server.url, keep_archive=True)
    assert (tmp_path / 'archives' / f'{_NAME}.tar').exists()
    (_data(tmp_path) / 'k_0.npz').unlink()
    counts = download.download(split, str(tmp_path), server.url, keep_archive=True)
    assert counts == (1, 4, 0)
    assert len(server.asked) == 1


def test_dropped_connections_are_taken_up_again(server, split, tmp_path):
    server.cut_after = [1000, 2500]
    download.download(split, str(tmp_path), server.url)
    assert [asked for _, asked in server.asked] == [None, 'bytes=1000-', 'bytes=3500-']
    assert _unpacked(_data(tmp_path)) == _FILES


def test_a_later_call_goes_on(server, split, tmp_path):
    server.cut_after = [1000, 0]
    with pytest.raises(OSError, match='1,000 of 215,040'):
        download.download(split, str(tmp_path), server.url)
    assert not _data(tmp_path).exists()
    part = tmp_path / 'archives' / f'{_NAME}.tar.part'
    assert part.stat().st_size == 1000
    download.download(split, str(tmp_path), server.url)
    assert server.asked[-1][1] == 'bytes=1000-'
    assert _unpacked(_data(tmp_path)) == _FILES
    assert not part.exists()


@pytest.mark.parametrize('size', [900_000, 0])
def test_a_file_that_changed_on_the_server_starts_over(server, split, tmp_path, size):
    contents = {'n.npz': b'n' * size}
    server.cut_after = [1500, 0]
    with pytest.raises(OSError):
        download.download(split, str(tmp_path), server.url)
    server.etag = '"2"'
    server.contents[f'/v0/{_NAME}.tar'] = _archive('npz/tile/xla/train', contents)
    download.download(split, str(tmp_path), server.url)
    assert _unpacked(_data(tmp_path)) == contents


def test_a_server_without_ranges(server, split, tmp_path):
    server.ranges = False
    server.cut_after = [1000, 2500]
    download.download(split, str(tmp_path), server.url)
    assert _unpacked(_data(tmp_path)) == _FILES
    # One that always ends early is given up.
    server.cut_after = [1000] * 5
    (_data(tmp_path) / 'k_0.npz').unlink()
    with pytest.raises(OSError, match='1,000 of 215,040'):
        download.download(split, str(tmp_path), server.url)


@pytest.mark.parametrize(
    'headers, word',
    [
        ({'Content-Length': None}, 'length'),
        ({'Content-Length': '-5'}, 'length'),
        ({'Content-Length': '9' * 17}, 'space'),
        ({'Content-Range': None}, 'None'),
        ({'Content-Range': 'bytes 1000-2000/215040'}, "'bytes 1000-2000/215040'"),
    ],
)
def test_senseless_answers(server, split, tmp_path, headers, word):
    server.cut_after = [1000]
    server.headers = headers
    with pytest.raises((ValueError, OSError), match=word) as caught:
        download.download(split, str(tmp_path), server.url)
    assert server.url in str(caught.value) and not _data(tmp_path).exists()


@pytest.mark.parametrize(
    'answer', [lambda _: time.sleep(1), lambda c: c.write(b'\x1b[31m\xff\x00\r\n' * 9)]
)
def test_a_server_without_haste_or_sense(server, tmp_path, monkeypatch, answer):
    monkeypatch.setattr(download, 'TIMEOUT_S', 0.1)
    server.answer = answer
    with pytest.raises(OSError, match=f'{server.url}/x.tar') as caught:
        download.fetch(f'{server.url}/x.tar', str(tmp_path / 'x.tar'))
    assert text.one_line(caught.value).isprintable()


def test_missing_archive_and_no_server(server, split, tmp_path):
    with pytest.raises(OSError, match=rf'/v1/{_NAME}.tar: .*404'):
        download.download(split, str(tmp_path), server.url.replace('v0', 'v1'))
    with pytest.raises(OSError, match='127.0.0.1:1/npz'):
        download.download(split, str(tmp_path), 'http://127.0.0.1:1')
    for bad in ('file:///etc', 'host/path', 'https://', 'http://host/'):
        with pytest.raises(ValueError, match=f'{bad!r}.*https://'):
            download.download(split, str(tmp_path), bad)


def test_a_server_that_leads_to_an_open_connection_is_refused(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(download, 'THIS_MACHINE', ('127.0.0.1',))
    moved = 'HTTP/1.1 302 Found\r\nLocation: http://localhost:{}/y.tar\r\n\r\n'
    moved = moved.format(server.server_port).encode()
    server.answer = lambda stream: stream.write(moved)
    with pytest.raises(ValueError, match='https://'):
        download.fetch(f'{server.url}/x.tar', str(tmp_path / 'x.tar'))
    assert [path for path, _ in server.asked] == ['/v0/x.tar']


@pytest.mark.parametrize('right', [True, False])
def test_the_checksum_of_the_server_is_compared(server, split, tmp_path, right):
    body = server.contents[f'/v0/{_NAME}.tar'] if right else b''
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    server.headers = {'x-goog-hash': f'crc32c=AAAAAA==,md5={digest}'}
    if right:
        assert download.download(split, str(tmp_path), server.url) == (5, 0, 0)
        return
    with pytest.raises(ValueError, match='MD5'):
        download.download(split, str(tmp_path), server.url)
    assert not list((tmp_path / 'archives').glob('*.part'))


def test_a_bad_archive_is_removed_and_nothing_unpacked(server, split, tmp_path):
    server.contents[f'/v0/{_NAME}.tar'] = _archive('npz/tile/xla/valid', _FILES)
    with pytest.raises(ValueError, match='npz/tile/xla/valid/k_0.npz'):
        download.download(split, str(tmp_path), server.url)
    assert not os.listdir(tmp_path / 'archives') and not _data(tmp_path).exists()
    with pytest.raises(ValueError):
        download.download(split, str(tmp_path), server.url, keep_archive=True)
    assert os.listdir(tmp_path / 'archives') == [f'{_NAME}.tar']


def test_two_at_once(server, tmp_path, monkeypatch):
    monkeypatch.setattr(time, 'sleep', lambda seconds: None)
    with open(tmp_path / 'x.tar.lock', 'w') as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match='x.tar is being'):
            download.fetch(f'{server.url}/{_NAME}.tar', str(tmp_path / 'x.tar'))
    assert not server.asked


def test_the_command(server, tmp_path, capsys):
    for split in ('valid', 'test'):
        folder = f'npz/tile/xla/{split}'
        contents = {f'{split}.npz': b'1', 'readme': b''}
        server.contents[f'/v0/npz_tile_xla_{split}.tar'] = _archive(folder, contents)
    given = [f'--data_dir={tmp_path}', f'--base_url={server.url}']
    assert commands.run('download', given) == 0
    out, err = capsys.readouterr()
    assert err == '' and [line.split(' file')[0] for line in out.splitlines()] == [
        f'npz/tile/xla/{part}' for part in ('train: 5', 'valid: 1', 'test: 1')
    ]
    layout = [*given, '--collection=tile:xla,layout:xla:default']
    assert commands.run('download', layout) == 1
    out, err = capsys.readouterr()
    assert 'npz/tile/xla/train: complete' in out
    assert err.startswith('error: http://127') and err.count('\n') == 1
    assert 'npz_layout_xla_default_train.tar' in err
