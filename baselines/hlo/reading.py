"""Raw files: which message a file holds, and its modules."""

import dataclasses
import glob
import os
import stat
from typing import Any, Iterator, List, Optional, Tuple

from google.protobuf import message

from baselines import files
from baselines.hlo import protos

TILE = 'tile'
LAYOUT = 'layout'
KINDS = (TILE, LAYOUT)
_MESSAGES = {TILE: 'TuningData', LAYOUT: 'ModuleTuningData'}

_MAX_BYTES = (1 << 31) - 1  # protobuf's own limit
# An instruction takes some 600 bytes of memory, an empty one 2 bytes of file.
MAX_INSTRUCTIONS = 10_000_000

# The fields that lead from a file to its instructions.
_TO_INSTRUCTIONS = {TILE: (1, 1, 3, 2), LAYOUT: (1, 3, 2)}

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


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
    data = _read_bytes(path)
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
        _check_size(path, data, candidate)
        try:
            return RawFile(path, candidate, _parse(data, candidate))
        except message.DecodeError:
            continue
    raise ValueError(
        f'{path}: not a whole {" or ".join(_MESSAGES[k] for k in kinds)} '
        'protobuf; it is damaged or cut short'
    )


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
        elif (number, wire_type) in (
            (2, _VARINT),
            (3, _DELIMITED),
            (4, _VARINT),
            (4, _DELIMITED),
        ):
            return LAYOUT
        else:
            raise ValueError(f'field {number} of wire type {wire_type} is in neither')
    return inside


def _kind_inside(data: bytes, start: int, stop: int) -> Optional[str]:
    """Tells what a file is from the first fields of its field 1."""
    try:
        for number, wire_type, _, _ in _fields(data, start, stop):
            if (number, wire_type) in ((2, _VARINT), (4, _VARINT)):
                return TILE
            if number > 4 or (number, wire_type) == (2, _DELIMITED):
                return LAYOUT
    except ValueError:
        pass
    return None


def _check_size(path: str, data: bytes, kind: str) -> None:
    """Raises if a file unpacks to far more than it should."""
    if len(data) <= 2 * MAX_INSTRUCTIONS:
        return
    regions: Iterator[Tuple[int, int]] = iter([(0, len(data))])
    for number in _TO_INSTRUCTIONS[kind]:
        regions = _inside(data, regions, number)
    for count, _ in enumerate(regions, start=1):
        if count > MAX_INSTRUCTIONS:
            raise ValueError(
                f'{path}: has more than {MAX_INSTRUCTIONS:,} instructions; it '
                'is damaged, or should be split'
            )


def _inside(
    data: bytes, regions: Iterator[Tuple[int, int]], wanted: int
) -> Iterator[Tuple[int, int]]:
    """Yields where the contents of a field are, in each of some messages."""
    for start, stop in regions:
        try:
            for number, wire_type, at, end in _fields(data, start, stop):
                if number == wanted and wire_type == _DELIMITED:
                    yield at, end
        except ValueError:
            continue  # parsing will say so


def _fields(data: bytes, start: int, stop: int) -> Iterator[Tuple[int, int, int, int]]:
    """Yields (number, wire type, start, stop of the content) of each field."""
    while start < stop:
        tag, at = _varint(data, start, stop)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            _, end = _varint(data, at, stop)
        elif wire_type == _DELIMITED:
            length, at = _varint(data, at, stop)
            end = at + length
        elif wire_type in (_FIXED64, _FIXED32):
            end = at + (8 if wire_type == _FIXED64 else 4)
        else:
            raise ValueError(f'wire type {wire_type} at byte {start:,}')
        if not number or end > stop:
            raise ValueError(f'field {number} at byte {start:,} has no end')
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
    raise ValueError(f'the number at byte {start:,} has no end')


def _read_bytes(path: str) -> bytes:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f'{path}: not a file')
    if found.st_size > _MAX_BYTES:
        raise ValueError(
            f'{path}: {found.st_size:,} bytes; a protobuf has at most {_MAX_BYTES:,}'
        )
    with open(path, 'rb') as stream:
        return stream.read()


def _parse(data: bytes, kind: str) -> Tuple[Any, ...]:
    classes = protos.protos()
    if kind == TILE:
        return tuple(classes.TuningData.FromString(data).modules)
    return (classes.ModuleTuningData.FromString(data),)
