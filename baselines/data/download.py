"""Fetches the published TpuGraphs archives and unpacks them.

The archives are at https://download.tensorflow.org/data/tpu_graphs/v0/, one per
collection and split.  (That address could not be reached from the machine this
was developed on: the tests run their own server.)

In `<data_dir>/archives/` there are, for one archive:

    <name>.tar.part       what was received so far; a later call resumes it
    <name>.tar.part.json  the version of the file on the server
    <name>.tar            complete; removed once unpacked
    <name>.json           the number of files unpacked
"""

import base64
from collections.abc import Sequence
import email.message
import glob
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import re
from typing import Any, BinaryIO
import urllib.error
import urllib.parse
import urllib.request

from baselines.core import files
from baselines.core import phases
from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted
from baselines.data import archives
from baselines.data import collections

BASE_URL = 'https://download.tensorflow.org/data/tpu_graphs/v0/'

_READ_BYTES = 1 << 18
TIMEOUT_S = 60  # in which a server has to send something
_DROPPED = (
    http.client.HTTPException,
    urllib.error.URLError,
    ConnectionError,
    TimeoutError,
)
_MD5 = re.compile(r'md5=([A-Za-z0-9+/=]{24})')  # in Google's storage
THIS_MACHINE = ('localhost', '127.0.0.1', '::1')


def list_splits(names: Sequence[str]) -> list[str]:
    """Lists the splits of collections, such as 'npz/tile/xla/train'; raises ValueError.

    Args:
        names: names of collections, or 'all'.
    """
    choices = {'all': collections.NAMES, **{n: (n,) for n in collections.NAMES}}
    chosen = [registry.resolve(name, choices, 'collection') for name in names]
    if not chosen:
        raise ValueError(f'no collection given: choose from {", ".join(choices)}')
    return [
        '/'.join(['npz', *name.split(':'), split])
        for name in dict.fromkeys(itertools.chain(*chosen))
        for split in collections.SPLITS
    ]


def download(
    split: str, data_dir: str, base_url: str = BASE_URL, keep_archive: bool = False
) -> archives.Unpacked | None:
    """Downloads and unpacks one split, unless its files are in the data folder.

    Args:
        split: a folder from `list_splits`, below the data folder; the archive's name
            has '_' for each '/'.
        base_url: the folder of the archives; https, or http on this machine.

    Returns:
        Numbers of the unpacked files; None if the split was complete.

    Raises:
        ValueError: `base_url` is not allowed, or the archive is damaged or another
            one; then it is removed, and nothing is unpacked.
        OSError: no connection, no such file there, the disk is full.
    """
    root = files.expand(data_dir)
    name = split.replace('/', '_')
    prefix = os.path.join(root, 'archives', name)
    target = os.path.join(root, *split.split('/'))
    # The note appears when unpacking is complete; without it files may be missing.
    there = len(glob.glob(os.path.join(glob.escape(target), '*.npz')))
    if there >= _read_json(f'{prefix}.json').get('files', float('inf')):
        return None
    archive = f'{prefix}.tar'
    if not os.path.exists(archive):
        _require_safe_url(base_url)
        fetch(f'{base_url.rstrip("/")}/{name}.tar', archive)
    try:
        counts = archives.unpack(archive, root, split)
    except ValueError:
        if not keep_archive:
            os.unlink(archive)
        raise
    with files.write_atomically(f'{prefix}.json') as out:
        json.dump({'files': counts.written + counts.kept}, out)
    if not keep_archive:
        pathlib.Path(archive).unlink(missing_ok=True)
    return counts


