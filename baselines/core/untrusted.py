"""Opens and parses files that anybody may have written.

All readers of such files use these functions:

* `open_regular` opens a regular file, and nothing that could block or never end;
* `read` returns its bytes, up to a limit;
* `loads` parses JSON strictly;
* `open_archive` opens a zip archive and reports damage in one line.

`check_fields` checks JSON with the rules of its reader.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
import contextlib
import errno
import json
import os
import stat
import struct
import tokenize
from typing import Any, BinaryIO
import zipfile
import zlib

from baselines.core import text

_MOST_NUMBER = 1 << 53  # where JSON's readers begin to round
_MOST_DIGITS = 308  # as many as any float has; older Pythons take minutes for more

_END_BYTES = 22  # at the end of a zip archive; they hold the number of its members

# Errors of reading JSON, and of taking out fields that may be missing.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)

# Errors of unpacking a damaged archive, and of the arrays in it.
_ARCHIVE_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    tokenize.TokenError,
)

# A test of values, and a noun for the values that pass it: 'a number of columns'.
Rule = tuple[Callable[[object], bool], str]


class FieldError(ValueError):
    """Raised for a bad field of an archive that is otherwise intact."""


def open_regular(path: str, max_bytes: int | None = None) -> BinaryIO:
    """Opens an untrusted file to read its bytes.

    Reading a pipe, a device or a socket could block, or never end.

    Args:
        path: the file, or a link to it.

    Raises:
        ValueError: it is no regular file, a link to nothing, or too large.
        OSError: it cannot be read.
    """
    try:
        # Neither waits for the other end of a pipe nor takes over a terminal.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise ValueError(f'{path}: not a regular file') from None
        if os.path.islink(path) and error.errno in (errno.ENOENT, errno.ELOOP):
            raise ValueError(f'{path}: a link to a file that is not there') from None
        raise
    try:
        # Of what is open: by now the name may be another file's.
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f'{path}: not a regular file')
        if max_bytes is not None and status.st_size > max_bytes:
            raise ValueError(
                f'{path}: {status.st_size:,} bytes are more than the {max_bytes:,} '
                'that such a file may have'
            )
        return os.fdopen(handle, 'rb')
    except BaseException:
        os.close(handle)
        raise


def read(path: str, max_bytes: int | None = None) -> bytes:
    """Returns the bytes of an untrusted file; see `open_regular`.

    Raises:
        ValueError: it is no regular file, a link to nothing, or too large.
        OSError: it cannot be read.
    """
    with open_regular(path, max_bytes) as stream:
        # It may have grown since it was opened.  A buffer of `max_bytes` would be
        # reserved whole.
        return stream.read(os.fstat(stream.fileno()).st_size)


def loads(content: bytes | str, finite: bool = True) -> Any:
    """Parses JSON.

    Args:
        finite: whether to refuse infinity and NaN, which are not JSON, but which
            Python writes.

    Raises:
        ValueError: it is not JSON, has a key that occurs twice, or is nested too
            deeply.
    """
    if isinstance(content, bytes):
        content = content.decode(json.detect_encoding(content))  # as in json.loads
    decoder = _DECODER if finite else _LENIENT
    try:
        return decoder.decode(content)
    except RecursionError:
        raise ValueError('nested too deeply') from None


def check_size(content: bytes, size: int, containers: int, values: int) -> None:
    """Raises ValueError for JSON that holds more; before it is parsed.

    Args:
        size: the most bytes.
        containers: the most lists and objects.
        values: the most values, which take 8 to 250 bytes of memory each.
    """
    if len(content) > size:
        raise ValueError(f'it unpacks to more than {size} bytes')
    # Brackets and commas in strings count, too, so these are upper bounds.
    there = content.count(b'[') + content.count(b'{')
    if there > containers or content.count(b',') > values:
        raise ValueError('it holds more values than any run has')


@contextlib.contextmanager
def open_archive(path: str, max_bytes: int) -> Iterator[zipfile.ZipFile]:
    """Opens an npz file, a zip archive; names it in errors raised inside the block.

    Raises:
        ValueError: it is no regular file, too large or damaged, or has a member
            twice.
        OSError: it cannot be read.
    """
    with open_regular(path, max_bytes) as stream, text.locate_errors(path):
        try:
            with zipfile.ZipFile(stream) as archive:
                names = collections.Counter(archive.namelist())
                # Readers differ in which of two members of one name they take.
                for name, times in names.most_common(1):
                    if times > 1:
                        raise FieldError(f'holds {text.quoted(name)} twice')
                # A damaged entry of the directory may take the next one for a comment.
                stream.seek(-_END_BYTES - len(archive.comment), os.SEEK_END)
                count = int.from_bytes(stream.read(_END_BYTES)[10:12], 'little')
                if count not in (len(archive.namelist()), 0xFFFF):  # zip64: not known
                    raise ValueError(f'it must have {count} members')
                yield archive
        except FieldError:
            raise
        except _ARCHIVE_DAMAGE as error:
            # A failing disk names no file.  EINVAL is a seek to nowhere: damage.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise OSError(error.errno, error.strerror, path) from error
            raise ValueError(
                f'not a complete npz file ({error}); it is damaged, or its download '
                'broke off'
            ) from error


def _make_object(pairs: list[tuple[str, Any]]) -> text.JsonObject:
    """Makes an object from pairs; raises ValueError for a duplicate key."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError('a key occurs twice')
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is no number')


def _parse_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f'a number of {len(digits):,} digits')
    return int(digits)


# Made once, as a command may read hundreds of run files.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_make_object, parse_constant=_refuse_constant
)
_LENIENT = json.JSONDecoder(object_pairs_hook=_make_object, parse_int=_parse_int)


def check_fields(fields: object, rules: Mapping[str, Rule]) -> None:
    """Raises ValueError unless `fields` is an object that satisfies all rules."""
    if not isinstance(fields, dict):
        raise ValueError('is not an object')
    for name, (holds, kind) in rules.items():
        if name not in fields or not holds(fields[name]):
            raise ValueError(f'{name} is not {kind}')


def is_int(value: object, least: int = 0) -> bool:
    """Returns whether a value is an integer >= `least` that JSON's readers agree on."""
    return type(value) is int and least <= value < _MOST_NUMBER  # bool is no int here
