"""Raw files: which message a file holds, and its modules."""

import contextlib
import dataclasses
import functools
import glob
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from google.protobuf import message

from baselines import files
from baselines.hlo import protos

TILE = 'tile'
LAYOUT = 'layout'
KINDS = (TILE, LAYOUT)
_MESSAGES = {TILE: 'TuningData', LAYOUT: 'ModuleTuningData'}

_MAX_BYTES = (1 << 31) - 1  # protobuf's own limit
_MAX_DEPTH = 100  # of messages within messages, protobuf's own as well
# An instruction takes 700 bytes of memory, an empty one 2 bytes of a file; true
# files take up to 15 bytes for each of theirs.
_MEMORY_PER_BYTE = 40
_FREE_MEMORY = 256 << 20

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
# Fields of a ModuleTuningData, with wire types, that a TuningData has not.
_OF_LAYOUTS = ((2, _VARINT), (3, _DELIMITED), (4, _VARINT), (4, _DELIMITED))


@dataclasses.dataclass(frozen=True, eq=False)
class RawFile:
    """A raw file.

    Attributes:
        path: where it was read from.
        kind: 'tile' (TuningData) or 'layout' (ModuleTuningData).
        modules: its ModuleTuningData messages; one if the kind is 'layout'.
    """

    path: str
    kind: str
    modules: Tuple[Any, ...]


def find_files(patterns: List[str]) -> List[str]:
    """Returns the files that arguments name, absolute, each once.

    Args:
        patterns: files, folders (searched for *.pb) and globs; `~` is expanded.

    Raises:
        ValueError: an argument names nothing.
    """
    found = []
    for pattern in patterns:
        path = files.expand(pattern)
        if os.path.isdir(path):
            inside = os.path.join(glob.escape(path), '**', '*.pb')
            matches = sorted(glob.glob(inside, recursive=True))
            if not matches:
                raise ValueError(f'{path}: has no *.pb files in it')
        elif os.path.exists(path):
            matches = [path]
        else:
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise ValueError(f'{path}: no such file')
        found += matches
    return list(dict.fromkeys(found))


def read_tuning(path: str, kind: Optional[str] = None) -> RawFile:
    """Reads a raw file of tuning data.

    Args:
        path: the file.
        kind: 'tile' or 'layout', for a file that does not show it (nearly all
            do); None detects it.

    Raises:
        ValueError: the file holds neither message, is cut short, or is not of
            the given kind; names the file.
        OSError: it cannot be read.
    """
    with files.open_regular(path, _MAX_BYTES) as stream:
        data = stream.read()
    try:
        detected = detect_kind(data)
    except ValueError as error:
        raise ValueError(
            f'{path}: not a TuningData or ModuleTuningData protobuf, or cut '
            f'short ({error})'
        ) from error
    if kind and detected and kind != detected:
        raise ValueError(
            f'{path}: holds a {_MESSAGES[detected]} ({detected} collection), '
            f'not a {_MESSAGES[kind]} ({kind})'
        )
    # A bare module can be either; as a layout file its HLO must make sense.
    known = kind or detected
    kinds = [known] if known else [LAYOUT, TILE]
    for candidate in kinds:
        message_class = getattr(protos.protos(), _MESSAGES[candidate])
        try:
            if not _fits_memory(data, message_class.DESCRIPTOR):
                raise ValueError(
                    f'{path}: so many small messages in {len(data):,} bytes would '
                    f'take more than {_MEMORY_PER_BYTE} times that in memory; it '
                    'is damaged'
                )
            parsed = message_class.FromString(data)
        except (message.DecodeError, _WireError):
            continue
        modules = parsed.modules if candidate == TILE else (parsed,)
        return RawFile(path, candidate, tuple(modules))
    raise ValueError(
        f'{path}: not a whole {" or ".join(_MESSAGES[k] for k in kinds)} '
        'protobuf; it is damaged or cut short'
    )


def read_modules(path: str, kind: str) -> RawFile:
    """Reads modules whose runs do not matter: tuning data, or one HloModuleProto.

    The result is of the given kind.

    Raises:
        ValueError: the file holds none of these messages; names it.
        OSError: it cannot be read.
    """
    try:
        return dataclasses.replace(read_tuning(path), kind=kind)
    except ValueError as not_tuning:
        with files.open_regular(path, _MAX_BYTES) as stream:
            data = stream.read()
        messages = protos.protos()
        try:
            fits = _fits_memory(data, messages.HloModuleProto.DESCRIPTOR)
            module = messages.HloModuleProto.FromString(data) if fits else None
        except (message.DecodeError, _WireError):
            module = None
        if module is None or not module.computations:
            raise ValueError(f'{not_tuning}; nor is it an HloModuleProto') from None
        return RawFile(path, kind, (messages.ModuleTuningData(module=module),))


