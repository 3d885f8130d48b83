"""Writes measurements to a file: as a table (CSV) or as JSON."""

import csv
import os
from typing import Any, Dict, Sequence

from baselines import files
from baselines.evaluation import report

Table = Sequence[Sequence[str]]


def check_ending(path: str) -> None:
    """Raises ValueError unless a file of that name can be written."""
    if _ending(path) not in ('.csv', '.json', ''):
        raise ValueError(f'--output {path}: should end in .json or .csv')


def write(path: str, tables: Sequence[Table], content: Dict[str, Any]) -> None:
    """Writes tables, or as JSON all that is known.

    Args:
        path: the file; its ending tells the format: .csv, or JSON for .json and none,
            as in /dev/stdout.
        tables: rows of cells, the first of each the head; an empty line goes between.
        content: what JSON has.

    Raises:
        ValueError: there is no such format.
        OSError: the file cannot be written.
    """
    check_ending(path)
    with files.write_atomically(path, encoding='utf-8', newline='') as stream:
        if _ending(path) != '.csv':
            stream.write(report.to_json(content) + '\n')
            return
        writer = csv.writer(stream, lineterminator='\n')
        for number, table in enumerate(tables):
            writer.writerows([[]] * (number > 0))
            writer.writerows(table)


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
