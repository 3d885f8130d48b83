"""Arrays out of npz files that are not trusted: the schema is data.

NumPy allocates what a header claims and names neither file nor key when something is
wrong.  Here every size is compared with the zip directory, and the directory with a
limit, before memory is taken; what a file may hold is a table of `Field`s; and each
mistake is one line that names the file and the key.
"""

import contextlib
import dataclasses
import errno
import io
import math
import os
import struct
import tokenize
import typing
from typing import (
    IO,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)
import zipfile
import zlib

import numpy as np

from baselines import files

_DAMAGE = (
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
# Smaller files are read at once, which is faster than seeking in them.
_AT_ONCE = 64 << 20
_KIND_NAMES = {'f': 'floats', 'i': 'integers', 'u': 'integers', 'U': 'text'}
_Shape = Optional[Tuple[Union[str, int], ...]]  # see `Field`
_Lengths = Dict[str, Tuple[int, str]]  # of a letter, and the key that has it


@dataclasses.dataclass(frozen=True)
class Field:
    """What a file may hold under one key.

    Attributes:
        kinds: the numpy dtype kinds that are accepted, of any width; 'iu' means
            integers.
        shape: an entry per axis: a number is its length; the same letter
            anywhere in a schema stands for the same length.  None: any shape.
        dtype: what `read_arrays` turns the array into; None leaves it.
        low: smallest value allowed, if there are limits.
        high: largest value allowed; a letter means below that length.
        why: what a value outside [low, high] would mean, for the message.
        optional: whether the key may be absent.
    """

    kinds: str
    shape: _Shape
    dtype: Optional[type] = None
    low: Optional[int] = None
    high: Union[int, str, None] = None
    why: str = ''
    optional: bool = False


class StreamedField(NamedTuple):
    """An array that is written block by block.

    Attributes:
        key: its name in the file.
        shape: of all of it.
        dtype: of all of it.
        blocks: its rows in order, [rows, *shape[1:]] each.
    """

    key: str
    shape: Tuple[int, ...]
    dtype: np.dtype
    blocks: Iterable[np.ndarray]


class FieldError(ValueError):
    """A mistake that already names file and key."""


def read_arrays(
    path: str,
    schema: Mapping[str, Field],
    max_bytes: int,
    max_file_bytes: Optional[int] = None,
    others: Optional[typing.Collection[str]] = (),
) -> Dict[str, np.ndarray]:
    """Reads and checks the arrays of `schema`.

    Args:
        path: an npz file.
        schema: key to field.
        max_bytes: the most that these arrays, unpacked, may take.
        max_file_bytes: the most that the file may take; None means as much.
        others: keys that the file may hold besides; None means any.

    Returns:
        Key to array, C-contiguous, in the field's dtype and perhaps read-only.
        Absent optional keys are left out.

    Raises:
        ValueError: the file is damaged, too large, or not what `schema` says.
        OSError: the file cannot be read at all.
    """
    with explain_damage(path):
        with open_archive(path, max_file_bytes or max_bytes) as archive:
            names = archive.namelist()
            arrays = _read_members(path, archive, schema, max_bytes)
    # What is missing says more than what is there besides.
    checked = check_arrays(path, arrays, schema)
    known = sorted({*schema, *(others or ())})
    for name in names if others is not None else ():
        if name[: -len('.npy')] not in known or not name.endswith('.npy'):
            raise FieldError(
                f'{path}: holds {name!r}, which such a file does not have (known: '
                f'{", ".join(known)})'
            )
    return checked


@contextlib.contextmanager
def open_archive(path: str, max_bytes: int) -> Iterator[zipfile.ZipFile]:
    """Opens an npz file of so many bytes at most; to be used in `explain_damage`.

    Raises:
        ValueError: no regular file, or too large a one.
        Whatever `explain_damage` explains.
    """
    try:
        opened = files.open_regular(path, max_bytes)
    except ValueError as error:
        raise FieldError(str(error)) from None
    with opened as stream:
        size = os.fstat(stream.fileno()).st_size
        content = io.BytesIO(stream.read()) if size <= _AT_ONCE else stream
        with zipfile.ZipFile(content) as archive:
            names = archive.namelist()
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise FieldError(f'{path}: holds {twice[0]!r} twice')
            yield archive


def read_all(path: str, max_bytes: int) -> Dict[str, np.ndarray]:
    """Reads all arrays of a file of ours, of whatever shape and type.

    Args:
        path: the file.
        max_bytes: the most that it may have, packed or not.

    Raises:
        ValueError: it is damaged or too large, or holds Python objects.
        OSError: it cannot be read.
    """
    arrays = {}
    with explain_damage(path), open_archive(path, max_bytes) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max_bytes:
            raise FieldError(
                f'{path}: unpacks to {unpacked:,} bytes, which is too many'
            )
        for name in archive.namelist():
            with archive.open(name) as member:
                try:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                except MemoryError as error:  # that is what a header asks for
                    raise FieldError(f'{path}: {name}: {error}') from None
                arrays[name[: -len('.npy')]] = array
    return arrays


@contextlib.contextmanager
def explain_damage(path: str) -> Iterator[None]:
    """Makes errors of unpacking a file say which file, and what may have been.

    Raises:
        ValueError: the file is damaged; a `FieldError` goes through as it is.
        OSError: it cannot be read.
    """
    try:
        yield
    except FieldError:
        raise
    except _DAMAGE as error:
        # A failing disk names no file.  EINVAL is a seek to nowhere: damage.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise OSError(error.errno, error.strerror, path) from error
        raise ValueError(
            f'{path}: not a complete npz file ({error}); it is damaged, or its '
            'download broke off'
        ) from error


def check_arrays(
    path: str, arrays: Mapping[str, np.ndarray], schema: Mapping[str, Field]
) -> Dict[str, np.ndarray]:
    """Checks arrays against a schema, and drops those that it does not have.

    `path` is where they come from or go to, for messages.  See `read_arrays`.
    """
    checked: Dict[str, np.ndarray] = {}
    lengths: _Lengths = {}
    for key, field in schema.items():
        if key not in arrays:
            if field.optional:
                continue
            raise missing(path, key, arrays)
        array = arrays[key]
        if array.dtype.kind not in field.kinds:
            raise FieldError(
                f'{path}: {key} holds {array.dtype}, expected '
                f'{_KIND_NAMES[field.kinds[0]]}'
            )
        _check_shape(path, key, array.shape, field.shape, lengths)
        _check_range(path, key, array, field, lengths)
        checked[key] = _converted(path, key, array, field.dtype)
    return checked


def missing(path: str, key: str, there: Iterable[str]) -> FieldError:
    """The error of a file without an array; `there` are those that it has."""
    names = ', '.join(sorted(there)) or 'nothing'
    return FieldError(f'{path}: the array {key} is missing (there: {names})')


def write_arrays(
    path: str,
    arrays: Mapping[str, np.ndarray],
    streamed: Optional[StreamedField] = None,
) -> None:
    """Writes a compressed npz file, whole or not at all.

    Args:
        path: the file.
        arrays: by key.
        streamed: one more array, which comes in blocks.
    """
    # Packed in memory: on a full disk a zip file complains a second time, on
    # stderr, when it is collected.
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    if streamed:
        with zipfile.ZipFile(content, 'a', zipfile.ZIP_DEFLATED) as archive:
            with archive.open(f'{streamed.key}.npy', 'w', force_zip64=True) as member:
                header = {
                    'descr': np.lib.format.dtype_to_descr(streamed.dtype),
                    'fortran_order': False,
                    'shape': streamed.shape,
                }
                np.lib.format.write_array_header_1_0(member, header)
                for block in streamed.blocks:
                    member.write(np.ascontiguousarray(block, streamed.dtype).data)
    with files.write_atomically(path, 'wb') as stream:
        stream.write(content.getbuffer())


def read_header(
    path: str, key: str, stream: IO[bytes], size: int
) -> Tuple[Tuple[int, ...], bool, np.dtype]:
    """Reads the header of one npy member and leaves `stream` at its data.

    Args:
        path: the npz file, for messages.
        key: the array's name.
        stream: at the start of the member.
        size: how many bytes the member has with its header.

    Returns:
        Shape, whether the data is in Fortran order, dtype.

    Raises:
        ValueError: no header, pickled objects, or a shape of another size.
    """
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f'npy version {version} is not known')
    read = getattr(np.lib.format, f'read_array_header_{version[0]}_0')
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise FieldError(
            f'{path}: {key} holds pickled Python objects, which are never '
            'loaded; save it as a plain array'
        )
    held = size - stream.tell()
    if math.prod(shape) * dtype.itemsize != held:
        raise FieldError(
            f'{path}: {key} claims shape {shape} of {dtype}, but holds {held:,} bytes'
        )
    return shape, fortran, dtype


