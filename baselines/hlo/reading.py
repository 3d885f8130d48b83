"""Raw files: which message a file holds, and its modules.

read_source('kernels.pb', 'rank')  # tuning data, or an HLO module without candidates
"""

from __future__ import annotations

from collections.abc import Iterator
import dataclasses
import functools
import glob
import hashlib
import os
import re

from google.protobuf import descriptor
from google.protobuf import message
from google.protobuf import message_factory

from baselines.core import extensions
from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.hlo import forms
from baselines.hlo import protos

TILE = forms.TILE
LAYOUT = forms.LAYOUT
KINDS = (TILE, LAYOUT)
_MESSAGES = {TILE: 'TuningData', LAYOUT: 'ModuleTuningData'}

# Characters of a name; file systems allow 255 bytes, and hashes and endings follow.
_MOST_NAME = 100
SAVED_MODEL_FILES = ('saved_model.pb', 'saved_model.pbtxt')
_MAX_BYTES = (1 << 31) - 1  # protobuf's own limit
_MAX_DEPTH = 100  # of nested messages; protobuf's own limit as well
# An instruction takes 700 bytes of memory, an empty one 2 bytes of a file; true
# files take up to 15 bytes for each of theirs.
_MEMORY_PER_BYTE = 40
FREE_MEMORY = 256 << 20


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class RawFile:
    """A raw file."""

    kind: str  # 'tile' (TuningData) or 'layout' (ModuleTuningData)
    # its ModuleTuningData messages; one if the kind is 'layout'
    modules: tuple[message.Message, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """An HLO module and its origin."""

    name: str  # letters, digits and `_`; names of its kernels begin with it
    module: protos.HloModuleProto  # the module, unchanged
    form: str = forms.MODULE  # the form that it was read from, of `forms`
    source: str = ''  # the file or function, for messages


# What a path holds.
Source = Program | RawFile


def find_files(patterns: list[str], command: str = '') -> list[str]:
    """Returns the files that arguments name, absolute, each once.

    Args:
        patterns: files, folders (searched for *.pb) and globs; `~` is expanded.
        command: the command of the laboratory for programs in other forms; '' where
            there is none.

    Raises:
        ValueError: an argument names nothing, or a program for `command`: in Python, a
            part of a file, or a SavedModel.
    """
    paths: list[str] = []
    for pattern in patterns:
        path = files.expand(pattern)
        if command and _is_program(pattern):
            raise ValueError(extensions.refer_to_lab(pattern, f'{command} {pattern}'))
        if os.path.isdir(path):
            inside = os.path.join(glob.escape(path), '**', '*.pb')
            matches = sorted(glob.glob(inside, recursive=True))
            if not matches:
                raise ValueError(f'{path}: has no *.pb files in it; name a file')
        elif os.path.exists(path):
            matches = [path]
        else:
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise ValueError(f'{path}: no such file; check the path')
        paths += matches
    return list(dict.fromkeys(paths))


def _is_program(pattern: str) -> bool:
    """Returns whether an argument names a program that only the laboratory reads."""
    path, _, part = pattern.rpartition(':')
    is_part = bool(part) and os.path.isfile(files.expand(path))
    inside = (os.path.join(files.expand(pattern), name) for name in SAVED_MODEL_FILES)
    is_python = '.py' in (pattern[-3:], path[-3:])
    return is_python or is_part or any(map(os.path.isfile, inside))


def read_bytes(path: str) -> bytes:
    """Reads a file that may hold a program, whole.

    Raises:
        ValueError: it is no regular file, or larger than protobuf allows.
        OSError: it cannot be read.
    """
    return untrusted.read(path, _MAX_BYTES)


def extract_module(data: bytes, form: str) -> message.Message:
    """Returns the HloModuleProto in a message of one of `forms.PROTOS`.

    Raises:
        ValueError: it is damaged, or would take much more memory than its bytes.
    """
    try:
        outline = getattr(protos.outlines(), form).FromString(data)
        if form == forms.SNAPSHOT:
            outline = outline.hlo
        if form != forms.MODULE:
            data = outline.hlo_module.SerializeToString()
        check_memory(data, forms.MODULE)
        return protos.HloModuleProto.FromString(data)
    except message.DecodeError as error:
        raise ValueError(f'the {form} is damaged ({error})') from None


def read_tuning(path: str, kind: str | None = None) -> RawFile:
    """Reads a raw file of tuning data.

    Args:
        kind: 'tile' or 'layout', for the few files whose bytes fit both; None detects
            it.

    Raises:
        ValueError: the file is no tuning data, is cut short, or is of the other kind;
            names the file.
        OSError: it cannot be read.
    """
    data = read_bytes(path)
    with text.locate_errors(path):
        return parse_tuning(data, kind)


def parse_tuning(data: bytes, kind: str | None = None) -> RawFile:
    """Parses the bytes of a raw file as `read_tuning` does; errors name no file."""
    try:
        detected = forms.detect_kind(data)
    except ValueError as error:
        form = forms.find_form(data)
        if form is not None:
            raise ValueError(
                f'{form}, a program without measured configurations; '
                '`tpugraphs lab collect` measures them'
            ) from None
        raise ValueError(
            f'not a TuningData or ModuleTuningData protobuf, or cut short ({error})'
        ) from error
    if kind and detected and kind != detected:
        raise ValueError(
            f'holds a {_MESSAGES[detected]} ({detected} collection), not a '
            f'{_MESSAGES[kind]} ({kind})'
        )
    # A bare module can be either; as a layout file its HLO must make sense.
    decided = kind or detected
    kinds = [decided] if decided else [LAYOUT, TILE]
    for candidate in kinds:
        try:
            check_memory(data, _MESSAGES[candidate])
            parsed = getattr(protos, _MESSAGES[candidate]).FromString(data)
        except message.DecodeError:
            continue
        modules = parsed.modules if candidate == TILE else (parsed,)
        return RawFile(candidate, tuple(modules))
    raise ValueError(
        f'not a whole {" or ".join(_MESSAGES[k] for k in kinds)} protobuf; it is '
        'damaged or cut short'
    )


def check_memory(data: bytes, name: str) -> None:
    """Refuses a message that would take far more memory than bytes.

    Two bytes of a file can be a message, and a message hundreds of bytes of memory:
    counted in outlines, before any is unpacked.

    Args:
        name: its type, such as HloModuleProto.

    Raises:
        message.DecodeError: the bytes are no message of that type.
        ValueError: it would take too much memory.
    """
    actual = getattr(protos, name).DESCRIPTOR
    # An empty message takes two bytes of a file: there are no more than half as many.
    if _find_largest_size(actual) * len(data) // 2 <= FREE_MEMORY:
        return
    # Counting stops as soon as the limit is passed, so that it costs little itself.
    left = FREE_MEMORY + _MEMORY_PER_BYTE * len(data)
    outline = getattr(protos.outlines(), name).FromString(data)
    for size in _list_inner_sizes(actual, outline):
        left -= size
        if left < 0:
            raise ValueError(
                f'so many small messages in {len(data):,} bytes would take more than '
                f'{_MEMORY_PER_BYTE} times that in memory; it is damaged'
            )


def _list_inner_sizes(
    actual: descriptor.Descriptor, outline: message.Message, depth: int = 0
) -> Iterator[int]:
    """Yields the memory in bytes that the messages inside one take, field by field.

    Args:
        outline: the message, as `protos.outlines` has it.
        depth: the number of messages around it; parsing itself goes no deeper than 100.
    """
    inner_types = _find_inner_types(actual)
    for field, value in outline.ListFields():
        if field.number not in inner_types:
            continue
        inner, size, outline_class = inner_types[field.number]
        if field.message_type:
            yield size
            yield from _list_inner_sizes(inner, value, depth + 1)
        else:
            yield len(value) * size
            for content in value if depth < _MAX_DEPTH else ():
                if content:
                    entry = outline_class.FromString(content)
                    yield from _list_inner_sizes(inner, entry, depth + 1)


@functools.cache
def _find_inner_types(
    actual: descriptor.Descriptor,
) -> dict[int, tuple[descriptor.Descriptor, int, type[message.Message]]]:
    """Returns field number -> type, memory and outline class of the messages in it.

    Fields whose messages are small, and maps, are left out.
    """
    pool, inner_types = protos.outline_pool(), {}
    for field in actual.fields:
        inner = field.message_type
        if inner is None or inner.GetOptions().map_entry:
            continue
        if _find_largest_size(inner) > 2 * _MEMORY_PER_BYTE:
            outline = pool.FindMessageTypeByName(inner.full_name)
            outline_class = message_factory.GetMessageClass(outline)
            inner_types[field.number] = inner, _estimate_size(inner), outline_class
    return inner_types


@functools.cache
def _find_largest_size(actual: descriptor.Descriptor) -> int:
    """Returns the memory of a type, or of the largest type inside it, in bytes."""
    types = [actual]
    for message_type in types:  # grows while it is walked
        inner = {field.message_type for field in message_type.fields} - {None, *types}
        types += sorted(inner, key=lambda kind: kind.full_name)
    return max(map(_estimate_size, types))


def _estimate_size(actual: descriptor.Descriptor) -> int:
    """Returns the memory of an empty message, bytes."""
    # As measured, within 20 %: an instruction of 80 fields takes 700 bytes.
    return 64 + 8 * len(actual.fields)


def read_source(path: str, command: str) -> Source:
    """Reads tuning data, or a message with an HLO module.

    Args:
        command: the command of the laboratory for programs in other forms.

    Raises:
        ValueError: it is neither, or is damaged; names the file.
        OSError: it cannot be read.
    """
    data = read_bytes(path)
    with text.locate_errors(path):
        form = forms.detect_form(data)
        if form == forms.TUNING:
            return parse_tuning(data)
        if form not in forms.PROTOS:
            raise ValueError(extensions.refer_to_lab(form, f'{command} {path}'))
        return read_message(
            data, form, os.path.splitext(os.path.basename(path))[0], path
        )


def read_message(data: bytes, form: str, name: str, source: str) -> Program:
    """Reads the module in a message of one of `forms.PROTOS`; raises ValueError."""
    module = extract_module(data, form)
    check_references(module)
    return Program(clean_name(name), module, form, source)


def check_references(module: protos.HloModuleProto) -> None:
    """Checks that references are there; makes a single computation the entry.

    Raises:
        ValueError: one is missing; names it.
    """
    numbers = [computation.id for computation in module.computations]
    if len(numbers) == 1:
        [module.entry_computation_id] = numbers
    if module.entry_computation_id not in numbers:
        raise ValueError(
            f'none of its {len(numbers):,} computations is the entry computation'
        )
    # As XLA stores them, callees come before their callers.
    callees: set[int] = set()
    for computation in module.computations:
        inside = {instruction.id for instruction in computation.instructions}
        for instruction in computation.instructions:
            name = text.printable(instruction.name)
            if not inside.issuperset(instruction.operand_ids):
                raise ValueError(f'an operand of %{name} is not there')
            if not callees.issuperset(instruction.called_computation_ids):
                raise ValueError(f'%{name} calls a computation that is not there')
        if computation.root_id not in inside:
            raise ValueError(f'computation {text.quoted(computation.name)} has no root')
        callees.add(computation.id)


def clean_name(name: str) -> str:
    """Returns a name with `_` instead of all but letters and digits.

    A long name is cut, and ends in a hash: files and records are named by it.
    """
    clean = re.sub(r'[^A-Za-z0-9_]', '_', name).strip('_') or 'program'
    if len(clean) <= _MOST_NAME:
        return clean
    digest = hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]
    return f'{clean[: _MOST_NAME - 1 - len(digest)]}_{digest}'
