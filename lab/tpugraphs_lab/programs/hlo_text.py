"""Parses HLO text of any printer: rewrites what XLA's parser refuses.

Repairs never touch quoted text, and keep the lines, which XLA's errors count.
"""

import bisect
import math
import re

import numpy as np

from tpugraphs_lab.programs import elided
from tpugraphs_lab.programs import xla

_HEADER = re.compile(r'(?:\s|//[^\n]*\n|/\*.*?\*/)*HloModule\b', re.DOTALL)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_ELIDED = re.compile(r'\bconstant\(\{\.\.\.\}\)')
# PyTorch/XLA and Neuron print the name of a value that no parser takes.
_API_VERSION = re.compile(r'\bAPI_VERSION_UNSPECIFIED\b')
# Groups of devices that jaxlib 0.4.30 does not read: [groups,size]<=[dims]T(order).
_IOTA = re.compile(r'\breplica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?')
_MOST_DEVICES = 1 << 20
_UNKNOWN = re.compile(
    r'was parsing (\d+):(\d+): error: unexpected attribute:? "(\w+)"', re.IGNORECASE
)
_OPCODE = re.compile(r'\s([a-z][\w-]*)\(')
# Attributes that are dropped at most, one for each time that XLA parses the text.
_MOST_ATTRIBUTES = 50
# Tables of source files that newer printers write before the computations.
_TABLES = re.compile(
    r'^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*',
    re.MULTILINE,
)


def parse(content: str, title: str = 'module') -> tuple[list[str], bytes]:
    """Parses HLO text.

    Args:
        title: the name of the module where the text has no header.

    Returns:
        Notes for the user, and the serialised HloModuleProto.

    Raises:
        Exception: XLA's, which has the line and the column.
    """
    content = repaired(content)
    if not _HEADER.match(content):
        content = f'HloModule {title} {content}'
    dropped: list[str] = []
    while True:
        try:
            module = xla.parse_text(content)
            break
        except Exception as error:
            unknown = _UNKNOWN.search(str(error))
            if not unknown or len(dropped) == _MOST_ATTRIBUTES:
                raise
            line, column, name = unknown.groups()
            starts = [0, *(m.end() for m in re.finditer('\n', content))]
            place = starts[int(line) - 1] + int(column) - 1
            shorter = without_attribute(content, name, place)
            dropped.append(name)
            if shorter == content:
                raise
            content = shorter
    if not dropped:
        return [], module
    names = ', '.join(dict.fromkeys(dropped))
    return [f'dropped, since this XLA does not know them: {names}'], module


def repaired(content: str) -> str:
    """Returns HLO text that XLA's parser takes."""
    content = _TABLES.sub(lambda table: '\n' * table[0].count('\n'), content)
    if not any(p.search(content) for p in (_API_VERSION, _ELIDED, _IOTA)):
        return content  # to split a large text takes a second

    def repair(part: str) -> str:
        part = _API_VERSION.sub('API_VERSION_ORIGINAL', part)
        part = _IOTA.sub(_groups_of, part)
        return _ELIDED.sub(f'custom-call(), custom_call_target="{elided.TARGET}"', part)

    parts = _QUOTED.split(content)  # every other one is quoted
    parts[::2] = map(repair, parts[::2])
    return ''.join(parts)


def is_cut_off(content: str) -> bool:
    """Returns whether brackets or quotes of a text, HLO or MLIR, are left open."""
    bare = _COMMENT.sub('', _QUOTED.sub('', content))
    pairs = (bare.count(a) > bare.count(b) for a, b in ('{}', '()'))
    return any(pairs) or '"' in bare


def _groups_of(iota: re.Match[str]) -> str:
    """Writes out groups of devices, which are numbered along dimensions."""
    groups, dims, order = (
        [int(n) for n in (numbers or '').split(',') if n] for numbers in iota.groups()
    )
    if math.prod(groups) != math.prod(dims) or math.prod(dims) > _MOST_DEVICES:
        return iota[0]  # XLA says what is wrong
    numbers = np.arange(math.prod(dims)).reshape(dims).transpose(order or None)
    rows = numbers.reshape(groups).tolist()
    return f'replica_groups={rows}'.translate(str.maketrans('[]', '{}', ' '))


def without_attribute(content: str, name: str, refused: int) -> str:
    """Returns HLO text without an attribute of operations: `, name=VALUE`.

    Args:
        refused: the place of one; those of operations with its opcode are removed.
    """
    start = re.compile(rf',?\s*\b{name}=')
    # Quoted text is replaced by as many characters that are no brackets.
    bare = _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), content)
    opcodes = {0: '', **{m.start(): m[1] for m in _OPCODE.finditer(bare)}}
    places = [*opcodes]
    opcode_at = lambda place: opcodes[places[bisect.bisect(places, place) - 1]]
    kept, place = [], 0
    for found in start.finditer(bare):
        is_other = opcode_at(found.start()) != opcode_at(refused)
        if found.start() < place or is_other:
            continue
        kept.append(content[place : found.start()])
        place = _end_of_value(bare, found.end())
    return ''.join([*kept, content[place:]])


def _end_of_value(content: str, place: int) -> int:
    """Returns the place behind the value that begins at a place."""
    depth = 0
    while place < len(content):
        character = content[place]
        if character in '{[(':
            depth += 1
        elif character in '}])':
            if not depth:
                return place
            depth -= 1
        elif not depth and character in ', \n':
            return place
        place += 1
    return place
