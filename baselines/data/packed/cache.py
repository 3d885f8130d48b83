"""Caches packed folders of source files; never stale, never incomplete.

In the cache folder there are, for one source:

    <key>.lock              held while building; never removed
    .<key>.<listing hash>.* a build in progress, or the remains of a killed one
    <key>.<listing hash>    the finished folder, renamed into place

The hash of the version and the listing (see `Listing`) is the one check: another
folder is built after a file has changed, appeared or vanished.  Processes that have
mapped a replaced folder can still use it.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import fcntl
import glob
import os
import re
import shutil
import sys

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.data.packed import packer

# Per source file its name, size and times.
Listing = list[tuple[str | int, ...]]
Packed = tuple[text.JsonObject, dict[str, np.ndarray]]  # the manifest, the columns


def open_or_build(
    cache_dir: str,
    label: str,
    source: Sequence[str],
    listing: Listing,
    version: int,
    build: Callable[[packer.Writer], text.JsonObject],
) -> Packed:
    """Opens the packed folder of a source, building it if necessary.

    Of two processes that build it at once, the second waits for the first.

    Args:
        cache_dir: the parent of packed folders; made if missing.
        label: human-readable prefix of the folder's name: letters, digits, '-', '_'.
        source: identifies the source: its absolute path, options.
        listing: the source's files as they are now.
        version: the version of the format; another one is not opened.
        build: packs the files and returns entries for the manifest.

    Returns:
        The manifest (the entries that `build` returned, and 'columns') and the
        columns, mapped read-only.

    Raises:
        OSError: the cache folder cannot be written, or the disk is full.
        Whatever `build` raises; then nothing is left behind.
    """
    key = f'{label}-{text.hash_json(list(source))[:16]}'
    final = os.path.join(cache_dir, f'{key}.{text.hash_json([version, listing])[:16]}')
    # Without the lock first: a finished folder may be in a read-only place.
    packed = _open(final)
    if packed:
        return packed
    with _explain_errors(cache_dir, source):
        os.makedirs(cache_dir, exist_ok=True)
        with _lock(os.path.join(cache_dir, f'{key}.lock'), label):
            # The process that held the lock may have built it.
            packed = _open(final)
            if packed:
                return packed
            files.remove_leftovers(cache_dir, re.compile(rf'\.{re.escape(key)}\..*'))
            # An existing folder is damaged, or it would have been opened.
            with files.make_folder_atomically(final, replace=True) as folder:
                with packer.Writer(folder) as writer:
                    writer.finish(build(writer))
            # The source's earlier folders go while the lock is held.
            for path in glob.glob(f'{glob.escape(os.path.join(cache_dir, key))}.*'):
                if path != final and not path.endswith('.lock'):
                    shutil.rmtree(path, ignore_errors=True)
            return packer.open_folder(final)


def _open(folder: str) -> Packed | None:
    """Maps a finished folder; None if it is absent or damaged."""
    try:
        return packer.open_folder(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def _lock(path: str, label: str) -> Iterator[None]:
    """Waits for an exclusive lock and holds it during the block.

    It is released even if the process is killed.  Says on stderr whom it waits for, or
    that the file system has no locks.
    """
    with open(path, 'a') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f'waiting for another process that is packing {label}', file=sys.stderr
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            # Nothing is lost: whoever has packed first wins.
            files.warn_without_locks(path)
        yield


@contextlib.contextmanager
def _explain_errors(cache_dir: str, source: Sequence[str]) -> Iterator[None]:
    """Adds the cache folder and advice to errors, unless they name a source's file."""
    try:
        yield
    except OSError as error:
        place = str(error.filename or cache_dir)
        in_source = any(place.startswith(f'{folder}{os.sep}') for folder in source)
        if error.errno is None or in_source:
            raise
        raise OSError(
            error.errno,
            f'{os.strerror(error.errno)}: the cache cannot be written; make '
            'space there or choose another folder with --cache_dir',
            cache_dir,
        ) from error
