"""Holds results of calls: rankings, profiles and runs, shown and exported as tables."""

import io
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from baselines.core import files
from baselines.core import text
from baselines.evaluation import choices
from baselines.evaluation import choices_output
from baselines.runs import listing

Path = Union[str, 'os.PathLike[str]']

_MOST_ROWS = 20  # of a table that is shown
_MOST_SHAPE = 40  # characters


class Ranked(NamedTuple):
    """The configurations of one graph, the one predicted fastest first.

    Attributes:
        kernel: the graph's id.
        order: int64 [c], numbers of the configurations in the order of their file
            or record.
        scores: float32 [c], of the configurations in `order`, ascending; lower means
            predicted faster.
    """

    kernel: str
    order: Any
    scores: Any

    def __repr__(self) -> str:
        first = ', '.join(map(str, self.order[:3]))
        count = text.count(len(self.order), 'configuration')
        return f'<{self.kernel}: {count}, first {first}>'


class Ranking(List[Ranked]):
    """Ranked graphs: a list of `Ranked`.

    Attributes:
        failed: an error for every file or module that could not be ranked.
        skipped: reason -> names of modules with nothing to rank.
        unsure: names of graphs whose ranking is less reliable, as the graph model and
            the trees of the run disagree; see `evaluation.choices.LEAST_AGREEMENT`.
    """

    def __init__(self, graphs: Sequence[Any], model_dir: str, outcome: Any = None):
        super().__init__(Ranked(r.module, r.run_index, r.scores) for r in graphs)
        self._graphs, self._model_dir = list(graphs), model_dir
        self.unsure = [graph.module for graph in graphs if graph.is_unsure]
        self.failed: List[str] = outcome.failed if outcome else []
        self.skipped: Dict[str, List[str]] = outcome.skipped if outcome else {}

    def __repr__(self) -> str:
        return f'<Ranking of {text.count(len(self), "graph")} by {self._model_dir}>'

    def _repr_html_(self) -> str:
        rows = [['graph', 'nodes', 'configurations', 'first choice', 'slowdown']]
        for graph in self._graphs:
            first = graph.row(0)
            count = f'{len(graph.scores):,}'
            slowdown = text.cell(first['slowdown'], '.3f')
            rows.append(
                [graph.module, f'{graph.nodes:,}', count, first['config'], slowdown]
            )
        return text.html_table(rows, _MOST_ROWS)

    def to_json(self, path: Optional[Path] = None) -> str:
        """Returns the JSON of `tpugraphs rank --json`; also writes it to `path`."""
        return self._write('.json', path)

    def to_csv(self, path: Optional[Path] = None) -> str:
        """Returns CSV with a row for each configuration; also writes it to `path`."""
        return self._write('.csv', path)

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame with a row for each configuration, as `to_csv`.

        Raises:
            ValueError: pandas is not installed.
        """
        rows = [
            {'source': graph.source, 'module': graph.module, **row}
            for graph in self._graphs
            for row in graph.rows()
        ]
        return _pandas().DataFrame(rows, columns=choices_output.COLUMNS)

    def _write(self, suffix: str, path: Optional[Path]) -> str:
        """Returns text in the format of an ending, and writes it to `path`, if any."""
        stream, summary = io.StringIO(), choices.Summary()
        writer = choices_output.WRITERS[suffix](stream, self._model_dir)
        for graph in self._graphs:
            writer.add(graph)
            summary.add(graph)
        writer.finish(summary.to_json())
        if path is not None:
            with files.write_atomically(os.fspath(path), newline='') as file:
                file.write(stream.getvalue())
        return stream.getvalue()


class Runs(List[Any]):
    """Finished runs: a list of named tuples, shown as `tpugraphs runs` lists them.

    A run has when, model, collection, seed, differs (settings that are not the
    defaults), measure, score, minutes, run_id, command and path.
    """

    def __repr__(self) -> str:
        return '\n'.join(listing.table(self)) if self else '<no runs>'

    def _repr_html_(self) -> str:
        return text.html_table(listing.cells(self))

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame with a row for each run.

        Raises:
            ValueError: pandas is not installed.
        """
        return _pandas().DataFrame(list(self), columns=listing.RunRow._fields)


