"""The ranking CSV: rows checked as they are written and read.

A file has the header `ID,TopConfigs` and one row per graph: its ID, a comma,
and configuration indices joined by `;`, best first.

    tile:xla:<graph id>                  five distinct indices, fewer when the
                                         graph has fewer configurations
    layout:<source>:<search>:<graph id>  every index 0..c-1 once

`baselines.evaluation.kaggle` makes a Kaggle submission of such files.
"""

import codecs
from collections.abc import Iterable, Mapping, Sequence
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baselines.core import arrays
from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections

HEADER = 'ID,TopConfigs'
TILE_CHOICES = 5

_ID = re.compile(rf'({"|".join(collections.NAMES)}):{collections.GRAPH_ID}')
_ID_FORMS = ' or '.join(f'{name}:<graph>' for name in collections.NAMES)
_INDEX = re.compile(r'\s*[0-9]{1,9}\s*')
_QUOTES = re.compile(r'^"([^"]*)"$')
_MAX_BYTES = 1 << 30  # the published template has 240 kB


class RankingRow(NamedTuple):
    """One graph's ranking."""

    id: str  # e.g. 'tile:xla:d6f5f54247bd1e58a10b9e7062c636ab'
    configs: tuple[int, ...]  # configuration indices, best first

    @property
    def collection(self) -> str:
        """The ID without the graph: 'tile:xla', 'layout:nlp:random', ..."""
        return self.id.rpartition(':')[0]

    @property
    def is_tile(self) -> bool:
        """Whether the row ranks a kernel, and so five indices instead of all."""
        return self.id.startswith('tile:')


def make_row(collection: str, graph_id: str, order: ArrayLike) -> RankingRow:
    """Builds the row of a graph; `write_predictions` checks it.

    Args:
        collection: such as 'layout:xla:random'.
        order: configuration indices, best first (`arrays.order_by_score(scores)`);
            of a kernel the best five are kept.
    """
    row = RankingRow(f'{collection}:{graph_id}', tuple(np.asarray(order).tolist()))
    if row.is_tile:
        row = row._replace(configs=row.configs[:TILE_CHOICES])
    return row


def make_rows(
    collection: str, graph_ids: Sequence[str], scored: Iterable[ArrayLike]
) -> list[RankingRow]:
    """Ranks the configurations of graphs: their rows, best first.

    Args:
        scored: scores of each graph, [configurations]; lower is faster.
    """
    return [
        make_row(collection, graph_id, arrays.order_by_score(scores))
        for graph_id, scores in zip(graph_ids, scored)
    ]


def check_row(row: RankingRow, padded: bool = False) -> None:
    """Raises ValueError, naming the row, unless it has the right format.

    Args:
        padded: a tile row may end with repeats of its first index, as
            `kaggle` fills up kernels of fewer than five configurations.
    """
    if not _ID.fullmatch(row.id):
        raise ValueError(f'ID {text.quoted(row.id)} has not the form {_ID_FORMS}')
    configs = row.configs
    if not configs:
        raise ValueError(f'{row.id}: no configuration is ranked')
    if min(configs) < 0:
        raise ValueError(f'{row.id}: index {min(configs)} is negative')
    if row.is_tile and padded:
        configs = configs[: _count_before_filler(configs, configs[0])]
    if len(set(configs)) < len(configs):
        values, counts = np.unique(configs, return_counts=True)
        twice = int(values[np.argmax(counts > 1)])
        raise ValueError(f'{row.id}: index {twice} is repeated')
    if not row.is_tile and max(configs) != len(configs) - 1:
        ranked = set(configs)
        missing = next(i for i in range(len(configs)) if i not in ranked)
        raise ValueError(
            f'{row.id}: all of 0 to {max(configs)} must be ranked, and {missing} is not'
        )


def _count_before_filler(configs: Sequence[int], filler: int) -> int:
    """Returns how many indices precede repeats of `filler` at the end."""
    length = len(configs)
    while length and configs[length - 1] == filler:
        length -= 1
    return length if filler in configs[:length] else length + 1


def _drop_zeros(row: RankingRow) -> RankingRow:
    """Drops zeros at the end of a kernel's row that follow an earlier 0.

    The published code and the course's script fill up short rows with them.
    """
    if not row.is_tile or row.configs[-1:] != (0,):
        return row
    return row._replace(configs=row.configs[: _count_before_filler(row.configs, 0)])


