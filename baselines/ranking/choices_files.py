"""Writes ranked configurations to a file, module by module: CSV or JSON."""

import csv
import json
import os
from typing import IO, Any, Dict, Optional

from baselines.ranking import choices

_COLUMNS = (
    'source module rank run_index score runtime_ns slowdown is_default config'
).split()


class _Csv:
    """A row per configuration."""

    def __init__(self, stream: IO[str], model_dir: str, top: Optional[int]):
        self._top = top
        self._rows = csv.DictWriter(stream, _COLUMNS, lineterminator='\n')
        self._rows.writeheader()

    def add(self, ranked: choices.Ranked) -> None:
        of_module = {'source': ranked.source, 'module': ranked.module}
        for row in ranked.rows(self._top):
            row['is_default'] = int(row['is_default'])
            self._rows.writerow({**of_module, **row})

    def finish(self, summary: Dict[str, Any]) -> None:
        pass


class _Json:
    """One object; modules are written as they come."""

    def __init__(self, stream: IO[str], model_dir: str, top: Optional[int]):
        self._stream, self._top = stream, top
        self._stream.write(f'{{"model": {json.dumps(model_dir)},\n"modules": [')
        self._comma = ''

    def add(self, ranked: choices.Ranked) -> None:
        described = {
            'source': ranked.source,
            'module': ranked.module,
            'nodes': ranked.nodes,
            'figures': choices.figures(ranked),
            'configurations': [
                {**row, **ranked.as_json(row['run_index'])}
                for row in ranked.rows(self._top)
            ],
        }
        self._stream.write(f'{self._comma}\n{json.dumps(described, allow_nan=False)}')
        self._comma = ','

    def finish(self, summary: Dict[str, Any]) -> None:
        described = json.dumps(summary, allow_nan=False)
        self._stream.write(f'\n],\n"summary": {described}}}\n')


_WRITERS = {'.csv': _Csv, '.json': _Json}


def suffix_of(path: str) -> str:
    """Returns the end of a name; raises ValueError unless it tells the format."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _WRITERS:
        raise ValueError(
            f'--output {path}: the name should end in {" or ".join(_WRITERS)}'
        )
    return suffix


def writer_to(
    stream: IO[str], model_dir: str, suffix: str, top: Optional[int] = None
) -> Any:
    """Begins to write.

    Args:
        stream: where to.
        model_dir: what ranked.
        suffix: '.csv' or '.json'.
        top: the most configurations of a module; None for all.

    Returns:
        An object with `add(ranked)` and, to be called last, `finish(summary)`.
    """
    return _WRITERS[suffix](stream, model_dir, top)