class KernelTime(NamedTuple):
    """A kernel of a program, timed alone.

    Attributes:
        name: of its last instruction after XLA's passes.
        times: how often it is in the program; in a loop, once.
        shape: of its result, such as 'f32[8,16]'.
        time_ns: of one execution, nanoseconds.
        share: of the program's time that all its executions take, 0..1; of the sum
            over kernels, where the program was not timed.
        bytes: of its inputs and its result.
        flops: of its dots and convolutions, two for a multiply-add.
        of_bandwidth: bytes/s relative to a copy of a large array; above 1 for arrays
            that are in a cache.
        of_compute: FLOP/s relative to a product of matrices.
    """

    name: str
    times: int
    shape: str
    time_ns: int
    share: float
    bytes: int
    flops: int
    of_bandwidth: float
    of_compute: float


class Profile(List[KernelTime]):
    """Where the time of a program goes: its kernels, the longest times first.

    Attributes:
        program: its name.
        time_ns: of one execution of the whole program; None if it was not timed.
        problem: why it was not timed, or ''.
        machine: what this core reaches: `bytes_per_second` of a copy,
            `flops_per_second` of a product of matrices; and `call_ns`, the time of an
            empty call, which was subtracted from all times.
        skipped: reason -> number of kernels that were not timed.
    """

    def __init__(
        self,
        kernels: Sequence[KernelTime],
        program: str,
        time_ns: Optional[int],
        problem: str,
        machine: Dict[str, float],
        skipped: Dict[str, int],
    ):
        super().__init__(kernels)
        self.program, self.time_ns, self.problem = program, time_ns, problem
        self.machine, self.skipped = machine, skipped

    @property
    def unexplained(self) -> Optional[float]:
        """The share of the program's time that no kernel explains, at most 1.

        It is below 0 where kernels take longer alone than in the program, where their
        inputs are in a cache; None if the program was not timed.
        """
        if self.time_ns is None:
            return None
        return 1 - sum(kernel.share for kernel in self)

    def __repr__(self) -> str:
        reached = self.machine
        took = f'not timed: {self.problem}'
        if self.time_ns is not None:
            took = text.duration(self.time_ns)
        lines = [
            f'{self.program}: {took}',
            f'a copy reaches {reached["bytes_per_second"] / 1e9:.1f} GB/s, a product '
            f'of matrices {reached["flops_per_second"] / 1e9:.1f} GFLOP/s on this core',
            '',
            *text.table(self._cells(_MOST_ROWS), '<><>', rules=[1]),
        ]
        if len(self) > _MOST_ROWS:
            lines.append(f'... and {len(self) - _MOST_ROWS:,} more')
        if self.unexplained is not None:
            lines.append(f'no kernel explains {self.unexplained:.1%} of the time')
        if self.skipped:
            lines.append(f'not timed: {text.counted(self.skipped)}')
        return '\n'.join(lines)

    def _repr_html_(self) -> str:
        return text.html_table(self._cells(), _MOST_ROWS)

    def _cells(self, most: Optional[int] = None) -> List[List[str]]:
        """Returns the headings of the table, and its first rows."""
        head = ['kernel', 'times', 'shape', 'time', 'share', 'bytes/s', 'FLOP/s']
        return [
            head,
            *(
                [
                    kernel.name,
                    f'{kernel.times:,}',
                    text.shortened(kernel.shape, _MOST_SHAPE),
                    text.duration(kernel.time_ns),
                    f'{kernel.share:.1%}',
                    f'{kernel.of_bandwidth:.0%}',
                    f'{kernel.of_compute:.0%}' if kernel.flops else '-',
                ]
                for kernel in self[:most]
            ),
        ]

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame with a row for each kernel.

        Raises:
            ValueError: pandas is not installed.
        """
        return _pandas().DataFrame(list(self), columns=KernelTime._fields)

    def to_json(self) -> Dict[str, Any]:
        """Returns the object of `tpugraphs show --time --json`."""
        return {
            'program': self.program,
            'time_ns': self.time_ns,
            'problem': self.problem,
            'unexplained': self.unexplained,
            'machine': self.machine,
            'kernels': [kernel._asdict() for kernel in self],
            'skipped': self.skipped,
        }


def _pandas() -> Any:
    """Imports pandas; raises ValueError if it is not installed."""
    try:
        import pandas
    except ImportError:
        raise ValueError(
            "to_pandas needs pandas: pip install -e '.[notebook]'"
        ) from None
    return pandas
