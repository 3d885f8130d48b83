"""Ranked configurations, module by module: tables for a terminal, CSV and JSON."""

import csv
import json
import os
from typing import IO

from baselines.core import text
from baselines.evaluation import choices

COLUMNS = (
    'source module rank run_index score runtime_ns slowdown is_default config'
).split()
# What `RankedModule.times` has of a configuration.
TIMES = 'measured_ns noise ratio outcome'.split()
# Layouts of a whole program are long.
_MOST_CHARACTERS = 100


def module_table(ranked: choices.RankedModule, top: int) -> str:
    """Returns a heading, the first `top` configurations, and the default."""
    rows = list(ranked.rows(top))
    # The default's row follows even where it is ranked below the top.
    if ranked.default is not None and ranked.default >= len(rows):
        rows.append(ranked.row(ranked.default))
    cells = [['rank', 'run', 'score', 'runtime', 'slowdown', 'configuration']]
    cells += map(_cells, rows)
    if ranked.fastest is None:
        cells = [row[:3] + row[5:] for row in cells]
    if ranked.times:
        times = [['measured', 'noise', 'x default', 'outcome'], *map(_time_cells, rows)]
        cells = [[*row[:-1], *more, row[-1]] for row, more in zip(cells, times)]
    lines = [
        f'{text.printable(ranked.module)}  {text.count(ranked.nodes, "node")}, '
        f'{text.count(len(ranked.scores), "configuration")}',
        *text.table(cells, '>' * (len(cells[0]) - 1) + '<', indent=2),
    ]
    if ranked.default is not None and ranked.fastest is None:
        place = f'place {ranked.default + 1:,} of {len(ranked.scores):,}'
        lines.append(f"  XLA's own choice: {place}")
    if ranked.untimed:
        lines.append(f'  not timed: {ranked.untimed}')
    costs = _costs(choices.figures(ranked))
    lines += costs
    tied = int((ranked.scores == ranked.scores[0]).sum())
    if tied > 1 and costs:
        lines.append(
            f'  {tied:,} configurations have the first score: means over their orders'
        )
    if ranked.is_unsure:
        lines.append(
            f'  unsure: the graph model and the trees order {ranked.agreement:.0%} of '
            'pairs alike; measure more than the first few'
        )
    return '\n'.join(lines)


def _cells(row: text.JsonObject) -> list[str]:
    """Returns the cells of a ranked configuration in `module_table`."""
    config, time = row['config'], row['runtime_ns']
    if len(config) > _MOST_CHARACTERS:
        config = config[: _MOST_CHARACTERS - 3] + '...'
    return [
        f'{row["rank"]:,}',
        str(row['run_index']),
        f'{row["score"]:.4f}',
        text.duration(time) if time else '-',
        text.cell(row['slowdown'], '.3f'),
        config + ' (default)' * row['is_default'],
    ]


def _time_cells(row: text.JsonObject) -> list[str]:
    """Returns the cells of a configuration's times in `module_table`."""
    time = row.get('measured_ns')
    return [
        text.duration(time) if time else '-',
        text.cell(row.get('noise'), '.1%'),
        text.cell(row.get('ratio'), '.3f'),
        row.get('outcome', ''),
    ]


def _costs(figures: text.JsonObject | None) -> list[str]:
    """Returns the line on what a module's choices cost, in a list; see `figures`."""
    if not figures:
        return []
    best = ' / '.join(f'{figures["slowdown"][k]:.3f}' for k in choices.TOP_K)
    line = f'  best of the first 1 / 5 / 10: {best} x the fastest'
    if figures['against_default']:
        ratio = f'{figures["against_default"]:.3f}'
        line += f"; the first takes {ratio} x the default's time"
    return [line]


