"""Formats and expands paths; writes files and folders that appear complete or not."""

from collections.abc import Iterator, Sequence
import contextlib
import fcntl
import os
import re
from re import Pattern
import secrets
import shutil
import socket
import stat
import tempfile
import time
from typing import IO, Any

from baselines.core import text

_BEGINNING = 100  # characters that tell of which kind a file is


def expand(path: str) -> str:
    """Returns `path` absolute, with `~` expanded and no trailing slash."""
    return os.path.abspath(os.path.expanduser(path))


def format_path(path: str) -> str:
    """Returns an absolute path for messages: `~` for the home folder, and escaped."""
    path, home = text.printable(path, len(path)), os.path.expanduser('~')
    return f'~{path[len(home) :]}' if path.startswith(home + os.sep) else path


def check_writable(folder: str, flag: str = 'out_dir') -> None:
    """Makes a folder and writes to it, to find out before hours of work.

    Args:
        flag: name of the flag that chose it, for the message.

    Raises:
        ValueError: the folder cannot be made or written.
    """
    try:
        os.makedirs(expand(folder), exist_ok=True)
        with tempfile.TemporaryFile(dir=expand(folder)) as probe:
            # A full disk takes a name, but no block.
            probe.write(b'x' * 4096)
            probe.flush()
    except OSError as error:
        raise ValueError(
            f'--{flag} {folder} cannot be written: {text.add_advice(error)}'
        ) from None


def check_new_folder(folder: str) -> None:
    """Raises ValueError unless a folder is new, or empty."""
    path = expand(folder)
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise ValueError(f'{path} is there already: name a new folder')


def check_file_writable(
    path: str, flag: str, beginnings: Sequence[str], inputs: Sequence[str] = ()
) -> None:
    """Checks that the file that a flag names may be written, before long work.

    Removes the temporary files of killed processes next to it.

    Args:
        beginnings: texts with which such files begin; a file that begins otherwise is
            not replaced.
        inputs: paths of files that the command reads.

    Raises:
        ValueError: the path is a folder, an input, or a file of another kind; or its
            folder cannot be written.
        OSError: the file cannot be read.
    """
    # Two names may be links to one file.
    real = os.path.realpath(expand(path))
    if os.path.isdir(real):
        raise ValueError(f'--{flag} {path} is a folder: name a file in it')
    if real in [os.path.realpath(expand(name)) for name in inputs]:
        raise ValueError(f'--{flag} {path} would replace its own input')
    if os.path.isfile(real):
        with open(real, encoding='latin-1') as stream:  # decodes any bytes
            content = stream.read(_BEGINNING)
        if content and not content.startswith(tuple(beginnings)):
            raise ValueError(
                f'--{flag} {path} is a file of another kind, and stays: name a new one'
            )
    elif os.path.exists(real):  # a device
        return
    folder, name = os.path.split(real)
    check_writable(folder, flag)
    remove_leftovers(folder, re.compile(rf'\.{re.escape(name)}\.[0-9a-f]{{8}}'))


def remove_leftovers(folder: str, names: Pattern) -> None:
    """Removes files and folders that killed processes left in `folder`.

    Args:
        folder: the folder to clean; it may be missing.
        names: a pattern of names that only our files and folders have.  Files that a
            living process holds with `mark_in_use` or `hold_lock` stay.
    """
    with contextlib.suppress(OSError):
        for name in filter(names.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError), _open_descriptor(path) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISDIR(os.fstat(handle).st_mode):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.unlink(path)


@contextlib.contextmanager
def hold_lock(path: str, refusal: str) -> Iterator[None]:
    """Holds a lock file, released at the end of the block or of the process.

    Raises:
        ValueError: another process holds it; the message is `refusal` and the process.
        OSError: it cannot be written.
    """
    for _ in range(20):  # 0.4 s in all
        # Not through a link: the file that it names would be overwritten below.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode(errors='replace')
            os.close(handle)
            time.sleep(0.02)  # `remove_leftovers` holds it for a moment, too
            continue
        except OSError:
            warn_without_locks(path)
            break
        # Its holder may have removed the file between opening and locking it.
        if os.fstat(handle).st_nlink:
            break
        os.close(handle)
    else:
        raise ValueError(f'{refusal}: {holder}')
    try:
        # The process that is refused reads this.
        os.ftruncate(handle, 0)
        os.write(handle, f'process {os.getpid()} on {socket.gethostname()}'.encode())
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(handle)


def find_holder(path: str) -> str:
    """Returns the holder of a file of `hold_lock`: 'process 7 on host'; '' for none."""
    with contextlib.suppress(OSError), _open_descriptor(path) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(handle, 200).decode(errors='replace')
    return ''


