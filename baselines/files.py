"""Paths as users write them, and files that appear whole or not at all."""

import contextlib
import os
import tempfile
from typing import IO, Iterator


def expand(path: str) -> str:
    """Returns `path` absolute, with `~` expanded and no trailing slash."""
    return os.path.abspath(os.path.expanduser(path))


@contextlib.contextmanager
def write_atomically(path: str, mode: str = 'w', **kwargs) -> Iterator[IO]:
    """Opens a file beside `path` that takes its name when the block ends well.

    The data is on the disk before the name is.  When the block raises (also on
    Ctrl-C), the file is removed and whatever stood at `path` stays.  A device
    or a pipe, such as /dev/stdout, is written to directly and never replaced.

    Args:
        path: where the file goes; missing folders are made.
        mode: 'w' or 'wb'.
        **kwargs: passed on to `open` (`newline`, `encoding`, ...).

    Raises:
        OSError: the folder cannot be written, or the disk is full; names `path`.
    """
    path = expand(path)
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    prefix = f'.{name}.'
    with _naming(path, os.path.join(folder, prefix)):
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, mode, **kwargs) as stream:  # a folder is refused
                yield stream
        else:
            with _beside(path, folder, prefix, mode, kwargs) as stream:
                yield stream
            _sync_folder(folder)


@contextlib.contextmanager
def _beside(path, folder, prefix, mode, kwargs) -> Iterator[IO]:
    handle, beside = tempfile.mkstemp(prefix=prefix, dir=folder)
    try:
        with open(handle, mode, **kwargs) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


@contextlib.contextmanager
def _naming(path: str, beside: str) -> Iterator[None]:
    """Makes errors name `path`; one of a write, on a full disk, names nothing."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if error.errno is None or name and not str(name).startswith(beside):
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _umask() -> int:
    # mkstemp makes private files; ours get what the user's umask allows.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: str) -> None:
    """Makes a rename durable; a no-op where folders cannot be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