def write_predictions(
    path: str, rows: Iterable[RankingRow], padded: bool = False
) -> None:
    """Atomically writes a ranking CSV.

    Args:
        path: the file; an existing one is replaced.
        padded: whether rows are padded, as in `check_row`.

    Raises:
        ValueError: a malformed row, or an ID twice; nothing is written then.
        OSError: the file cannot be written.
    """
    seen = set()
    with files.write_atomically(path, 'w', encoding='utf-8', newline='\n') as out:
        out.write(f'{HEADER}\n')
        for row in rows:
            check_row(row, padded)
            if row.id in seen:
                raise ValueError(f'{row.id} is ranked twice')
            seen.add(row.id)
            out.write(f'{row.id},{";".join(map(str, row.configs))}\n')


def write_rankings(
    path: str, collection: str, rankings: Mapping[str, Sequence[int]]
) -> None:
    """Writes the rows of one collection among rankings by ID; see `write_predictions`.

    Args:
        collection: such as 'tile:xla'.
    """
    rows = [RankingRow(name, tuple(order)) for name, order in rankings.items()]
    write_predictions(path, [row for row in rows if row.collection == collection])


def read_predictions(path: str, padded: bool = False) -> list[RankingRow]:
    """Reads a ranking CSV.

    A byte order mark, Windows line ends, spaces and quotes around a field, spaces
    around an index and empty lines at the end are accepted; any other deviation is an
    error.  Zeros that fill up a kernel's row, as those of the published code, are
    dropped, with a note.

    Args:
        padded: whether rows are padded, as in `check_row`.

    Returns:
        The rows in the order of the file.

    Raises:
        ValueError: with file and line number: a wrong header, a line without
            exactly two columns, something that is not an index, a malformed
            row, an ID seen before, no row at all.
        OSError: the file cannot be read.
    """
    data = untrusted.read(files.expand(path), _MAX_BYTES)
    # Spreadsheet programs write it.
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        # The \r of a Windows line end goes with the spaces around a field.
        lines = data.decode('utf-8').rstrip().split('\n')
    except UnicodeDecodeError as error:
        number = data.count(b'\n', 0, error.start) + 1
        raise ValueError(f'{path}, line {number}: this is not text') from None
    if lines == ['']:
        raise ValueError(f'{path} is empty: the first line must be {HEADER}')
    if ','.join(_split_fields(lines[0])) != HEADER:
        raise ValueError(f'{path}, line 1: {_quote_line(lines[0])} must be {HEADER}')
    rows: list[RankingRow] = []
    seen: dict[str, int] = {}
    filled = 0
    for number, line in enumerate(lines[1:], 2):
        with text.locate_errors(f'{path}, line {number}'):
            parsed = _parse_line(line)
            row = _drop_zeros(parsed)
            check_row(row, padded)
            if row.id in seen:
                raise ValueError(f'{row.id} was ranked in line {seen[row.id]} already')
        seen[row.id] = number
        filled += row != parsed
        rows.append(row)
    if not rows:
        raise ValueError(f'{path} holds a header and no row')
    if filled:
        text.note(
            f'{path}: zeros that repeat an earlier 0 at the end of '
            f'{text.count(filled, "row")} fill up to five indices; they are dropped'
        )
    return rows


def _split_fields(line: str) -> list[str]:
    """Splits a line at commas; removes spaces and quotes around each field."""
    return [_QUOTES.sub(r'\1', field.strip()) for field in line.split(',')]


def _parse_line(line: str) -> RankingRow:
    """Parses a line; raises ValueError unless it is a valid row."""
    fields = _split_fields(line)
    if len(fields) != 2:
        columns = text.count(len(fields), 'column')
        raise ValueError(f'{columns} in {_quote_line(line)}, must be 2')
    if '"' in ''.join(fields):
        raise ValueError(f'quotes in {_quote_line(line)} must be around one field each')
    indices = fields[1].split(';') if fields[1] else []
    for index in indices:
        if not _INDEX.fullmatch(index):
            raise ValueError(f'{fields[0]}: {_quote_line(index)} must be an index')
    return RankingRow(fields[0], tuple(map(int, indices)))


def _quote_line(content: str) -> str:
    """Quotes the beginning of a line."""
    content = content.strip()
    return repr(content if len(content) <= 40 else f'{content[:40]}...')
