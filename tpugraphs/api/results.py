"""Holds rankings and lists of runs, which are shown and exported as tables."""

from collections.abc import Sequence
import io
import os
import types
from typing import TYPE_CHECKING, NamedTuple, Union

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.evaluation import choices
from baselines.hlo import outcomes
from baselines.runs import listing

if TYPE_CHECKING:
    import pandas

Path = Union[str, 'os.PathLike[str]']

_MOST_ROWS = 20  # of a table that is shown


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
    order: np.ndarray
    scores: np.ndarray

    def __repr__(self) -> str:
        first = ', '.join(map(str, self.order[:3]))
        count = text.count(len(self.order), 'configuration')
        return f'<{self.kernel}: {count}, first {first}>'


class Ranking(list[Ranked]):
    """Ranked graphs: a list of `Ranked`.

    Attributes:
        failed: an error for every file or module that could not be ranked.
        skipped: reason -> names of modules with nothing to rank.
        unsure: names of graphs whose ranking is less reliable, as the graph model and
            the trees of the run disagree; see `evaluation.choices.LEAST_AGREEMENT`.
    """

    def __init__(
        self,
        graphs: Sequence[choices.RankedModule],
        model_dir: str,
        outcome: outcomes.Outcome,
    ):
        super().__init__(Ranked(r.module, r.run_index, r.scores) for r in graphs)
        self._graphs, self._model_dir = list(graphs), model_dir
        self.unsure = [graph.module for graph in graphs if graph.is_unsure]
        self.failed = outcome.failed
        self.skipped = outcome.skipped

    def __repr__(self) -> str:
        return f'<Ranking of {text.count(len(self), "graph")} by {self._model_dir}>'

    def _repr_html_(self) -> str:
        rows = [['graph', 'nodes', 'configurations', 'first choice', 'slowdown']]
        for graph in self._graphs:
            first = graph.row(0)
            count = f'{len(graph.scores):,}'
            slowdown = text.format_value(first['slowdown'], '.3f')
            rows.append(
                [graph.module, f'{graph.nodes:,}', count, first['config'], slowdown]
            )
        return text.make_html_table(rows, _MOST_ROWS)

    def to_json(self, path: Path | None = None) -> str:
        """Returns the JSON of `tpugraphs rank --json`; also writes it to `path`."""
        return self._write_table('.json', path)

    def to_csv(self, path: Path | None = None) -> str:
        """Returns CSV with a row for each configuration; also writes it to `path`."""
        return self._write_table('.csv', path)

    def to_pandas(self) -> 'pandas.DataFrame':
        """Returns a pandas.DataFrame with a row for each configuration, as `to_csv`.

        Raises:
            ValueError: pandas is not installed.
        """
        rows = [
            {'source': graph.source, 'module': graph.module, **row}
            for graph in self._graphs
            for row in graph.rows()
        ]
        return _import_pandas().DataFrame(rows, columns=choices.COLUMNS)

    def _write_table(self, suffix: str, path: Path | None) -> str:
        """Returns text in the format of an ending, and writes it to `path`, if any."""
        stream, summary = io.StringIO(), choices.Summary()
        writer = choices.WRITERS[suffix](stream, self._model_dir)
        for graph in self._graphs:
            writer.add(graph)
            summary.add(graph)
        writer.finish(summary.to_json())
        if path is not None:
            with files.write_atomically(os.fspath(path), newline='') as file:
                file.write(stream.getvalue())
        return stream.getvalue()


def _import_pandas() -> types.ModuleType:
    """Imports pandas; raises ValueError if it is not installed."""
    try:
        import pandas
    except ImportError:
        raise ValueError(
            "to_pandas needs pandas: pip install -e '.[notebook]'"
        ) from None
    return pandas


class Runs(list[listing.RunRow]):
    """Finished runs: a list of named tuples, shown as `tpugraphs runs` lists them.

    A run has when, model, collection, seed, differs (settings that are not the
    defaults), measure, score, minutes, run_id, command and path.
    """

    def __repr__(self) -> str:
        return '\n'.join(listing.format_table(self)) if self else '<no runs>'

    def _repr_html_(self) -> str:
        return text.make_html_table(listing.make_cells(self))

    def to_pandas(self) -> 'pandas.DataFrame':
        """Returns a pandas.DataFrame with a row for each run.

        Raises:
            ValueError: pandas is not installed.
        """
        return _import_pandas().DataFrame(list(self), columns=listing.RunRow._fields)
