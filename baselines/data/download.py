"""Fetches the published TpuGraphs archives and unpacks them.

The archives lie at http://download.tensorflow.org/data/tpu_graphs/v0/, one per
collection and split.  (That address could not be reached from the machine this
was developed on: the tests use a server of their own.)

In `<data_dir>/archives/` there are, for one archive:

    <name>.tar.part       what has come so far; a later call goes on from there
    <name>.tar.part.json  which version of the file on the server that is
    <name>.tar            complete; removed once unpacked
    <name>.json           the number of files unpacked
"""

import fcntl
import glob
import http.client
import json
import os
import pathlib
import queue
import re
import socket
import threading
import time
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Sequence, Tuple
import urllib.error
import urllib.parse
import urllib.request

import tqdm

from baselines import files
from baselines.data import archives
from baselines.data import collections

BASE_URL = 'http://download.tensorflow.org/data/tpu_graphs/v0/'

_READ_BYTES = 1 << 18
# A server has to answer within this time, and in every such time to send ..
_TIMEOUT_S = 60
_LEAST_BYTES = 60_000
# A connection that brings less than this is a poor one; so many end the attempt.
_POOR_BYTES = 1 << 20
_POOR_CONNECTIONS = 20
_DROPPED = (
    http.client.HTTPException,
    urllib.error.URLError,
    ConnectionError,
    socket.timeout,
)
_CONTENT_RANGE = re.compile(r'bytes (\d{1,18})-(\d{1,18})/(\d{1,18})')


class Split(NamedTuple):
    """One archive, and where its files are now.

    Attributes:
        name: 'npz_tile_xla_train'; the archive is called so, with '.tar'.
        folder: 'npz/tile/xla/train', below the data folder.
        counts: what `archives.unpack` did; None if all was there already.
    """

    name: str
    folder: str
    counts: Optional[archives.Unpacked] = None


def splits_of(names: Sequence[str]) -> List[Split]:
    """Names the archives of collections (names, or 'all').

    Raises:
        ValueError: no collection, or an unknown one.
    """
    known = ', '.join(collections.NAMES)
    wanted: List[str] = []
    for name in names:
        if name != 'all' and name not in collections.NAMES:
            raise ValueError(
                f'collection {name!r} is unknown: choose from all, {known}'
            )
        wanted += collections.NAMES if name == 'all' else (name,)
    if not wanted:
        raise ValueError(f'no collection given: choose from {known}')
    found = []
    for name in dict.fromkeys(wanted):
        for split in collections.SPLITS:
            parts = ['npz', *name.split(':'), split]
            found.append(Split('_'.join(parts), '/'.join(parts)))
    return found


def download(
    split: Split, data_dir: str, base_url: str = BASE_URL, keep_archive: bool = False
) -> Split:
    """Makes sure that the files of one split are in the data folder.

    Args:
        split: from `splits_of`.
        data_dir: e.g. '~/data/tpugraphs'.
        base_url: where the archives are; http or https.
        keep_archive: keep the archive after unpacking.

    Returns:
        `split` with its counts.

    Raises:
        ValueError: the address is none, or the server sends something that is
            not this archive; such an archive is removed, nothing is unpacked.
        OSError: no connection, no such file there, no room on the disk.
    """
    root = files.expand(data_dir)
    beside = os.path.join(root, 'archives', split.name)
    target = os.path.join(root, *split.folder.split('/'))
    there = len(glob.glob(os.path.join(glob.escape(target), '*.npz')))
    if there >= _read_json(f'{beside}.json').get('files', float('inf')):
        return split
    archive = f'{beside}.tar'
    if not os.path.exists(archive):
        fetch(_address(base_url, split.name), archive)
    try:
        counts = archives.unpack(archive, root, split.folder)
    except ValueError:
        if not keep_archive:
            os.unlink(archive)
        raise
    with files.write_atomically(f'{beside}.json') as out:
        json.dump({'files': counts.written + counts.kept}, out)
    if not keep_archive:
        pathlib.Path(archive).unlink(missing_ok=True)
    return split._replace(counts=counts)


