"""Ranked configurations, and what choosing by them costs where times are known.

An autotuner that trusts a model runs its first choice, or measures the first few;
without one, the compiler runs its default.  Here both are compared with the fastest
configuration; tables for a terminal, CSV and JSON show both.
"""

from collections.abc import Callable, Iterator
import csv
import dataclasses
import functools
import json
import os
from typing import IO

import numpy as np

from baselines.core import arrays
from baselines.core import text
from baselines.evaluation import metrics
from baselines.hlo import protos

TOP_K = (1, 5, 10)
COLUMNS = (
    'source module rank run_index score runtime_ns slowdown is_default config'
).split()
# What `RankedModule.times` has of a configuration.
TIMES = 'measured_ns noise ratio outcome'.split()
# Layouts of a whole program are long.
_MOST_CHARACTERS = 100
# The members of the strong recipe agree on more pairs in three quarters of the kernels
# of the shipped validation split (benchmarks/uncertainty.py).
LEAST_AGREEMENT = 0.86


@dataclasses.dataclass(eq=False)
class RankedModule:
    """A module's c configurations, the one predicted fastest first."""

    module: str  # its graph id
    source: str  # the file that it is from
    nodes: int  # number of nodes of its graph
    run_index: np.ndarray  # int64 [c], the position of each among the file's runs
    scores: np.ndarray  # float32 [c], ascending; lower = predicted faster
    runtimes: np.ndarray  # int64 [c], nanoseconds; 0 where not measured
    default: int | None  # the index of the compiler's default among the c, or None
    # from an entry of run_index to the configuration as a JSON object
    as_json: Callable[[int], text.JsonObject]
    as_text: Callable[[text.JsonObject], str]  # from that object to a short text
    # the share of pairs that the model's members order alike, see
    # `ensembles.compute_agreement`; None of a model without members
    agreement: float | None = None
    # the HloModuleProto that the configurations are of; None of a record
    hlo: protos.HloModuleProto | None = None
    # by position: what `tpugraphs rank --measure` adds to a row
    times: dict[int, text.JsonObject] = dataclasses.field(default_factory=dict)
    untimed: str = ''  # why it timed nothing

    def __post_init__(self):
        """Orders the configurations by score; equal ones stay in order."""
        order = arrays.order_by_score(self.scores)
        self.run_index = np.asarray(self.run_index)[order]
        self.scores = np.asarray(self.scores)[order]
        self.runtimes = np.asarray(self.runtimes)[order]
        if self.default is not None:
            self.default = order.tolist().index(self.default)

    @property
    def is_unsure(self) -> bool:
        """Whether members disagree, so that the ranking is less reliable."""
        return self.agreement is not None and self.agreement < LEAST_AGREEMENT

    @functools.cached_property
    def fastest(self) -> int | None:
        """The shortest measured time, nanoseconds; None without any."""
        times = self.runtimes[self.runtimes > 0]
        return int(times.min()) if len(times) else None

    def row(self, position: int) -> text.JsonObject:
        """Describes the configuration of a rank, from 0.

        Returns:
            `rank`, from 1, `run_index` and `score`; `runtime_ns` and `slowdown`, over
            the fastest, None where it was not measured; `is_default`; `config`, a text;
            and what `times` has.
        """
        time = int(self.runtimes[position]) or None
        return {
            'rank': position + 1,
            'run_index': int(self.run_index[position]),
            'score': float(self.scores[position]),
            'runtime_ns': time,
            'slowdown': time / self.fastest if time and self.fastest else None,
            'is_default': position == self.default,
            'config': self.as_text(self.as_json(int(self.run_index[position]))),
            **self.times.get(position, {}),
        }

    def rows(self, top: int | None = None) -> Iterator[text.JsonObject]:
        """Yields the rows of the `top` configurations ranked first, or of all."""
        return map(self.row, range(len(self.scores))[:top])


