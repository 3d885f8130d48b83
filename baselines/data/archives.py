"""Unpacks an untrusted tar archive of .npz files.

All members are checked before the first file is written.  File names are built here:
a plain stem in the folder that the archive is for.
"""

import os
import re
import shutil
import tarfile
from typing import IO, BinaryIO, NamedTuple, cast

from baselines.core import files
from baselines.core import phases
from baselines.core import text
from baselines.core import untrusted

# The largest published archive holds 5,709 files.
MAX_FILES = 100_000
# Not hidden, no control characters, and short enough to append a suffix.
_NAME = re.compile(r'[^.\x00-\x1f\x7f/\\][^\x00-\x1f\x7f/\\]{0,230}\.npz')
_MAX_READ = 1 << 20
# What tarfile raises on malicious headers, including its own errors.
_DAMAGE = (tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError)


class Unpacked(NamedTuple):
    """The result of `unpack`: numbers of files."""

    written: int  # new files
    kept: int  # files that were there already and stayed
    ignored: int  # files in the right folder that are not .npz


def unpack(path: str, root: str, folder: str) -> Unpacked:
    """Writes the archive's .npz files into `root`/`folder`.

    Each file appears whole or not at all; one that exists is kept.

    Args:
        path: an uncompressed tar archive.
        root: e.g. the absolute path of ~/data/tpugraphs.
        folder: the folder in `root` to which all files belong, as the archive names
            it: 'npz/tile/xla/train'.

    Raises:
        ValueError: not a tar archive, a truncated one, or one with anything
            but files in `folder`: a path elsewhere, a link, a device, a size
            beyond the archive's end, a name twice.  Nothing is written then.
        OSError: the disk is full, or another write error.
    """
    with untrusted.open_regular(path) as archive:
        try:
            # 'r:' is a plain tar: a compressed one could unpack to any size.
            tar = tarfile.open(
                fileobj=cast(IO[bytes], _BoundedReads(archive)), mode='r:'
            )
            members, ignored = _check_members(tar, archive, folder)
        except _DAMAGE as error:
            raise ValueError(
                f'archive {path} cannot be used: {str(error) or type(error).__name__}'
            ) from None
        target = os.path.join(root, *folder.split('/'))
        missing = {
            name: info
            for name, info in members.items()
            if not os.path.lexists(os.path.join(target, name))
        }
        size = sum(info.size for info in missing.values())
        require_room(root, size, f'unpack {path}')
        title = f'unpacking {folder}'
        for name, info in phases.each(missing.items(), title, len(missing), 'file'):
            with files.write_atomically(os.path.join(target, name), 'wb') as out:
                content = cast(IO[bytes], tar.extractfile(info))  # of files, never None
                shutil.copyfileobj(content, out, _MAX_READ)
    return Unpacked(len(missing), len(members) - len(missing), ignored)


class _BoundedReads:
    """Limits the reads of tarfile, whose headers may claim gigabytes."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        """Reads up to `size` bytes; raises ValueError for more than a megabyte."""
        if not 0 <= size <= _MAX_READ:
            raise ValueError(f'a header claims {size:,} bytes')
        return self._stream.read(size)


def require_room(folder: str, needed: int, purpose: str) -> None:
    """Raises OSError if the disk of `folder` has fewer than `needed` bytes free."""
    folder = files.expand(folder)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f'not enough space in {folder} to {purpose}: {needed:,} bytes are needed, '
            f'{free:,} are free'
        )


def _check_members(
    tar: tarfile.TarFile, archive: BinaryIO, folder: str
) -> tuple[dict[str, tarfile.TarInfo], int]:
    """Returns the .npz files by name, and the number of other files."""
    length = os.fstat(archive.fileno()).st_size
    members: dict[str, tarfile.TarInfo] = {}
    for info in tar:
        if info.isdir() and not info.size:
            continue
        above, _, name = info.name.removeprefix('./').rpartition('/')
        # A sparse file of a few bytes may claim any size.
        if above != folder or not info.isreg() or info.issparse():
            raise ValueError(
                f'{text.quoted(info.name)} is no ordinary file in {folder}'
            )
        if not 0 <= info.size <= length - info.offset_data:
            raise ValueError(
                f'{text.quoted(info.name)} claims {info.size:,} bytes, but the archive '
                f'ends before, at {length:,}'
            )
        if name in members:
            raise ValueError(f'{text.quoted(info.name)} is in it twice')
        if len(members) >= MAX_FILES:
            raise ValueError(f'it holds more than {MAX_FILES:,} files')
        members[name] = info
    archive.seek(tar.offset)
    # Without the end mark, files are missing from here on.
    if archive.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise ValueError('it is truncated or damaged')
    npz = {name: info for name, info in members.items() if _NAME.fullmatch(name)}
    if not npz:
        raise ValueError('it holds no .npz file')
    return npz, len(members) - len(npz)
