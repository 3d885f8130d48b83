"""The two tasks, tiles and layouts: how their graphs are read, scored and judged.

task = of(collections.of_name('tile:xla'))
"""

import contextlib
import dataclasses
import itertools
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
)

import numpy as np

from baselines import registry
from baselines.data import collections
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import reading
from baselines.layout import estimate
from baselines.layout import flat
from baselines.runs import trees as trees_lib


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
        """Returns a function that scores given configurations of the first graphs.

        Args:
            graphs: from `Task.graphs`.
            configs: int64, numbers of the configurations of each graph.
        """


@dataclasses.dataclass(frozen=True)
class Task:
    """Reads, scores and judges the graphs of tiles, or of layouts.

    A task holds nothing that belongs to a run or to data.  Its functions import
    TensorFlow where they make or read graph models: trees need not wait for it.

    Attributes:
        model_noun: the noun for a model.
        removed_models: models of earlier versions, and those to train in their place.
        configs_at_once: for which it is worth while to start a worker (`distribute`).
        judged_by_tau: Kendall's tau chooses the best epoch, not OPA.
        models: returns the models by name, a user's among them; see `registry`.
        example_graph: makes a graph, scaled by a normaliser, to make a model's
            variables for.
        program_of: returns the name of the program that a graph id is of.
        graphs: (store, normaliser, training) -> the graphs of a split as models read
            them, with scaled features.
        table: (store, names of columns or None for all, graphs or None) -> the
            columns that trees read; those that the graphs have computed are shared.
        model_scorer: (model, memory budget in megabytes or 0 for the default, once)
            -> a scorer; once: the process ends when it has scored, so that a few
            small graphs are not worth compiling for.
        estimates: yields the untrained scores [configurations] of each graph of a
            split of published columns.
        prior: name of the column of `table` that trees correct; '' for none.
        labels: (store, number of a graph) -> its measured runtimes [configurations].
        configurations: (store, number of a graph) -> numbers of its configurations,
            equal for equal ones; None: unknown.
    """

    model_noun: str
    removed_models: Mapping[str, str]
    configs_at_once: int
    judged_by_tau: bool
    models: Callable[[registry.Own], Dict[str, type]]
    example_graph: Callable[[normalizer_lib.Normalizer], Any]
    program_of: Callable[[str], str]
    graphs: Callable[[Any, normalizer_lib.Normalizer, bool], Any]
    table: Callable[[Any, Optional[Sequence[str]], Any], trees_lib.Table]
    model_scorer: Callable[[Any, int, bool], ModelScorer]
    estimates: Callable[[Any], Iterator[np.ndarray]]
    prior: str
    labels: Callable[[Any, int], np.ndarray]
    configurations: Callable[[Any, int], Optional[np.ndarray]]

    def model_class(self, name: str, own: registry.Own) -> type:
        """Returns the class of a model; raises ValueError for an unknown name."""
        classes = {**self.models(own), registry.TREES: trees_lib.Trees}
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

        A model with the option `scaling` undoes the scaling of features, and is told
        it.

        Raises:
            ValueError: the name or a keyword is unknown.
        """
        model_class = self.model_class(name, own)
        if 'scaling' in (registry.options(model_class) or ()):
            kwargs = {'scaling': normalizer.to_json(), **kwargs}
        graph = self.example_graph(normalizer)
        return registry.construct(
            model_class,
            num_configs,
            num_ops,
            kwargs,
            lambda model: model.forward(graph, 2),
        )

    def results(
        self,
        store: splits.PackedSplit,
        scored: Iterable[np.ndarray],
        estimates: Optional[Iterable[np.ndarray]] = None,
    ) -> List[report.GraphResult]:
        """Returns the graphs of a split with their scores and measured runtimes.

        Args:
            store: the split.
            scored: scores of each graph.
            estimates: untrained scores that stand beside them, if any.
        """
        beside = itertools.repeat(None) if estimates is None else estimates
        return [
            report.GraphResult(
                store.graph_ids[number],
                scores,
                self.labels(store, number),
                self.configurations(store, number),
                estimated,
            )
            for number, (scores, estimated) in enumerate(zip(scored, beside))
        ]


def _example_kernel(normalizer: normalizer_lib.Normalizer) -> Any:
    from baselines.tiles import graphs

    return graphs.example_graph(normalizer)


def _tile_graphs(
    store: tile_store.TileStore, normalizer: normalizer_lib.Normalizer, training: bool
) -> Any:
    from baselines.tiles import graphs

    return graphs.TileGraphs(store, normalizer)


def _tile_table(
    store: tile_store.TileStore, names: Optional[Sequence[str]], graphs: Any
) -> tile_table.TreeTable:
    shared = None if graphs is None else graphs.table
    return tile_table.TreeTable(store, names, shared)


def _tile_scorer(model: Any, memory_budget: int, once: bool) -> ModelScorer:
    from baselines.tiles import scoring

    return scoring.TileScorer(model, once)  # its memory is small in any case


def _tile_estimates(store: tile_store.TileStore) -> Iterator[np.ndarray]:
    """Yields logarithms of the times that `features.estimate` gives tiles."""
    table = tile_table.TileTable(store, ['estimate'])
    time = table.names.index('log_time')
    for first, end in zip(store.config_offsets, store.config_offsets[1:]):
        yield table.rows(np.arange(first, end))[:, time]


def _normalized_runtimes(store: tile_store.TileStore, number: int) -> np.ndarray:
    """Returns runtimes divided by that of the kernel's default tile, float64."""
    runtimes = store.part('config_runtime', number)
    return runtimes / store.part('config_runtime_normalizers', number)