def detect_kind(data: bytes) -> Optional[str]:
    """Tells from the first fields which message some bytes hold.

    Both messages begin with field 1, a sub-message.  A ModuleTuningData goes on
    with a fingerprint and runs.  If there is nothing but field 1, what is in it
    decides: a fingerprint (an integer in field 2) marks it as a
    ModuleTuningData, so that the file is a TuningData; a string in field 2, or
    fields above 4, mark it as an HloModuleProto.

    Returns:
        'tile', 'layout', or None if the fields fit both.

    Raises:
        ValueError: the fields fit neither message.
    """
    if not data:
        raise ValueError('it is empty')
    inside = None
    for number, wire_type, start, stop in _fields(data, 0, len(data)):
        if number == 1 and wire_type == _DELIMITED:
            inside = inside or _kind_inside(data, start, stop)
        elif (number, wire_type) in _OF_LAYOUTS:
            return LAYOUT
        else:
            raise ValueError(f'field {number} of wire type {wire_type} is in neither')
    return inside


def _kind_inside(data: bytes, start: int, stop: int) -> Optional[str]:
    """Tells what a file is from the first fields of its field 1."""
    with contextlib.suppress(ValueError):
        for number, wire_type, _, _ in _fields(data, start, stop):
            if (number, wire_type) in ((2, _VARINT), (4, _VARINT)):
                return TILE
            if number > 4 or (number, wire_type) == (2, _DELIMITED):
                return LAYOUT
    return None


def _fits_memory(data: bytes, descriptor: Any) -> bool:
    """Whether parsing a message takes no more memory than files of that size need.

    Raises:
        _WireError: they are no message.
    """
    if _worst_memory(descriptor) * len(data) // 2 <= _FREE_MEMORY:
        return True
    memory = 0
    # Depth first; parsing itself goes no deeper than this.
    down = [(_fields(data, 0, len(data)), _heavy_fields(descriptor))]
    while down and len(down) <= _MAX_DEPTH:
        fields, heavy = down[-1]
        for number, wire_type, start, stop in fields:
            if number not in heavy or wire_type != _DELIMITED:
                continue
            inner = heavy[number]
            memory += _memory_of(inner)
            # So far: what is wrong is seen long before the end.
            if memory > _FREE_MEMORY + _MEMORY_PER_BYTE * stop:
                return False
            if start < stop and _heavy_fields(inner):
                down.append((_fields(data, start, stop), _heavy_fields(inner)))
                break
        else:
            down.pop()
    return True


@functools.lru_cache(maxsize=None)
def _memory_of(descriptor: Any) -> int:
    # As measured, within 20 %: an instruction of 80 fields takes 700 bytes.
    return 64 + 8 * len(descriptor.fields)


@functools.lru_cache(maxsize=None)
def _worst_memory(descriptor: Any) -> int:
    """What the largest message takes that can be within one of `descriptor`."""
    seen, todo = set(), [descriptor]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += [f.message_type for f in one.fields if f.message_type]
    return max(map(_memory_of, seen))


@functools.lru_cache(maxsize=None)
def _heavy_fields(descriptor: Any) -> Dict[int, Any]:
    """Number -> type of the fields that may hold too much for their bytes.

    Two bytes of a file can be a message.
    """
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type
        and _worst_memory(field.message_type) > 2 * _MEMORY_PER_BYTE
    }


class _WireError(ValueError):
    """Bytes are no protobuf."""


def _fields(data: bytes, start: int, stop: int) -> Iterator[Tuple[int, int, int, int]]:
    """Yields (number, wire type, start, stop of the content) of each field."""
    while start < stop:
        # Nearly all numbers have one byte; a call for each would take longest.
        tag, at = data[start], start + 1
        if tag > 127:
            tag, at = _varint(data, start, stop)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _DELIMITED and at < stop:
            length, at = data[at], at + 1
            if length > 127:
                length, at = _varint(data, at - 1, stop)
            end = at + length
        elif wire_type == _VARINT:
            end = _varint(data, at, stop)[1]
        elif wire_type in (_FIXED64, _FIXED32):
            end = at + (8 if wire_type == _FIXED64 else 4)
        else:
            raise _WireError(f'wire type {wire_type} at byte {start:,}')
        if not number or end > stop:
            raise _WireError(f'field {number} at byte {start:,} has no end')
        yield number, wire_type, at, end
        start = end


def _varint(data: bytes, start: int, stop: int) -> Tuple[int, int]:
    """Returns a base-128 number and where it ends."""
    value = 0
    for position in range(start, min(start + 10, stop)):
        byte = data[position]
        value |= (byte & 127) << (7 * (position - start))
        if byte < 128:
            return value, position + 1
    raise _WireError(f'the number at byte {start:,} has no end')
