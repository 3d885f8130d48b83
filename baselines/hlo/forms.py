"""Detects the form of a program, or the kind of tuning data, from its bytes.

if detect_form(data) in PROTOS:
    module = reading.extract_module(data, detect_form(data))
"""

import codecs
import contextlib
import re

from google.protobuf import message

from baselines.hlo import protos

TILE = 'tile'
LAYOUT = 'layout'

TUNING = 'tuning data'  # a TuningData or ModuleTuningData
MODULE = 'HloModuleProto'
DUMP = 'HloProto'
SNAPSHOT = 'HloSnapshot'
HLO_TEXT = 'HLO text'
MLIR_TEXT = 'MLIR text'
MLIR_BYTECODE = 'MLIR bytecode'

PROTOS = (MODULE, DUMP, SNAPSHOT)
ACCEPTED = (
    'HloModuleProto, HloProto, HloSnapshot, TuningData and ModuleTuningData, HLO text, '
    'and StableHLO or MHLO as MLIR text or bytecode'
)

_BYTECODE = b'ML\xefR'
# Other files that are easily taken for programs, by how they begin.
_OTHERS = {
    b'PK\x03\x04': 'a zip archive such as .npz',
    b'\x1f\x8b': 'compressed by gzip: unpack it first',
    b'\x89PNG': 'a picture',
    b'\x7fELF': 'machine code',
}
_COMMENT = re.compile(r'\s*(//[^\n]*(\n|$)|/\*.*?\*/)', re.DOTALL)
_TEXTS = {
    # A module, an operation in quotes or one that defines a symbol, an alias of an
    # attribute or a type, or resources.  Lines of it look like computations of HLO.
    MLIR_TEXT: re.compile(
        r'\s*((builtin\.)?module(\s*([@{]|$)|\s+attributes\b)|"\w+\.[\w.]+"\s*\('
        r'|(func|[a-z]\w*\.[a-z]\w*)(\s+[a-z]+){0,2}\s+@|[#!]\w+\s*=|\{-#)'
    ),
    # The second form is a computation, by its first lines.
    HLO_TEXT: re.compile(
        r'\s*((HloModule|ENTRY)\b|%?[\w.-]+ [^{\n]*\{\n\s*(ROOT )?%?[\w.-]+ = )'
    ),
}
_CONTROL = re.compile(r'[\x00-\x08\x0e-\x1f\x7f]')
_SHOWN = 40  # characters quoted of text in an unknown form


def detect_form(data: bytes) -> str:
    """Detects the form of a program; as `find_form`, but raises where it is unknown.

    Raises:
        ValueError: the bytes are in no form; says what they seem, and what is accepted.
    """
    form = find_form(data)
    if form is not None:
        return form
    try:
        detect_kind(data)
        return TUNING
    except ValueError as error:
        shown = _name_other(data) or f'no such protobuf, or cut short ({error})'
        raise ValueError(f'it is {shown}; accepted are {ACCEPTED}') from None


def find_form(data: bytes) -> str | None:
    """Detects the form of a program: TUNING, one of PROTOS, HLO_TEXT, ...; or None."""
    if data.startswith(_BYTECODE):
        return MLIR_BYTECODE
    text = _decode_text(data)
    if text is None:
        return _detect_message_form(data)
    place = 0
    while comment := _COMMENT.match(text, place):
        place = comment.end()
    return next((f for f, start in _TEXTS.items() if start.match(text, place)), None)


def _name_other(data: bytes) -> str:
    """Names the format of bytes that are no program: 'a picture'; '' if unknown."""
    if not data:
        return 'empty'
    for beginning, name in _OTHERS.items():
        if data.startswith(beginning):
            return name
    first = (_decode_text(data) or '').strip().partition('\n')[0]
    return first and f'text that begins with {first[:_SHOWN]!r}'


