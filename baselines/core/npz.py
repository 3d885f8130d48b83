"""Reads arrays from untrusted npz files, checked against a schema.

NumPy allocates what a header claims and names neither file nor key when something is
wrong.  Here every size is compared with the zip directory, and the directory with a
limit, before memory is taken; what a file may hold is a table of `Field`s; and each
mistake is one line that names the file and the key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import io
import math
import struct
from typing import IO, NamedTuple
import zipfile
import zlib

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted

BLOCK_BYTES = 1 << 20  # of rows that are read at a time: they stay in the cache
_KIND_NAMES = {'f': 'floats', 'i': 'integers', 'u': 'integers'}
_HEADER_LENGTHS = {(1, 0): 2, (2, 0): 4}  # npy version -> bytes of the header's length
# Before a member of a zip file: the lengths of its name and of extra fields.
_MEMBER_HEADER = struct.Struct('<26xHH')
_SMALL = 1 << 20  # bytes of a member
Shape = tuple[str | int, ...]  # see `Field`
Lengths = dict[str, tuple[int, str]]  # named dimension -> (length, key that has it)


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """The arrays that a file may hold under one key."""

    # the numpy dtype kinds that are accepted, of any width; 'iu' means integers
    kinds: str
    # an entry per axis: a number is its length; the same letter anywhere in a schema
    # stands for the same length. None: any shape.
    shape: Shape | None
    dtype: type | None = None  # of the array that is returned; None keeps the file's
    low: int | None = None  # smallest value allowed, if there are limits
    # largest value allowed; a letter means below that length
    high: int | str | None = None
    why: str = ''  # why values outside [low, high] are wrong, for the message
    optional: bool = False  # whether the key may be absent


class StreamedField(NamedTuple):
    """An array that is written block by block."""

    key: str  # its name in the file
    shape: tuple[int, ...]  # of all of it
    dtype: np.dtype  # of all of it
    blocks: Iterable[np.ndarray]  # its rows in order, [rows, *shape[1:]] each


def read_arrays(
    path: str,
    schema: Mapping[str, Field],
    max_bytes: int,
    others: Sequence[str] | None = (),
    max_file_bytes: int | None = None,
) -> dict[str, np.ndarray]:
    """Reads and checks the arrays of `schema`.

    Args:
        max_bytes: limit of these arrays' sizes, unpacked, added up.
        others: other keys that the file may hold; None means any.
        max_file_bytes: limit of the file's size; None means `max_bytes`.

    Returns:
        Key to array, C-contiguous, in the field's dtype and perhaps read-only.
        Absent optional keys are left out.

    Raises:
        ValueError: the file is damaged, too large, or not what `schema` says.
        OSError: the file cannot be read at all.
    """
    with untrusted.open_archive(path, max_file_bytes or max_bytes) as archive:
        names = archive.namelist()
        arrays = _read_members(archive, schema, max_bytes)
    # A missing key is reported before an unexpected one, as it says more.
    checked = check_arrays(path, arrays, schema)
    if others is None:
        return checked
    expected = sorted({*schema, *others})
    known = {f'{key}.npy' for key in expected}
    for name in names:
        if name not in known:
            raise untrusted.FieldError(
                f'{path}: holds {text.quoted(name)}, which such a file does not have '
                f'(known: {", ".join(expected)})'
            )
    return checked


def read_all(path: str, max_bytes: int) -> dict[str, np.ndarray]:
    """Reads all arrays of an npz file, without a schema.

    Args:
        max_bytes: limit of its size, and of the arrays' sizes added up.

    Raises:
        ValueError: it is damaged or too large, or holds Python objects.
        OSError: it cannot be read.
    """
    with untrusted.open_archive(path, max_bytes) as archive:
        keys = [name[: -len('.npy')] for name in archive.namelist()]
        return _read_members(archive, keys, max_bytes)


def read_blocks(
    path: str, key: str, field: Field, lengths: Lengths, max_bytes: int
) -> Iterator[np.ndarray]:
    """Reads one array block by block, for arrays larger than memory.

    Args:
        field: its kinds and shape, at least one row of at least one byte.
        lengths: the lengths of the named dimensions in that shape, and the keys that
            have them.
        max_bytes: limit of the file's size, and of the array's.

    Yields:
        All rows in order, [rows, *shape[1:]], about a megabyte each, read-only.

    Raises:
        ValueError: the file is damaged, too large, or has no such array; now or
            while blocks are read.
        OSError: the file cannot be read.
    """
    with untrusted.open_archive(path, max_bytes) as archive:
        if f'{key}.npy' not in archive.namelist():
            raise _describe_missing(key, archive.namelist())
        info = archive.getinfo(f'{key}.npy')
        _check_total_size([info], max_bytes)
        with archive.open(info) as member:
            shape, fortran, dtype = _read_header(key, member, info.file_size)
            _check_kind(key, dtype, field)
            _check_shape(key, shape, field.shape, lengths)
            if fortran:
                raise untrusted.FieldError(
                    f'{key} is in Fortran order and cannot be read row by row; save '
                    'it again with numpy.ascontiguousarray'
                )
            # Whole rows of about a megabyte; one row may be larger.
            row_bytes = math.prod(shape[1:]) * dtype.itemsize
            most = max(1, BLOCK_BYTES // max(1, row_bytes))  # 0 of an empty array
            for start in range(0, shape[0], most):
                rows = min(most, shape[0] - start)
                content = _read_exactly(member, rows * row_bytes)
                yield np.frombuffer(content, dtype).reshape(rows, *shape[1:])


def check_arrays(
    path: str, arrays: Mapping[str, np.ndarray], schema: Mapping[str, Field]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a schema, checked and converted as in `read_arrays`.

    `path` is the file that messages name.
    """
    checked: dict[str, np.ndarray] = {}
    lengths: Lengths = {}
    with text.locate_errors(path):
        for key, field in schema.items():
            if key in arrays:
                array = arrays[key]
                _check_kind(key, array.dtype, field)
                _check_shape(key, array.shape, field.shape, lengths)
                _check_range(key, array, field, lengths)
                checked[key] = _convert_array(key, array, field.dtype)
            elif not field.optional:
                raise _describe_missing(key, arrays)
    return checked