def _read_members(
    path: str, archive: zipfile.ZipFile, schema: Mapping[str, Field], max_bytes: int
) -> Dict[str, np.ndarray]:
    """Reads the members of `schema` that are there, after adding up sizes."""
    wanted = {f'{key}.npy': key for key in schema}
    members = {
        wanted[info.filename]: info
        for info in archive.infolist()
        if info.filename in wanted
    }
    total = sum(info.file_size for info in members.values())
    if total > max_bytes:
        raise FieldError(
            f'{path}: its arrays claim {total:,} bytes, more than the '
            f'{max_bytes:,} that such a file may have'
        )
    arrays = {}
    for key, info in members.items():
        with archive.open(info) as member:
            shape, fortran, dtype = read_header(path, key, member, info.file_size)
            # A size bounds what is unpacked, whatever the compressed data holds;
            # the end of the member also checks its CRC.
            content = member.read(info.file_size - member.tell())
        flat = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
        arrays[key] = flat.reshape(shape, order='F' if fortran else 'C')
    return arrays


def _check_shape(
    path: str, key: str, shape: Tuple[int, ...], wanted: _Shape, lengths: _Lengths
) -> None:
    """Compares a shape with a field's; binds letters to (length, key)."""
    if wanted is None:
        return
    if len(shape) != len(wanted):
        text = ', '.join(str(axis) for axis in wanted)
        raise FieldError(
            f'{path}: {key} has shape {shape}, expected {len(wanted)} axes [{text}]'
        )
    for axis, (length, name) in enumerate(zip(shape, wanted)):
        if isinstance(name, int):
            expected, owner = name, None
        else:
            expected, owner = lengths.setdefault(name, (length, key))
        if length != expected:
            source = f' as {owner} has' if owner else ''
            raise FieldError(
                f'{path}: {key} has shape {shape}, but axis {axis} should have '
                f'{expected} entries{source}'
            )