def measure_choices(ranked: RankedModule) -> text.JsonObject | None:
    """Measures what the choices of a module cost, as ratios of measured times.

    Returns:
        None if fewer than two runtimes are known; or
          slowdown: k -> the fastest of the k ranked first / the fastest of all,
            both among those measured; at least 1.
          random: k -> the same, expected of k configurations drawn at random.
          default: the compiler's default / the fastest; None if not measured.
          against_default: the model's first choice / the default; below 1 the
            model is better.
        Of equal scores the expectation is taken, see `metrics.expected_best`.
    """
    measured = np.flatnonzero(ranked.runtimes > 0)
    if len(measured) < 2:
        return None
    times, scores = ranked.runtimes[measured], ranked.scores[measured]
    default = None
    if ranked.default is not None:
        default = int(ranked.runtimes[ranked.default]) or None
    return {
        'slowdown': {k: metrics.slowdown(scores, times, k) for k in TOP_K},
        # Of scores that are all equal.
        'random': {k: metrics.slowdown(np.zeros_like(times), times, k) for k in TOP_K},
        'default': default and float(default / times.min()),
        'against_default': default
        and metrics.expected_best(scores, times, 1) / default,
    }


@dataclasses.dataclass
class Summary:
    """Collects modules one by one; keeps a few numbers of each.

    Attributes:
        modules: number of modules.
        configurations: number of their configurations.
        unsure: number of modules ranked by members that disagree.
    """

    modules: int = 0
    configurations: int = 0
    unsure: int = 0
    _figures: list[text.JsonObject] = dataclasses.field(default_factory=list)

    def add(self, ranked: RankedModule) -> None:
        """Adds a module."""
        self.modules += 1
        self.configurations += len(ranked.scores)
        self.unsure += ranked.is_unsure
        measured = measure_choices(ranked)
        if measured:
            self._figures.append(measured)

    def to_json(self) -> text.JsonObject:
        """Returns the closing figures.

        Returns:
            A dict: `modules`, `configurations`, `unsure`, `measured_modules` (those
            with two runtimes or more), and, means over these or None without any:
            `slowdown` and `random` {'1', '5', '10'}; and over those among them
            whose default was measured, or None: `default` with `modules`,
            `slowdown` (of the default, mean), `ratio` (first choice / default,
            geometric mean), and how many first choices are `faster`, the
            `same`, `slower`.
        """
        defaults = [f for f in self._figures if f['against_default']]
        default = None
        if defaults:
            # A geometric mean, as half the time and twice the time cancel out.
            against = np.array([f['against_default'] for f in defaults])
            default = {
                'modules': len(against),
                'slowdown': float(np.mean([f['default'] for f in defaults])),
                'ratio': float(np.exp(np.log(against).mean())),
                'faster': int((against < 1).sum()),
                'same': int((against == 1).sum()),
                'slower': int((against > 1).sum()),
            }
        return {
            'modules': self.modules,
            'configurations': self.configurations,
            'unsure': self.unsure,
            'measured_modules': len(self._figures),
            'slowdown': self._average_figures('slowdown'),
            'random': self._average_figures('random'),
            'default': default,
        }

    def _average_figures(self, name: str) -> dict[str, float] | None:
        """Averages a figure over modules, by k; None without any module."""
        if not self._figures:
            return None
        return {
            str(k): float(np.mean([f[name][k] for f in self._figures])) for k in TOP_K
        }


def format_module(ranked: RankedModule, top: int) -> str:
    """Returns a heading, the first `top` configurations, and the default."""
    rows = list(ranked.rows(top))
    # The default's row follows even where it is ranked below the top.
    if ranked.default is not None and ranked.default >= len(rows):
        rows.append(ranked.row(ranked.default))
    cells = [['rank', 'run', 'score', 'runtime', 'slowdown', 'configuration']]
    cells += map(_format_cells, rows)
    if ranked.fastest is None:
        cells = [row[:3] + row[5:] for row in cells]
    if ranked.times:
        times = [['measured', 'noise', 'x default', 'outcome'], *map(_show_times, rows)]
        cells = [[*row[:-1], *more, row[-1]] for row, more in zip(cells, times)]
    lines = [
        f'{text.printable(ranked.module)}  {text.count(ranked.nodes, "node")}, '
        f'{text.count(len(ranked.scores), "configuration")}',
        *text.format_table(cells, '>' * (len(cells[0]) - 1) + '<', indent=2),
    ]
    if ranked.default is not None and ranked.fastest is None:
        place = f'place {ranked.default + 1:,} of {len(ranked.scores):,}'
        lines.append(f"  XLA's own choice: {place}")
    if ranked.untimed:
        lines.append(f'  not timed: {ranked.untimed}')
    costs = _format_costs(measure_choices(ranked))
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


