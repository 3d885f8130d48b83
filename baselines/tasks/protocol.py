"""The interface of a task for training, ranking and reports."""

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from baselines.data import graph_files
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import schema

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

_Split = TypeVar('_Split', bound=splits.PackedSplit)
# The graphs of a split as models read them: `TileGraphs` or `StoredPrograms`.
Graphs = Any
# Of made-up graphs.
EXAMPLE_NODES = 5
EXAMPLE_OPCODES = 10


class Scorer(Protocol):
    """Scores the graphs of a split with one graph model, in bounded memory."""

    def scores(
        self, graphs: Graphs, numbers: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Yields float32 [configurations] for each graph.

        Args:
            graphs: from `Task.graphs`.
            numbers: int64, of the graphs, ascending; None for all.
        """

    def chosen(
        self, graphs: Graphs, configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """Returns a function that scores given configurations of the first graphs.

        Args:
            graphs: from `Task.graphs`.
            configs: int64, numbers of the configurations of each graph.
        """


class Table(Protocol):
    """The table that trees read: a row of named columns per configuration."""

    names: list[str]

    @property
    def counts(self) -> np.ndarray:
        """int64 [graphs], configurations of each."""

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows: int64 [r] graphs, configurations -> float32 [r, columns]."""


class Task(abc.ABC, Generic[_Split]):
    """One task: how its graphs are read, scored and judged.

    A task holds nothing that belongs to a run or to data.  Methods import TensorFlow
    where they make or read graph models, so that trees start without it.

    Attributes:
        name: 'tile' or 'layout'.
        store_class: class of its packed splits.
        configs_at_once: number of configurations for which starting a worker process
            pays (`tpugraphs.beam`).
        judged_by: key of the measure that chooses the best epoch, 'opa' or
            'kendall_tau'; see `metrics.MEASURES`.
        has_default: runtimes are known relative to the compiler's own choice.
        temperature: ranking losses divide scores by it.
        prior: name of the column of `table` that trees correct; '' for none.
    """

    name: str
    store_class: type[_Split]
    configs_at_once: int
    judged_by: str
    has_default: bool
    temperature: float
    prior: str

    @abc.abstractmethod
    def make_example_graph(
        self, normalizer: normalizer_lib.Normalizer
    ) -> 'tfgnn.GraphTensor':
        """Makes a small GraphTensor, with which a model makes its variables."""

    @abc.abstractmethod
    def make_example_record(
        self, rng: np.random.Generator, configs: int
    ) -> graph_files.GraphRecord:
        """Makes a record of a small graph, random but valid, with runtimes."""

    def make_example_fields(
        self, rng: np.random.Generator, configs: int
    ) -> dict[str, Any]:
        """Makes the fields of a record that all tasks have: a chain of nodes."""
        ends = np.arange(EXAMPLE_NODES - 1)
        features = rng.integers(0, 9, (EXAMPLE_NODES, len(schema.NODE)))
        return {
            'graph_id': 'made up',
            'node_feat': features.astype('f4'),
            'node_opcode': rng.integers(1, EXAMPLE_OPCODES, EXAMPLE_NODES),
            'edge_index': np.stack([ends + 1, ends], 1),
            'config_runtime': rng.integers(100, 1000, configs),
        }

    @abc.abstractmethod
    def graphs(
        self,
        store: _Split,
        normalizer: normalizer_lib.Normalizer,
        training: bool,
        begin_with_estimate: bool,
        table: tile_table.TileTable | None = None,
    ) -> Graphs:
        """Returns the graphs of a split as models read them, with scaled features.

        Args:
            training: training reads them, where equal layouts have their mean runtime.
            begin_with_estimate: for layouts, scores of models are added to the formula
                of `layout.estimate`.  Tiles show it as columns, if the normaliser has
                them.
            table: for tiles, a table of this split with the normaliser's columns, if
                there is one, whose rows are used again.
        """

    @abc.abstractmethod
    def table(
        self, store: _Split, names: Sequence[str] | None, graphs: Graphs
    ) -> Table:
        """Returns the columns that trees read.

        Args:
            names: names of the columns; None for all.
            graphs: from `graphs`, whose computed columns are reused; or None.
        """

    @abc.abstractmethod
    def scorer(self, model: 'tf.keras.Model', memory_budget: int, once: bool) -> Scorer:
        """Returns what scores graphs with a model.

        Args:
            memory_budget: megabytes that scoring may take; 0 for the default.
            once: the process ends after scoring: compiling for a few small graphs
                would take longer than it saves.
        """

    @abc.abstractmethod
    def estimates(
        self, store: _Split, numbers: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Yields untrained scores [configurations] for each graph of a split.

        Args:
            store: the split, with the published columns.
            numbers: int64, of the graphs, ascending; None for all.
        """

    def multiply_adds(self, store: _Split, numbers: np.ndarray) -> np.ndarray:
        """Counts the multiply-adds of graphs that `estimates` shares out.

        Args:
            numbers: int64, of the graphs.

        Returns:
            float64 [graphs]; 0 where no model begins with the estimates.
        """
        return np.zeros(len(numbers))