def _check_range(
    path: str, key: str, array: np.ndarray, field: Field, lengths: _Lengths
) -> None:
    """Compares values with a field's limits, before any narrowing."""
    low, high = field.low, field.high
    if low is None or high is None or not array.size:
        return
    if isinstance(high, str):
        high = lengths[high][0] - 1
    for value in (int(array.min()), int(array.max())):
        if not low <= value <= high:
            row = int(np.argwhere(array == value)[0][0]) if array.ndim else 0
            raise FieldError(
                f'{path}: {key} has {value} in row {row}, allowed is {low} to {high}'
                f'{field.why and ": " + field.why}'
            )


def _converted(
    path: str, key: str, array: np.ndarray, dtype: Optional[type]
) -> np.ndarray:
    """Returns the array in `dtype`; its floats are finite there."""
    if dtype is not None:
        with np.errstate(over='ignore'):
            array = array.astype(dtype, order='C', copy=False)
    if array.dtype.kind == 'U' and array.size:
        # Beyond Unicode, or half of a pair: Python has no such text.
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder + 'u4')
        if ((codes > 0x10FFFF) | (codes >> 11 == 0xD800 >> 11)).any():
            raise FieldError(f'{path}: {key} holds characters that do not exist')
    if array.dtype.kind == 'f':
        finite = np.isfinite(array)
        if not finite.all():
            bad = np.argwhere(~finite)
            place = ', '.join(
                f'{axis} {at}' for axis, at in zip(('row', 'column'), bad[0])
            )
            raise FieldError(
                f'{path}: {key} has {len(bad)} NaN or infinite values, the '
                f'first in {place}'
            )
    return array
