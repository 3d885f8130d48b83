"""Layouts: rank the layouts of a program's configurable nodes."""

from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np

from baselines import config as config_lib
from baselines import registry
from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.layout import estimate
from baselines.layout import flat
from baselines.runs import tasks


class LayoutTask(tasks.Task[layout_store.LayoutStore]):
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
    ) -> Any:
        """See the base class; some models undo the scaling, and are told of it."""
        if 'scaling' in (registry.options(self.model_class(name, own)) or ()):
            kwargs = {'scaling': normalizer.to_json(), **kwargs}
        return super().make_model(name, kwargs, own, num_configs, num_ops, normalizer)

    def example_graph(self, normalizer: normalizer_lib.Normalizer) -> Any:
        """Returns a program of a few nodes."""
        from baselines.layout import graphs as graphs_lib

        return graphs_lib.example_graph(normalizer)

    def program_of(self, graph_id: str) -> str:
        """Returns the graph id: a graph is a program."""
        return graph_id

    def graphs(
        self,
        store: layout_store.LayoutStore,
        normalizer: normalizer_lib.Normalizer,
        training: bool = False,
    ) -> Any:
        """Returns a split's `layout.programs.StoredPrograms`, with scaled features."""
        from baselines.layout import programs as programs_lib

        return programs_lib.StoredPrograms(store, normalizer, training)

    def table(
        self,
        store: layout_store.LayoutStore,
        names: Optional[Sequence[str]] = None,
        graphs: Optional[Any] = None,
    ) -> flat.FlatTable:
        """Returns the columns that trees see; models see none of them."""
        return flat.FlatTable(store, names)

    def model_scorer(
        self, model: Any, memory_budget: int = 0, once: bool = False
    ) -> tasks.ModelScorer:
        """Returns what scores programs with a model, in bounded memory."""
        from baselines.layout import scoring

        return scoring.LayoutScorer(
            model, (memory_budget << 20) or scoring.DEFAULT_MEMORY
        )

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


TASK = LayoutTask()