def write_arrays(
    path: str,
    arrays: Mapping[str, np.ndarray],
    streamed: StreamedField | None = None,
    save: Callable[..., None] = np.savez_compressed,
) -> None:
    """Atomically writes an npz file.

    Args:
        streamed: one more array, which comes in blocks.
        save: NumPy's function that writes the others, compressed or not.
    """
    # Packed in memory: on a full disk, a zip file prints a second error when it is
    # garbage-collected.
    content = io.BytesIO()
    save(content, **arrays)
    if streamed:
        with zipfile.ZipFile(content, 'a', zipfile.ZIP_DEFLATED) as archive:
            # Its size, not known yet, may be above 4 GiB.
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


def _read_members(
    archive: zipfile.ZipFile, keys: Iterable[str], max_bytes: int
) -> dict[str, np.ndarray]:
    """Reads the arrays of `keys` that are present, if they are not too large."""
    infos = {info.filename: info for info in archive.infolist()}
    members = {key: infos[f'{key}.npy'] for key in keys if f'{key}.npy' in infos}
    _check_total_size(members.values(), max_bytes)
    arrays = {}
    for key, info in members.items():
        content = _unpack_member(archive, info)
        if content is None:
            with archive.open(info) as member:
                content = _read_exactly(member, info.file_size)
        start = io.BytesIO(content)
        shape, fortran, dtype = _read_header(key, start, info.file_size)
        flat = np.frombuffer(content[start.tell() :], dtype)
        arrays[key] = flat.reshape(shape, order='F' if fortran else 'C')
    return arrays


def _unpack_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    """Unpacks a small member as `zipfile` does, which takes four times as long.

    Packing the 5,491 sample kernels for training takes 3.2 s of processor time with it,
    and 4.5 s without.

    Returns:
        None for a member that is large, unusual or damaged, which is left to
        `zipfile` and its errors.
    """
    sizes = info.file_size, info.compress_size
    # Flags are for encryption, for sizes after the content, and for names in UTF-8.
    is_plain = info.compress_type == zipfile.ZIP_DEFLATED and not info.flag_bits
    if archive.fp is None or not is_plain or not 0 < min(sizes) <= max(sizes) <= _SMALL:
        return None
    try:
        archive.fp.seek(info.header_offset)
        lengths = _MEMBER_HEADER.unpack(archive.fp.read(_MEMBER_HEADER.size))
        # Those of the member's own header, which may differ from the directory's.
        archive.fp.seek(sum(lengths), io.SEEK_CUR)
        packed = archive.fp.read(info.compress_size)
        # Negative: without a header of zlib's.  It unpacks no more than was claimed.
        content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size)
    except (struct.error, zlib.error):
        return None
    is_intact = (len(content), zlib.crc32(content)) == (info.file_size, info.CRC)
    return content if is_intact else None


def _check_total_size(infos: Iterable[zipfile.ZipInfo], max_bytes: int) -> None:
    """Refuses members that unpack to more than `max_bytes`."""
    total = sum(info.file_size for info in infos)
    if total > max_bytes:
        raise untrusted.FieldError(
            f'its arrays claim {total:,} bytes, more than the {max_bytes:,} that '
            'such a file may have'
        )