def _format_cells(row: text.JsonObject) -> list[str]:
    """Returns the cells of a ranked configuration in `format_module`."""
    config, time = row['config'], row['runtime_ns']
    return [
        f'{row["rank"]:,}',
        str(row['run_index']),
        f'{row["score"]:.4f}',
        text.format_duration(time) if time else '-',
        text.format_value(row['slowdown'], '.3f'),
        text.shorten(config, _MOST_CHARACTERS) + ' (default)' * row['is_default'],
    ]


def _show_times(row: text.JsonObject) -> list[str]:
    """Returns the cells of a configuration's times in `format_module`."""
    time = row.get('measured_ns')
    return [
        text.format_duration(time) if time else '-',
        text.format_value(row.get('noise'), '.1%'),
        text.format_value(row.get('ratio'), '.3f'),
        row.get('outcome', ''),
    ]


def _format_costs(figures: text.JsonObject | None) -> list[str]:
    """Returns the line on what choices cost, in a list; see `measure_choices`."""
    if not figures:
        return []
    best = ' / '.join(f'{figures["slowdown"][k]:.3f}' for k in TOP_K)
    line = f'  best of the first 1 / 5 / 10: {best} x the fastest'
    if figures['against_default']:
        ratio = f'{figures["against_default"]:.3f}'
        line += f"; the first takes {ratio} x the default's time"
    return [line]


def format_summary(summary: text.JsonObject) -> str:
    """Returns the closing lines over all modules, of `Summary.to_json`."""
    measured, default = summary['measured_modules'], summary['default']
    lines = [
        f'{text.count(summary["modules"], "module")} with '
        f'{text.count(summary["configurations"], "configuration")} ranked'
    ]
    if summary['unsure']:
        lines.append(
            f'unsure of {text.count(summary["unsure"], "module")}: the graph model and '
            f'the trees order fewer than {LEAST_AGREEMENT:.0%} of pairs alike'
        )
    if not measured:
        return '\n'.join(lines)
    lines.append(
        f'slowdown over the fastest, mean of {text.count(measured, "module")} with '
        'known runtimes'
    )
    rows = [['best of the first', *map(str, TOP_K)]]
    for name, key in (('model', 'slowdown'), ('random choice', 'random')):
        rows.append([name, *(f'{value:.3f}' for value in summary[key].values())])
    if default:
        rows.append(["compiler's default", f'{default["slowdown"]:.3f}', '', ''])
    lines += text.format_table(rows, indent=2)
    if default:
        # In some modules the default may not have been measured.
        lines[-1] += f'  (of {default["modules"]:,})' * (default['modules'] < measured)
        lines.append(
            f"the model's first choice takes {default['ratio']:.3f} x the "
            f"default's time (geometric mean): faster in {default['faster']}, "
            f'the same in {default["same"]}, slower in {default["slower"]}'
        )
    return '\n'.join(lines)


def format_remarks(skipped: dict[str, list[str]], opcodes: dict[str, int]) -> list[str]:
    """Returns lines about modules left out by reason, and nodes of unknown opcodes."""
    lines = [
        f'skipped: {text.list_skipped({reason: names})}'
        for reason, names in skipped.items()
    ]
    if opcodes:
        lines.append(
            'note: the model does not know these opcodes, and takes all for '
            f'one: {text.list_most_common(opcodes)}'
        )
    return lines


class Csv:
    """Writes a row for each configuration; `finish` is to be called last."""

    beginning = ','.join(COLUMNS)

    def __init__(self, stream: IO[str], unused_model_dir: str):
        self._stream = stream
        self._rows: csv.DictWriter[str] | None = None

    def add(self, ranked: RankedModule) -> None:
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

    def add(self, ranked: RankedModule) -> None:
        """Writes the object of a module."""
        described = {
            'source': ranked.source,
            'module': ranked.module,
            'nodes': ranked.nodes,
            'agreement': ranked.agreement,
            'figures': measure_choices(ranked),
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


def find_writer(path: str) -> type[Writer]:
    """Returns the writer for a file's name; raises ValueError unless its end tells."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in WRITERS:
        raise ValueError(
            f'--output {path}: the name must end in {" or ".join(WRITERS)}'
        )
    return WRITERS[suffix]
