"""Writes measurements to a file: as tables (CSV) or as JSON."""

from collections.abc import Sequence
import csv
import os

from baselines.core import files
from baselines.core import text
from baselines.data import collections

Table = Sequence[Sequence[str]]

# Of JSON, of a table of runs, and of one that compares two models.
BEGINNINGS = ('{', *(f'{name},' for name in collections.NAMES), ',A,B,')


def check_ending(path: str) -> None:
    """Raises ValueError unless a file of that name can be written."""
    if not is_json(path) and _read_ending(path) != '.csv':
        raise ValueError(f'--output {path}: must end in .json or .csv')


def is_json(path: str) -> bool:
    """Returns whether `write_tables` writes JSON to a file of that name."""
    return _read_ending(path) in ('.json', '')


def write_tables(path: str, tables: Sequence[Table], content: text.JsonObject) -> None:
    """Writes tables, or JSON with the full content.

    Args:
        path: the file, which `check_ending` accepts; '.csv' is for tables, with an
            empty line between them, '.json' and no ending, as in /dev/stdout, for JSON.
        tables: rows of cells, the first of each the head.

    Raises:
        OSError: the file cannot be written.
    """
    with files.write_atomically(path, encoding='utf-8', newline='') as stream:
        if is_json(path):
            stream.write(text.to_json(content) + '\n')
            return
        writer = csv.writer(stream, lineterminator='\n')
        for number, table in enumerate(tables):
            stream.write('\n' * (number > 0))
            writer.writerows(table)


def _read_ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