def _decode_text(data: bytes) -> str | None:
    """Decodes bytes of UTF-8 text; None where they are not."""
    try:
        text = codecs.decode(data, 'utf-8-sig')
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def _detect_message_form(data: bytes) -> str | None:
    """Detects the form of a message with an HLO module in it; None without one.

    The module of a ModuleTuningData and that of an HloProto are both field 1, and so
    are a TuningData's modules and the HloProto of an HloSnapshot.  A fingerprint or
    runs mark tuning data.
    """
    outlines = protos.outlines()
    alone = _parse(outlines.HloModuleProto, data)
    if alone is not None and _is_module(alone):
        return MODULE
    tuning = _parse(outlines.ModuleTuningData, data)
    if tuning is not None and _is_module(tuning.module):
        return TUNING if _is_tuned(tuning) else DUMP
    snapshot = _parse(outlines.HloSnapshot, data)
    if snapshot is not None and _is_module(snapshot.hlo.hlo_module):
        # The same bytes, taken for a TuningData: outlines of its modules.
        modules = outlines.TuningData.FromString(data).modules
        parsed = (_parse(outlines.ModuleTuningData, module) for module in modules)
        entries = [entry for entry in parsed if entry is not None]
        return TUNING if len(entries) > 1 or any(map(_is_tuned, entries)) else SNAPSHOT
    return None


def _is_tuned(tuning: message.Message) -> bool:
    """Returns whether an outline of a ModuleTuningData has a fingerprint or runs."""
    if tuning.fingerprint:
        return True
    runs = [_parse(protos.ConfigProfile, run) for run in tuning.runs]
    return any(run is not None and not _has_unknown_fields(run) for run in runs)


def _is_module(outline: message.Message) -> bool:
    """Returns whether an outline of an HloModuleProto has an instruction."""
    outlines = protos.outlines()
    for content in outline.computations:
        computation = _parse(outlines.HloComputationProto, content)
        if computation is None:
            return False
        for inside in computation.instructions:
            instruction = _parse(outlines.HloInstructionProto, inside)
            return instruction is not None and bool(instruction.opcode)
    return False


def _parse(kind: type[message.Message], data: bytes) -> message.Message | None:
    """Parses a message of class `kind`; None where the bytes are no such message."""
    try:
        return kind.FromString(data)
    except message.DecodeError:
        return None


def detect_kind(data: bytes) -> str | None:
    """Detects the kind of tuning data: a TuningData or a ModuleTuningData.

    Both messages begin with field 1, a sub-message.  A ModuleTuningData goes on
    with a fingerprint and runs.  If there is nothing but field 1, its first entry
    that tells decides: a fingerprint marks it as a ModuleTuningData, so that the
    file is a TuningData; the name of an entry computation, or fields above 4, mark
    it as an HloModuleProto.

    Returns:
        'tile', 'layout', or None if the fields fit both.

    Raises:
        ValueError: the fields fit neither message.
    """
    if not data:
        raise ValueError('it is empty')
    outlines = protos.outlines()
    try:
        file = outlines.TuningData.FromString(data)
        if not _has_unknown_fields(file):
            return next(filter(None, map(_detect_entry_kind, file.modules)), None)
        program = outlines.ModuleTuningData.FromString(data)
        program.ClearField('module')  # a newer XLA may have put more in there
        if not _has_unknown_fields(program):
            return LAYOUT
    except message.DecodeError as error:
        raise ValueError(str(error)) from None
    raise ValueError('it has fields that are in neither')


def _detect_entry_kind(data: bytes) -> str | None:
    """Tells the kind of a file from an entry of its field 1, if that shows it."""
    outlines = protos.outlines()
    with contextlib.suppress(message.DecodeError):
        if outlines.ModuleTuningData.FromString(data).fingerprint:
            return TILE
    with contextlib.suppress(message.DecodeError):
        module = outlines.HloModuleProto.FromString(data)
        if any(field.number in (2, *range(5, 100)) for field, _ in module.ListFields()):
            return LAYOUT
    return None


def _has_unknown_fields(parsed: message.Message) -> bool:
    """Drops fields of a message that its type lacks; tells whether it had any."""
    size = parsed.ByteSize()
    parsed.DiscardUnknownFields()
    return parsed.ByteSize() != size
