"""What a training and a prediction have to know of a kind of collection."""

import abc
import contextlib
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
)

import numpy as np
import tensorflow as tf
import tqdm

from baselines import registry
from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import opening
from baselines.runs import trees as trees_lib


class Task(abc.ABC):
    """Tiles or layouts: how their graphs are opened, scored and ranked.

    Attributes:
        config_class: the settings of their trainings.
        unit: what a graph is called.
        models: a user's models -> all models by name, see `registry`.
        model_noun: what a model is called.
        removed_models: models of earlier versions, and what to train in their place.
        example_graph: normaliser -> a graph to make a model's variables for.
        table: split, names of columns or None -> all that trees may see of it.
        program_of: graph id -> the program that a graph is, or is of.
        configs_at_once: for which it is worth while to start a worker of `spread`.
        collection: which one.
        options: where its graphs are: `DataOptions` or settings of a training.
        normalizer: what features are scaled by.
        model: the graph model that scores; None where trees do alone.
        trees: that score, alone or beside a graph model; then the mean of both.
        scores_once: whether the process ends when it has scored, so that a few small
            graphs are not worth compiling for.
    """

    config_class: type
    unit: str
    models: Callable[[registry.Own], Dict[str, type]]
    model_noun: str
    removed_models: Mapping[str, str]
    example_graph: Callable[[normalizer_lib.Normalizer], Any]
    table: Callable[..., trees_lib.Table]
    program_of: Callable[[str], str]
    configs_at_once: int
    collection: collections.Collection
    options: Any
    normalizer: normalizer_lib.Normalizer
    model: Optional[tf.keras.Model] = None
    trees: Optional[trees_lib.Trees] = None
    scores_once = False

    def open_whole(self, split: str) -> splits.PackedSplit:
        """Opens a split as it is on disk, packing it on first use."""
        return opening.open_split(self.collection, self.options, split)

    @contextlib.contextmanager
    def checked(self, *stores: splits.PackedSplit) -> Iterator[None]:
        """Where a number is not finite, looks whether the packed data are damaged.

        Raises:
            ValueError: they are, rather than what went wrong.
        """
        try:
            yield
        except ValueError:
            for store in stores:
                store.verify()
            raise

    @classmethod
    def model_class(cls, name: str, own: registry.Own) -> type:
        """The class of a model; raises ValueError for an unknown name."""
        known = {**cls.models(own), trees_lib.NAME: trees_lib.Trees}
        return registry.resolve(name, known, cls.model_noun, cls.removed_models)

    @classmethod
    def make_model(
        cls,
        name: str,
        kwargs: Dict[str, Any],
        own: registry.Own,
        num_configs: int,
        num_ops: int,
        normalizer: normalizer_lib.Normalizer,
    ) -> tf.keras.Model:
        """Makes a model and its variables, from its name.

        Raises:
            ValueError: the name or a keyword is unknown.
        """
        graph = cls.example_graph(normalizer)
        return registry.construct(
            cls.model_class(name, own),
            num_configs,
            num_ops,
            kwargs,
            lambda model: model.forward(graph, 2),
        )

    @abc.abstractmethod
    def scaled(self, store: splits.PackedSplit, training: bool = False) -> Any:
        """The graphs of a split as the model is given them."""

    def table_of(self, graphs: Any, wanted: Sequence[str]) -> trees_lib.Table:
        """The columns `wanted` of graphs from `scaled`."""
        return self.table(graphs.store, wanted)

    @abc.abstractmethod
    def model_scores(
        self, graphs: Any, numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """Yields the model's scores of each graph; arguments as `scores`."""

    def scores(
        self, graphs: Any, numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """Yields the scores of each graph; of model and trees together their mean.

        Args:
            graphs: from `scaled`.
            numbers: int64, of the graphs, ascending; None for all.
        """
        parts = []
        if self.model is not None:
            parts.append(self.model_scores(graphs, numbers))
        if self.trees is not None:
            table = self.table_of(graphs, self.trees.used)
            parts.append(trees_lib.scores(self.trees, table, numbers))
        if len(parts) == 1:
            return parts[0]
        return (ensembles.average(both, by='standard') for both in zip(*parts))

    @abc.abstractmethod
    def labels(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """The measured runtimes of a graph's configurations."""

    def configurations(
        self, store: splits.PackedSplit, number: int
    ) -> Optional[np.ndarray]:
        """Numbers of a graph's configurations, equal for equal ones; None: unknown.

        Tiles are unknown: columns leave something of them out, so equal rows may be
        different tiles.
        """
        return None

    def results(
        self, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> List[report.GraphResult]:
        """The graphs of a split with their scores and what was measured of them."""
        return [
            report.GraphResult(
                store.graph_ids[number],
                scores,
                self.labels(store, number),
                self.configurations(store, number),
            )
            for number, scores in enumerate(scored)
        ]

    def rows(
        self, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> List[submission.Row]:
        """The rows of the CSV, of the graphs of a split."""
        name = self.collection.name
        return [
            submission.make_row(name, graph_id, metrics.best_first(scores))
            for graph_id, scores in zip(store.graph_ids, scored)
        ]


def with_bar(items: Iterable, total: int, title: str, unit: str) -> Iterable:
    """Yields `items` under a progress bar, on a terminal."""
    return tqdm.tqdm(
        items, total=total, desc=title, unit=unit, leave=False, disable=None
    )