def summary_table(summary: text.JsonObject) -> str:
    """Returns the closing lines over all modules, of `choices.Summary.to_json`."""
    measured, default = summary['measured_modules'], summary['default']
    lines = [
        f'{text.count(summary["modules"], "module")} with '
        f'{text.count(summary["configurations"], "configuration")} ranked'
    ]
    if summary['unsure']:
        lines.append(
            f'unsure of {text.count(summary["unsure"], "module")}: the graph model and '
            f'the trees order fewer than {choices.LEAST_AGREEMENT:.0%} of pairs alike'
        )
    if not measured:
        return '\n'.join(lines)
    lines.append(
        f'slowdown over the fastest, mean of {text.count(measured, "module")} with '
        'known runtimes'
    )
    rows = [['best of the first', *map(str, choices.TOP_K)]]
    for name, key in (('model', 'slowdown'), ('random choice', 'random')):
        rows.append([name, *(f'{value:.3f}' for value in summary[key].values())])
    if default:
        rows.append(["compiler's default", f'{default["slowdown"]:.3f}', '', ''])
    lines += text.table(rows, indent=2)
    if default:
        # In some modules the default may not have been measured.
        lines[-1] += f'  (of {default["modules"]:,})' * (default['modules'] < measured)
        lines.append(
            f"the model's first choice takes {default['ratio']:.3f} x the "
            f"default's time (geometric mean): faster in {default['faster']}, "
            f'the same in {default["same"]}, slower in {default["slower"]}'
        )
    return '\n'.join(lines)


def remarks(skipped: dict[str, list[str]], opcodes: dict[str, int]) -> list[str]:
    """Returns lines about modules left out by reason, and nodes of unknown opcodes."""
    lines = [
        f'skipped: {text.list_skipped({reason: names})}'
        for reason, names in skipped.items()
    ]
    if opcodes:
        lines.append(
            'note: the model does not know these opcodes, and takes all for '
            f'one: {text.most_common(opcodes)}'
        )
    return lines


class Csv:
    """Writes a row for each configuration; `finish` is to be called last."""

    beginning = ','.join(COLUMNS)

    def __init__(self, stream: IO[str], unused_model_dir: str):
        self._stream = stream
        self._rows: csv.DictWriter[str] | None = None

    def add(self, ranked: choices.RankedModule) -> None:
        """Writes the rows of a module."""
        if self._rows is None:
            # Of one ranking all modules are timed, or none.
            columns = COLUMNS + TIMES * bool(ranked.times or ranked.untimed)
            self._rows = csv.DictWriter(self._stream, columns, lineterminator='\n')
            self._rows.writeheader()
        of_module = {'source': ranked.source, 'module': ranked.module}
        for row in ranked.rows():
            row['is_default'] = int(row['is_default'])
            self._rows.writerow({**of_module, **row})

    def finish(self, unused_summary: text.JsonObject) -> None:
        """Does nothing: a table needs no closing."""


class Json:
    """Writes one object, modules as they come; `finish` is to be called last.

    Args:
        top: the most configurations of a module; None for all.
    """

    beginning = '{"model": '

    def __init__(self, stream: IO[str], model_dir: str, top: int | None = None):
        self._stream, self._top = stream, top
        self._stream.write(f'{self.beginning}{json.dumps(model_dir)},\n"modules": [')
        self._comma = ''

    def add(self, ranked: choices.RankedModule) -> None:
        """Writes the object of a module."""
        described = {
            'source': ranked.source,
            'module': ranked.module,
            'nodes': ranked.nodes,
            'agreement': ranked.agreement,
            'figures': choices.figures(ranked),
            **({'untimed': ranked.untimed} if ranked.untimed else {}),
            'configurations': [
                {**row, **ranked.as_json(row['run_index'])}
                for row in ranked.rows(self._top)
            ],
        }
        self._stream.write(f'{self._comma}\n{json.dumps(described, allow_nan=False)}')
        self._comma = ','

    def finish(self, summary: text.JsonObject) -> None:
        """Writes the summary, and the end of the object."""
        described = json.dumps(summary, allow_nan=False)
        self._stream.write(f'\n],\n"summary": {described}}}\n')


Writer = Csv | Json
WRITERS: dict[str, type[Writer]] = {'.csv': Csv, '.json': Json}


def writer_of(path: str) -> type[Writer]:
    """Returns the writer for a file's name; raises ValueError unless its end tells."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in WRITERS:
        raise ValueError(
            f'--output {path}: the name should end in {" or ".join(WRITERS)}'
        )
    return WRITERS[suffix]
