"""Parses HLO text of any printer: rewrites what XLA's parser refuses.

Repairs never touch quoted text, and keep the lines, which XLA's errors count.
"""

import re

from tpugraphs.programs import elided
from tpugraphs.programs import xla

_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_ELIDED = re.compile(r'\bconstant\(\{\.\.\.\}\)')
# PyTorch/XLA and Neuron print the name of a value that no parser takes.
_API_VERSION = re.compile(r'\bAPI_VERSION_UNSPECIFIED\b')
_UNKNOWN = re.compile(r'unexpected attribute:? "(\w+)"', re.IGNORECASE)
_MOST_ATTRIBUTES = 20  # that are dropped, one for each time that XLA parses the text
# Tables of source files that newer printers write before the computations.
_TABLES = re.compile(
    r'^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*',
    re.MULTILINE,
)


def parse(content: str) -> tuple[list[str], bytes]:
    """Parses HLO text.

    Returns:
        Notes for the user, and the serialised HloModuleProto.

    Raises:
        Exception: XLA's, which has the line and the column.
    """
    content = repaired(content)
    dropped: list[str] = []
    while True:
        try:
            module = xla.parse_text(content)
            break
        except Exception as error:
            unknown = _UNKNOWN.search(str(error))
            if not unknown or len(dropped) == _MOST_ATTRIBUTES:
                raise
            dropped.append(unknown.group(1))
            shorter = without_attribute(content, dropped[-1])
            if shorter == content:
                raise
            content = shorter
    if not dropped:
        return [], module
    names = ', '.join(dropped)
    return [f'dropped, since this XLA does not know them: {names}'], module


def repaired(content: str) -> str:
    """Returns HLO text that XLA's parser takes."""
    content = _TABLES.sub(lambda table: '\n' * table[0].count('\n'), content)
    if not (_API_VERSION.search(content) or _ELIDED.search(content)):
        return content  # to split a large text takes a second

    def repair(part: str) -> str:
        part = _API_VERSION.sub('API_VERSION_ORIGINAL', part)
        return _ELIDED.sub(f'custom-call(), custom_call_target="{elided.TARGET}"', part)

    parts = _QUOTED.split(content)  # every other one is quoted
    parts[::2] = map(repair, parts[::2])
    return ''.join(parts)


def without_attribute(content: str, name: str) -> str:
    """Returns HLO text without the attributes of a name: `, name=VALUE`."""
    start = re.compile(rf',?\s*\b{name}=')
    # Quoted text is replaced by as many characters that are no brackets.
    bare = _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), content)
    kept, place = [], 0
    for found in start.finditer(bare):
        if found.start() < place:
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
