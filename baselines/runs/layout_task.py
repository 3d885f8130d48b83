"""Layouts: rank the layouts of a program's configurable nodes."""

import dataclasses
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import registry
from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.layout import estimate
from baselines.layout import flat
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import scoring
from baselines.runs import tasks


class LayoutTask(tasks.Task[layout_store.LayoutStore, programs_lib.StoredPrograms]):
    """Programs, each with runtimes in nanoseconds."""

    config_class = config_lib.LayoutConfig
    unit = 'program'
    model_noun = 'layout model'
    removed_models = registry.REMOVED_LAYOUT_MODELS
    configs_at_once = 1
    judged_by_tau = True

    def models(self, own: registry.Own) -> Dict[str, type]:
        """Returns the models of layout/models.py and of the zoo, and a user's."""
        return registry.layout_models(own)

    def make_model(
        self,
        name: str,
        kwargs: Dict[str, Any],
        own: registry.Own,
        num_configs: int,
        num_ops: int,
        normalizer: normalizer_lib.Normalizer,
    ) -> tf.keras.Model:
        """See the base class; refuses models that need columns that were expanded."""
        if 'scaling' in (registry.options(self.model_class(name, own)) or ()):
            if not normalizer.expansion.is_published:
                raise ValueError(
                    f'--model={name} undoes the scaling of raw columns; train it '
                    'without --features and --mod128'
                )
            kwargs = {'scaling': normalizer.to_json(), **kwargs}
        return super().make_model(name, kwargs, own, num_configs, num_ops, normalizer)

    def example_graph(self, normalizer: normalizer_lib.Normalizer) -> Any:
        """Returns a program of a few nodes."""
        return graphs_lib.example_graph(normalizer)

    def program_of(self, graph_id: str) -> str:
        """Returns the graph id: a graph is a program."""
        return graph_id

    def graphs(
        self,
        store: layout_store.LayoutStore,
        normalizer: normalizer_lib.Normalizer,
        training: bool = False,
    ) -> programs_lib.StoredPrograms:
        """Returns the programs of a split with scaled features."""
        return programs_lib.StoredPrograms(store, normalizer, training)

    def table(
        self,
        store: layout_store.LayoutStore,
        names: Optional[Sequence[str]] = None,
        graphs: Optional[programs_lib.StoredPrograms] = None,
    ) -> flat.FlatTable:
        """Returns the columns that trees see; models see none of them."""
        return flat.FlatTable(store, names)

    def model_scorer(
        self, model: tf.keras.Model, memory_budget: int = 0, once: bool = False
    ) -> 'ProgramScorer':
        """Returns what scores programs with a model, in bounded memory."""
        return ProgramScorer(model, (memory_budget << 20) or scoring.DEFAULT_MEMORY)

    def estimates(self, store: layout_store.LayoutStore) -> Iterator[np.ndarray]:
        """Yields the padded work of products, as `layout.estimate` computes it."""
        return (estimate.estimate(store, n) for n in range(store.num_graphs))

    def labels(self, store: layout_store.LayoutStore, number: int) -> np.ndarray:
        """Returns runtimes in nanoseconds."""
        return store.part('config_runtime', number)

    def configurations(
        self, store: layout_store.LayoutStore, number: int
    ) -> np.ndarray:
        """Returns numbers of different configurations, as they were packed."""
        return store.part('config_group', number)


class ProgramScorer:
    """Scores programs with a model, one after the other.

    Args:
        model: a built model.
        memory_budget: bytes that a slice of configurations may take.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int):
        self._scorer = scoring.LayoutScorer(model, memory_budget)

    def scores(
        self, graphs: Sequence[graphs_lib.Program], numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """See `ModelScorer`."""
        if numbers is None:
            numbers = np.arange(len(graphs))
        return (self._scorer.score(graphs[number]) for number in numbers)

    def chosen(
        self, graphs: Sequence[graphs_lib.Program], configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """See `ModelScorer`."""
        programs = [_subset(graphs[n], some) for n, some in enumerate(configs)]
        return lambda: self.scores(programs)


def _subset(program: graphs_lib.Program, configs: np.ndarray) -> graphs_lib.Program:
    """Returns a program with only some of its configurations, int [s]."""
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return dataclasses.replace(
        program,
        codes=program.codes[groups],
        group=group,
        runtimes=program.runtimes[configs],
    )


TASK = LayoutTask()
