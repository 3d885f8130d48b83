"""Finds the functions that read files that may be anybody's, and which are called."""

import ast
from collections.abc import Iterator
import contextlib
import pathlib
import re
import sys
import types

# What opens a file that may be anybody's, or parses its text.
_READS = re.compile(
    r'\b(open_regular|open_archive|(json|tomllib|untrusted)\.loads?|untrusted\.read)\('
)
_Place = tuple[str, int]  # a file, and the first line of a function


def find_readers(package: types.ModuleType) -> dict[_Place, str]:
    """Finds functions of a package that read such files: names by their places."""
    [folder], found = package.__path__, {}
    for path in pathlib.Path(folder).rglob('*.py'):
        content = path.read_text('utf-8')
        if not _READS.search(content):
            continue
        parts = path.relative_to(folder).with_suffix('').parts
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.FunctionDef):
                lines = content.splitlines()[node.lineno - 1 : node.end_lineno]
                if _READS.search('\n'.join(lines)):
                    line = min(part.lineno for part in (node, *node.decorator_list))
                    name = '.'.join((package.__name__, *parts, node.name))
                    found[str(path), line] = name
    return found


@contextlib.contextmanager
def trace_calls() -> Iterator[set[_Place]]:
    """Notes the places of all functions that are called in a block."""
    places = set()

    def note(frame, *unused):
        places.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    try:
        yield places
    finally:
        sys.setprofile(None)
