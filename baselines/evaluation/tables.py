"""Writes measurements to a file: as a table (CSV, Markdown, LaTeX) or as JSON."""

from collections.abc import Callable, Sequence
import csv
import io
import os
import re

from baselines.core import files
from baselines.core import text
from baselines.data import collections

Table = Sequence[Sequence[str]]

# Of JSON, of a table of runs, and of one that compares two models.
BEGINNINGS = ('{', *(f'{name},' for name in collections.NAMES), ',A,B,')

_JSON = ('.json', '')
# Characters that are special in LaTeX, and how they are written.
_LATEX = {
    **{sign: f'\\{sign}' for sign in '#$%&_{}'},
    '\\': r'\textbackslash{}',
    '^': r'\^{}',
    '~': r'\~{}',
}


def check_ending(path: str) -> None:
    """Raises ValueError unless a file of that name can be written."""
    if _ending(path) not in (*_JSON, *_WRITERS):
        raise ValueError(f'--output {path}: should end in .json, {", ".join(_WRITERS)}')


def write(path: str, tables: Sequence[Table], content: text.JsonObject) -> None:
    """Writes tables, or JSON with the full content.

    Args:
        path: the file; its ending selects the format: .csv, .md, .tex, or JSON for
            .json and none, as in /dev/stdout.
        tables: rows of cells, the first of each the head.

    Raises:
        ValueError: there is no such format.
        OSError: the file cannot be written.
    """
    check_ending(path)
    ending = _ending(path)
    if ending in _JSON:
        output = text.to_json(content) + '\n'
    else:
        output = '\n'.join(map(_WRITERS[ending], tables))
    with files.write_atomically(path, encoding='utf-8', newline='') as stream:
        stream.write(output)


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _csv(rows: Table) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator='\n').writerows(rows)
    return stream.getvalue()


def _markdown(rows: Table) -> str:
    head, *others = [
        [re.sub(r'([\\|])', r'\\\1', cell) for cell in row] for row in rows
    ]
    alignment = ['---', *['---:'] * (len(head) - 1)]
    lines: list[Sequence[str]] = [head, alignment, *others]
    return ''.join(f'| {" | ".join(row)} |\n' for row in lines)


def _latex(rows: Table) -> str:
    head, *others = [
        ' & '.join(''.join(_LATEX.get(sign, sign) for sign in cell) for cell in row)
        for row in rows
    ]
    lines = [
        rf'\begin{{tabular}}{{l{"r" * (len(rows[0]) - 1)}}}',
        r'\hline',
        rf'{head} \\',
        r'\hline',
        *(rf'{row} \\' for row in others),
        r'\hline',
        r'\end{tabular}',
    ]
    return '\n'.join(lines) + '\n'


_WRITERS: dict[str, Callable[[Table], str]] = {
    '.csv': _csv,
    '.md': _markdown,
    '.tex': _latex,
}