def _example_program(normalizer: normalizer_lib.Normalizer) -> Any:
    from baselines.layout import graphs

    return graphs.example_graph(normalizer)


def _programs(
    store: layout_store.LayoutStore,
    normalizer: normalizer_lib.Normalizer,
    training: bool,
) -> Any:
    from baselines.layout import programs

    return programs.StoredPrograms(store, normalizer, training)


def _layout_scorer(model: Any, memory_budget: int, once: bool) -> ModelScorer:
    from baselines.layout import scoring

    budget = (memory_budget << 20) or scoring.DEFAULT_MEMORY
    return scoring.LayoutScorer(model, budget)


TASKS: Dict[str, Task] = {
    reading.TILE: Task(
        model_noun='model',
        removed_models=registry.REMOVED_TILE_MODELS,
        configs_at_once=1 << 16,
        judged_by_tau=False,
        models=registry.tile_models,
        example_graph=_example_kernel,
        program_of=report.GROUPINGS[reading.TILE].group_of,
        graphs=_tile_graphs,
        table=_tile_table,
        model_scorer=_tile_scorer,
        estimates=_tile_estimates,
        prior='',
        labels=_normalized_runtimes,
        # Columns leave something of tiles out: equal rows may be different tiles.
        configurations=lambda store, number: None,
    ),
    reading.LAYOUT: Task(
        model_noun='layout model',
        removed_models=registry.REMOVED_LAYOUT_MODELS,
        configs_at_once=1,
        judged_by_tau=True,
        models=registry.layout_models,
        example_graph=_example_program,
        program_of=report.GROUPINGS[reading.LAYOUT].group_of,
        graphs=_programs,
        table=lambda store, names, graphs: flat.LayoutTable(store, names),
        model_scorer=_layout_scorer,
        estimates=lambda store: (
            estimate.estimate(store, number) for number in range(store.num_graphs)
        ),
        prior='padded_work',
        labels=lambda store, number: store.part('config_runtime', number),
        configurations=lambda store, number: store.part('config_group', number),
    ),
}


def of(collection: collections.Collection) -> Task:
    """Returns the task of a collection."""
    return TASKS[collection.task]


def rows(
    collection: collections.Collection,
    store: splits.PackedSplit,
    scored: Iterable[np.ndarray],
) -> List[submission.Row]:
    """Returns the rows of the CSV: the configurations of each graph, best first."""
    return [
        submission.make_row(collection.name, graph_id, metrics.best_first(scores))
        for graph_id, scores in zip(store.graph_ids, scored)
    ]


@contextlib.contextmanager
def verifying(*stores: splits.PackedSplit) -> Iterator[None]:
    """Checks packed data after a ValueError of the block, which damage may cause.

    Raises:
        ValueError: the data are damaged; or else the error of the block.
    """
    try:
        yield
    except ValueError:
        for store in stores:
            store.verify()
        raise
