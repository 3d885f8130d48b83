"""Layouts: rank the layouts of a program's configurable nodes."""

import functools
from typing import Any, Dict, Iterator, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import registry
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.layout import flat
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import scoring
from baselines.runs import prediction
from baselines.runs import tasks


class Layouts(tasks.Task):
    """Programs, each with runtimes in nanoseconds."""

    config_class = config_lib.LayoutConfig
    unit = 'program'
    models = staticmethod(registry.layout_models)
    model_noun = 'layout model'
    removed_models = registry.REMOVED_LAYOUT_MODELS
    example_graph = staticmethod(graphs_lib.example_graph)
    table = flat.FlatTable
    program_of = staticmethod(str)
    configs_at_once = 1

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
        """See the base class; refuses models that need columns that were expanded."""
        if 'scaling' in (registry.options(cls.model_class(name, own)) or ()):
            if not normalizer.expansion.is_published:
                raise ValueError(
                    f'--model={name} undoes the scaling of raw columns; train it '
                    'without --features and --mod128'
                )
            kwargs = {'scaling': normalizer.to_json(), **kwargs}
        return super().make_model(name, kwargs, own, num_configs, num_ops, normalizer)

    def scaled(
        self, store: splits.PackedSplit, training: bool = False
    ) -> programs_lib.StoredPrograms:
        """The programs of a split, `StoredPrograms`."""
        return programs_lib.StoredPrograms(store, self.normalizer, training)

    @functools.cached_property
    def _scorer(self) -> scoring.LayoutScorer:
        return scoring.LayoutScorer(self.model, self.options.memory_budget << 20)

    def model_scores(
        self, graphs: Sequence[graphs_lib.Program], numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        some = range(len(graphs)) if numbers is None else numbers
        return (self._scorer.score(graphs[n]) for n in some)

    def labels(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """Runtimes of a program in nanoseconds."""
        return store.part('config_runtime', number)

    def configurations(self, store: splits.PackedSplit, number: int) -> np.ndarray:
        """Numbers of different configurations, as they were packed."""
        return store.part('config_group', number)


class Predictor(Layouts, prediction.Predictor):
    """A run of a layout model, ready to score."""
