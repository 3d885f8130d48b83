"""What tiles and layouts differ in, from a split to the scores of a model."""

import abc
import contextlib
import importlib
import itertools
from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Type,
    TypeVar,
)

import numpy as np

from baselines import config as config_lib
from baselines import registry
from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import trees as trees_lib

# A split as a task packs it.
Store = TypeVar('Store', bound=splits.PackedSplit)


class ModelScorer(Protocol):
    """Scores graphs with one model."""

    def scores(
        self, graphs: Any, numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """Yields float32 [configurations] of each graph.

        Args:
            graphs: from `Task.graphs`.
            numbers: int64, of the graphs, ascending; None for all.
        """

    def chosen(
        self, graphs: Any, configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """Returns a function that scores some configurations of the first graphs.

        Args:
            graphs: from `Task.graphs`.
            configs: int64, numbers of the configurations of each graph.
        """


class Task(abc.ABC, Generic[Store]):
    """Reads, scores and judges the graphs of tiles, or of layouts.

    A task holds nothing that belongs to a run or to data.  Its methods import
    TensorFlow where they make or read graph models: trees need not wait for it.

    Attributes:
        config_class: the settings of its trainings.
        unit: what a graph is called.
        model_noun: what a model is called.
        removed_models: models of earlier versions, and what to train in their place.
        configs_at_once: for which it is worth while to start a worker (`distribute`).
        judged_by_tau: Kendall's tau chooses the best epoch, not OPA.
    """

    config_class: Type[config_lib.AnyConfig]
    unit: str
    model_noun: str
    removed_models: Mapping[str, str]
    configs_at_once: int
    judged_by_tau = False

    @abc.abstractmethod
    def models(self, own: registry.Own) -> Dict[str, type]:
        """Returns all models by name, a user's among them; see `registry`."""

    @abc.abstractmethod
    def example_graph(self, normalizer: normalizer_lib.Normalizer) -> Any:
        """Returns a graph to make a model's variables for."""

    @abc.abstractmethod
    def program_of(self, graph_id: str) -> str:
        """Returns the name of the program that a graph is, or is of."""

    @abc.abstractmethod
    def graphs(
        self,
        store: Store,
        normalizer: normalizer_lib.Normalizer,
        training: bool = False,
    ) -> Any:
        """Returns the graphs of a split with scaled features."""

    @abc.abstractmethod
    def table(
        self,
        store: Store,
        names: Optional[Sequence[str]] = None,
        graphs: Optional[Any] = None,
    ) -> trees_lib.Table:
        """Returns the columns that trees see of a split.

        Args:
            store: the split.
            names: of the columns; None for all.
            graphs: of the split, whose computed columns are shared.
        """

    @abc.abstractmethod
    def model_scorer(
        self, model: Any, memory_budget: int = 0, once: bool = False
    ) -> ModelScorer:
        """Returns what scores graphs with a model.

        Args:
            model: a built model.
            memory_budget: megabytes that scoring programs may take; 0: the default.
            once: the process ends when it has scored, so that a few small graphs
                are not worth compiling for.
        """

    @abc.abstractmethod
    def estimates(self, store: Store) -> Iterator[np.ndarray]:
        """Yields scores that nobody trained: [configurations] of each graph.

        Args:
            store: a split of published columns.
        """

    @abc.abstractmethod
    def labels(self, store: Store, number: int) -> np.ndarray:
        """Returns the measured runtimes of a graph's configurations."""

    def configurations(self, store: Store, number: int) -> Optional[np.ndarray]:
        """Returns numbers of configurations, equal for equal ones; None: unknown.

        Tiles are unknown: columns leave something of them out, so equal rows may be
        different tiles.
        """
        return None

    def model_class(self, name: str, own: registry.Own) -> type:
        """Returns the class of a model; raises ValueError for an unknown name."""
        classes = {**self.models(own), trees_lib.NAME: trees_lib.Trees}
        return registry.resolve(name, classes, self.model_noun, self.removed_models)

    def make_model(
        self,
        name: str,
        kwargs: Dict[str, Any],
        own: registry.Own,
        num_configs: int,
        num_ops: int,
        normalizer: normalizer_lib.Normalizer,
    ) -> Any:
        """Makes a model and its variables, from its name.

        Raises:
            ValueError: the name or a keyword is unknown.
        """
        graph = self.example_graph(normalizer)
        return registry.construct(
            self.model_class(name, own),
            num_configs,
            num_ops,
            kwargs,
            lambda model: model.forward(graph, 2),
        )

    def results(
        self,
        store: Store,
        scored: Iterable[np.ndarray],
        estimates: Optional[Iterable[np.ndarray]] = None,
    ) -> List[report.GraphResult]:
        """Returns the graphs of a split with their scores and measured runtimes.

        Args:
            store: the split.
            scored: scores of each graph.
            estimates: those that stand beside them, if any.
        """
        beside = itertools.repeat(None) if estimates is None else estimates
        return [
            report.GraphResult(
                store.graph_ids[number],
                scores,
                self.labels(store, number),
                self.configurations(store, number),
                estimate,
            )
            for number, (scores, estimate) in enumerate(zip(scored, beside))
        ]


def of(collection: collections.Collection) -> Task:
    """Returns the task of a collection.

    The other is not imported: it needs its models.py, which may be a user's.
    """
    return importlib.import_module(f'baselines.runs.{collection.task}_task').TASK


def rows(
    collection: collections.Collection,
    store: splits.PackedSplit,
    scored: Iterable[np.ndarray],
) -> List[submission.Row]:
    """Returns the rows of the CSV, of the graphs of a split."""
    return [
        submission.make_row(collection.name, graph_id, metrics.best_first(scores))
        for graph_id, scores in zip(store.graph_ids, scored)
    ]


@contextlib.contextmanager
def verifying(*stores: splits.PackedSplit) -> Iterator[None]:
    """Looks whether the packed data are damaged where a number is not finite.

    Raises:
        ValueError: they are, rather than what went wrong.
    """
    try:
        yield
    except ValueError:
        for store in stores:
            store.verify()
        raise