def _read_header(
    key: str, member: IO[bytes], size: int
) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Reads shape, Fortran order and dtype of a member of `size` bytes.

    Raises ValueError for pickled objects, or if the array would not fill the member.
    """
    version = np.lib.format.read_magic(member)
    if version not in _HEADER_LENGTHS:
        raise ValueError(f'the npy version must be (1, 0) or (2, 0), not {version}')
    length = member.read(_HEADER_LENGTHS[version])
    text_of_header = member.read(int.from_bytes(length, 'little'))
    shape, fortran, dtype = _parse_header(version[0], length + text_of_header)
    # Unpickling could run any code.
    if dtype.hasobject:
        raise untrusted.FieldError(
            f'{key} holds pickled Python objects, which are never loaded; save it as '
            'a plain array'
        )
    # NumPy would allocate what the header claims, before it finds less data.
    held = size - member.tell()
    if math.prod(shape) * dtype.itemsize != held:
        raise untrusted.FieldError(
            f'{key} claims shape {shape} of {dtype}, but holds {held:,} bytes'
        )
    return shape, fortran, dtype


@functools.lru_cache(maxsize=1 << 10)
def _parse_header(
    version: int, header: bytes
) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Parses a header; thousands of files have the same few, and NumPy takes 0.1 ms."""
    read = getattr(np.lib.format, f'read_array_header_{version}_0')
    try:
        shape, fortran, dtype = read(io.BytesIO(header))
    except Exception as error:  # of Python's parser, which NumPy lets through
        raise ValueError(f'an npy header is damaged: {text.one_line(error)}') from None
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f'an npy header has shape {shape}: lengths must be >= 0')
    return shape, fortran, dtype


def _read_exactly(member: IO[bytes], size: int) -> bytes:
    """Reads `size` bytes; zipfile compares the checksum at the end of a member."""
    content = member.read(size)
    if len(content) != size:
        raise EOFError(f'{size:,} bytes must follow, and {len(content):,} do')
    return content


def _describe_missing(key: str, keys: Iterable[str]) -> untrusted.FieldError:
    """Returns the error for a file that lacks a key."""
    names = ', '.join(sorted(name.removesuffix('.npy') for name in keys))
    return untrusted.FieldError(
        f'the array {key} is missing (there: {names or "none"})'
    )


def _check_kind(key: str, dtype: np.dtype, field: Field) -> None:
    """Raises FieldError for a dtype that a field does not accept."""
    if dtype.kind not in field.kinds:
        raise untrusted.FieldError(
            f'{key} holds {dtype}, and must hold {_KIND_NAMES[field.kinds[0]]}'
        )


def _check_shape(
    key: str, shape: tuple[int, ...], expected: Shape | None, lengths: Lengths
) -> None:
    """Compares a shape with a field's; binds named dimensions to (length, key)."""
    if expected is None:
        return
    if len(shape) != len(expected):
        axes = ', '.join(map(str, expected))
        raise untrusted.FieldError(f'{key} has shape {shape}, must be [{axes}]')
    for axis, (length, name) in enumerate(zip(shape, expected)):
        if isinstance(name, int):
            allowed, owner = name, ''
        else:
            allowed, owner = lengths.setdefault(name, (length, key))
        if length != allowed:
            like = f' as {owner} has' if owner else ''
            raise untrusted.FieldError(
                f'{key} has shape {shape}, but axis {axis} must have length '
                f'{allowed}{like}'
            )


def _check_range(key: str, array: np.ndarray, field: Field, lengths: Lengths) -> None:
    """Compares values with a field's limits, before any narrowing."""
    low, high = field.low, field.high
    if low is None or high is None or not array.size:
        return
    if isinstance(high, str):
        high = lengths[high][0] - 1
    for value in (int(array.min()), int(array.max())):
        if not low <= value <= high:
            row = int(np.argwhere(array == value)[0][0]) if array.ndim else 0
            raise untrusted.FieldError(
                f'{key} has {value} in row {row}, must be from {low} to {high}'
                f'{field.why and ": " + field.why}'
            )


def _convert_array(key: str, array: np.ndarray, dtype: type | None) -> np.ndarray:
    """Returns the array in `dtype`; its floats are finite there."""
    if dtype is not None and dtype != array.dtype:
        with np.errstate(over='ignore'):  # what overflows is infinite
            array = array.astype(dtype, order='C', copy=False)
    if array.dtype.kind == 'f' and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        place = ', '.join(f'{axis} {at}' for axis, at in zip(('row', 'column'), bad[0]))
        raise untrusted.FieldError(
            f'{key} has {text.count(len(bad), "NaN or infinite value")}, the first in '
            f'{place}; all must be finite'
        )
    return array