def fetch(url: str, path: str) -> None:
    """Downloads a file, resuming an interrupted earlier call.

    Dropped connections are resumed as long as each one delivers bytes.

    Args:
        url: https, or http on this machine; the server has to tell the length.

    Raises:
        ValueError: the answer is malformed, another process is downloading the file,
            or its checksum is not the server's; then it is removed.
        OSError: no answer, a server error, or no disk space for twice
            the file's size: the file and its unpacked contents.
    """
    # The note says of which version of the file `part` is the beginning.
    part, note = pathlib.Path(f'{path}.part'), f'{path}.part.json'
    os.makedirs(os.path.dirname(path), exist_ok=True)
    refusal = f'{path} is being downloaded by another process'
    with files.hold_lock(f'{path}.lock', refusal), open(part, 'ab') as out:
        while True:
            before = out.tell()
            try:
                _download_rest(url, out, note)
                break
            except urllib.error.HTTPError as error:
                raise OSError(f'{url}: {error}') from None
            # Only an attempt that brought bytes is repeated, so that this ends.
            except _DROPPED as error:
                if out.tell() <= before:
                    reason = getattr(error, 'reason', None) or error
                    raise OSError(f'{url}: {reason}') from None
        out.flush()
        os.fsync(out.fileno())
        # Google's storage sends a checksum with every object; other servers may not.
        expected = _read_json(note).get('md5')
        digest = hashlib.md5(usedforsecurity=False)
        with open(part, 'rb') as stream:
            while expected and (piece := stream.read(_READ_BYTES)):
                digest.update(piece)
        if expected and base64.b64encode(digest.digest()).decode() != expected:
            part.unlink()
            raise ValueError(
                f'{url}: what arrived is damaged (MD5); run the command again'
            )
        os.replace(part, path)
        pathlib.Path(note).unlink(missing_ok=True)


def _download_rest(url: str, out: BinaryIO, note: str) -> None:
    """Appends the missing bytes of a file to `out`.

    Args:
        out: the beginning of the file, opened to append.
        note: path of a JSON file with the version of the file that `out` holds.
    """
    offset, version = out.tell(), _read_json(note)
    if offset and offset == version.get('total'):
        return
    request = urllib.request.Request(url)
    if offset and version.get('validator'):
        request.add_header('Range', f'bytes={offset}-')
        # If the file has changed since, the server sends all of it.
        request.add_header('If-Range', version['validator'])
    opener = urllib.request.build_opener(_SafeRedirects)
    with opener.open(request, timeout=TIMEOUT_S) as response:
        if response.status == http.client.PARTIAL_CONTENT:
            total = int(version.get('total', 0))
            extent = response.headers.get('Content-Range')
            if extent != f'bytes {offset}-{total - 1}/{total}':
                raise ValueError(f'{url}: the server answers with {extent!r}')
        else:
            out.truncate(0)
            out.seek(0)  # for `tell`; writes go to the end in any case
            version = _read_version(url, response.headers)
            with files.write_atomically(note) as stream:
                json.dump(version, stream)
            total = version['total']
        # The rest of the archive, and its files next to it.
        purpose = f'download {url} and unpack it'
        archives.require_room(os.path.dirname(note), 2 * total - out.tell(), purpose)
        title = f'fetching {url.rpartition("/")[2]}'
        with phases.Phase(title, total, 'B', out.tell()) as phase:
            while piece := response.read1(_READ_BYTES):
                out.write(piece)
                phase.update(len(piece))
    if out.tell() < total:
        raise ConnectionError(
            f'the connection ended after {out.tell():,} of {total:,} bytes; run '
            'the command again to go on from there'
        )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses a redirect to an address that is not safe, before it connects there."""

    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        _require_safe_url(args[-1])  # the new address
        return super().redirect_request(*args)


def _read_version(url: str, headers: email.message.Message) -> text.JsonObject:
    """Reads size, validator and checksum of the file from an answer's headers."""
    length = headers.get('Content-Length') or ''
    if not re.fullmatch(r'\d{1,18}', length):
        raise ValueError(f'{url}: the server does not tell the length of the file')
    md5 = _MD5.search(','.join(headers.get_all('x-goog-hash', [])))
    validator = headers.get('ETag') or headers.get('Last-Modified')
    return {'total': int(length), 'validator': validator, 'md5': md5 and md5[1]}


def _require_safe_url(url: str) -> None:
    """Raises ValueError unless an address is https, or http on this machine."""
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == 'http' and parts.hostname in THIS_MACHINE
    if not (parts.hostname and (parts.scheme == 'https' or local)):
        raise ValueError(f'{url!r} is no address: it must begin with https://')


def _read_json(path: str) -> text.JsonObject:
    """Reads a JSON object that `download` has written; {} if it is not there."""
    try:
        note = untrusted.loads(untrusted.read(path))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