def fetch(url: str, path: str) -> None:
    """Downloads a file; goes on where an earlier call was interrupted.

    Dropped connections are taken up again as long as each brings some bytes, and
    not too many bring only a few.

    Args:
        url: http or https; the server has to tell the length.
        path: where the file goes, once it is complete.

    Raises:
        ValueError: the answer makes no sense.
        OSError: no answer, an error of the server, no room on the disk for the
            file and as much again for its contents, or another process is
            downloading the same file.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f'{path}.part', 'ab') as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f'{path} is being downloaded by another process') from None
        if not _is_at(out, f'{path}.part'):
            # Another process finished it between our opening and locking.
            raise OSError(f'{path} was downloaded by another process; run again')
        complete, poor = False, 0
        while not complete:
            before = out.tell()
            if poor > _POOR_CONNECTIONS:
                raise OSError(f'{url}: the server gets nowhere; try again later')
            try:
                complete = _receive(url, out, f'{path}.part.json')
            except urllib.error.HTTPError as error:
                raise OSError(f'{url}: {error}') from None
            except _DROPPED as error:
                if out.tell() <= before:
                    reason = getattr(error, 'reason', None) or error
                    raise OSError(f'{url}: {reason}') from None
            poor += out.tell() - before < _POOR_BYTES
        out.flush()
        os.fsync(out.fileno())
        os.replace(f'{path}.part', path)
    pathlib.Path(f'{path}.part.json').unlink(missing_ok=True)


def _receive(url: str, out: BinaryIO, note: str) -> bool:
    """Appends what the server still has to `out`; returns whether that is all."""
    offset = out.tell()
    known = _read_json(note)
    if offset and offset == known.get('total'):
        return True
    request = urllib.request.Request(url)
    if offset:
        request.add_header('Range', f'bytes={offset}-')
    try:
        response = _answer(request)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not offset:
            raise
        # The server's file is shorter than what we have of it: another one.
        _restart(out)
        return False
    with response:
        start, total = _extent(url, response)
        if response.status == http.client.PARTIAL_CONTENT and start != offset:
            raise ValueError(
                f'{url}: the server sends the bytes from {start:,}, where those from '
                f'{offset:,} were to come'
            )
        headers = response.headers
        validator = headers.get('ETag') or headers.get('Last-Modified')
        version = {'total': total, 'validator': validator}
        if start and version != known:
            # The file on the server has changed since.
            _restart(out)
            return False
        if start != offset:
            _restart(out)  # The server cannot start in the middle.
        archives.require_room(
            os.path.dirname(note), 2 * total - start, f'download {url} and unpack it'
        )
        with files.write_atomically(note) as stream:
            json.dump(version, stream)
        _append(response, out, url, start, total)
    return out.tell() == total


def _answer(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Opens an address; no longer than the time in which it has to answer.

    A socket's timeout begins anew with every byte, so another thread waits.
    """
    done: queue.SimpleQueue = queue.SimpleQueue()

    def ask():
        try:
            done.put(urllib.request.urlopen(request, timeout=_TIMEOUT_S))
        except Exception as error:  # raised below
            done.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = done.get(timeout=_TIMEOUT_S)
    except queue.Empty:
        raise socket.timeout(f'no answer within {_TIMEOUT_S} seconds') from None
    if isinstance(found, Exception):
        raise found
    return found


def _append(
    response: http.client.HTTPResponse, out: BinaryIO, url: str, start: int, total: int
) -> None:
    name = url.rpartition('/')[2]
    with tqdm.tqdm(
        desc=name, initial=start, total=total, unit='B', unit_scale=True, disable=None
    ) as bar:
        began, arrived = time.monotonic(), 0
        while True:
            piece = response.read1(_READ_BYTES)  # what has come, at least a byte
            if not piece:
                break
            out.write(piece)
            bar.update(len(piece))
            arrived += len(piece)
            if time.monotonic() - began > _TIMEOUT_S:
                if arrived < _LEAST_BYTES:
                    raise OSError(
                        f'{url}: only {arrived:,} bytes in {_TIMEOUT_S} seconds; run '
                        'the command again to go on from there'
                    )
                began, arrived = time.monotonic(), 0
    if out.tell() < total:
        raise ConnectionError(
            f'the connection ended after {out.tell():,} of {total:,} bytes; run '
            'the command again to go on from there'
        )


def _restart(out: BinaryIO) -> None:
    out.truncate(0)
    out.seek(0)  # Appending knows where to write anyway; `tell` does not.


def _is_at(stream: BinaryIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _extent(url: str, response: http.client.HTTPResponse) -> Tuple[int, int]:
    """Returns the first byte that a response holds, and the file's length."""
    length = response.headers.get('Content-Length') or ''
    if not re.fullmatch(r'\d{1,18}', length):
        raise ValueError(f'{url}: the server does not tell the length of the file')
    if response.status != http.client.PARTIAL_CONTENT:
        return 0, int(length)
    text = response.headers.get('Content-Range') or ''
    found = _CONTENT_RANGE.fullmatch(text)
    start, last, total = map(int, found.groups()) if found else (0, 0, 0)
    if last != total - 1 or int(length) != total - start:
        raise ValueError(f'{url}: the server answers with Content-Range {text!r}')
    return start, total


def _address(base_url: str, name: str) -> str:
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in ('http', 'https') or not parts.netloc:
        raise ValueError(f'{base_url!r} is no address: it must begin with http(s)://')
    return f'{base_url.rstrip("/")}/{name}.tar'


def _read_json(path: str) -> Dict[str, Any]:
    """Reads one of our notes; {} if there is none that makes sense."""
    try:
        with open(path, encoding='utf-8') as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