def warn_without_locks(path: str) -> None:
    """Warns that the file system of a path has no locks."""
    text.note(
        f'{format_path(path)}: this file system has no locks; let no other process '
        'write there meanwhile'
    )


def mark_in_use(handle: int) -> bool:
    """Marks an open file or folder as in use, until it is closed.

    Returns:
        Whether it still exists: `remove_leftovers` may have been faster.
    """
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return os.fstat(handle).st_nlink > 0


@contextlib.contextmanager
def _open_descriptor(path: str) -> Iterator[int]:
    """Opens a file or folder for a block; yields its descriptor."""
    # Neither waits for the other end of a pipe nor follows a link.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def write_atomically(path: str, mode: str = 'w', **options: Any) -> Iterator[IO]:
    """Opens a temporary file that is renamed to `path` when the block succeeds.

    The data reaches the disk before the name does.  When the block raises (also on
    Ctrl-C), the temporary file is removed and `path` stays as it was.  The new file
    has the mode of the old one; where `path` is a link, its target is replaced.  A
    device or a pipe, such as /dev/stdout, is appended to and never replaced.

    Args:
        path: path of the file; missing folders are made.
        **options: passed on to `open` (`newline`, `encoding`, ...).

    Raises:
        OSError: the folder cannot be written, or the disk is full; names `path`.
    """
    path = expand(path)
    is_device = path.startswith(('/dev/', '/proc/'))
    if not is_device:
        path = os.path.realpath(path)  # a link stays, and its target is replaced
        is_device = os.path.exists(path) and not os.path.isfile(path)
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    # Named before it exists: Ctrl-C may come at any moment.
    temporary = os.path.join(folder, f'.{name}.{secrets.token_hex(4)}')
    try:
        if is_device:
            # `open` refuses a folder.  Appends, as standard output may be a file.
            with open(path, mode.replace('w', 'a'), **options) as stream:
                yield stream
            return
        with _make_held(temporary, mode.replace('w', 'x'), options) as stream:
            if os.path.exists(path):
                os.fchmod(stream.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            yield stream
            # On the disk before it has its name: no crash leaves half a file.
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(temporary, path)  # before the file is closed and not held
    except BaseException as error:  # Ctrl-C, too
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        # The user knows `path`, not the temporary file.
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename in (None, temporary):
                raise OSError(error.errno, error.strerror, path) from error
        raise
    # Makes the rename durable, where folders can be synced.
    with contextlib.suppress(OSError), _open_descriptor(folder) as handle:
        os.fsync(handle)


def _make_held(path: str, mode: str, options: dict[str, Any]) -> IO:
    """Makes a file that `remove_leftovers` leaves alone, unless it came before."""
    while True:
        stream = open(path, mode, **options)
        if mark_in_use(stream.fileno()):
            return stream
        stream.close()


@contextlib.contextmanager
def make_folder_atomically(path: str, replace: bool = False) -> Iterator[str]:
    """Makes a temporary folder that is renamed to `path` when the block succeeds.

    When the block raises (also on Ctrl-C), the temporary folder is removed and `path`
    stays as it was.  Where several processes make the same folder, the first one's
    stays.  Temporary folders of killed processes are removed.

    Args:
        path: absolute path of the folder; missing ones above it are made.
        replace: whether to replace an existing folder.

    Yields:
        The folder to be filled.

    Raises:
        OSError: it cannot be made.
    """
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _open_descriptor(parent) as handle:
            # Or another process could take the new folder for a leftover, before it
            # is held.
            mark_in_use(handle)
            remove_leftovers(parent, re.compile(rf'\.{re.escape(name)}\.\w{{8}}'))
            temporary = tempfile.TemporaryDirectory(prefix=f'.{name}.', dir=parent)
            mark_in_use(
                stack.enter_context(_open_descriptor(stack.enter_context(temporary)))
            )
        building = os.path.join(temporary.name, 'new')
        os.mkdir(building)
        yield building
        if replace:
            with contextlib.suppress(FileNotFoundError):
                # Removed with the temporary folder.
                os.rename(path, os.path.join(temporary.name, 'old'))
        try:
            os.rename(building, path)
        except OSError:  # another process was first
            if not os.path.isdir(path):
                raise


@contextlib.contextmanager
def make_plain_path(folder: str) -> Iterator[str]:
    """Yields a path to a folder for libraries that expand patterns such as `*`.

    Where the folder's own path has such characters, it is a temporary link.
    """
    if not re.search(r'[][*?\\]', folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        link = os.path.join(temporary, 'link')
        os.symlink(os.path.abspath(folder), link)
        yield link
