"""The task of ranking the layouts of a program."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from baselines.data.layout import records
from baselines.data.layout import store as layout_store
from baselines.evaluation import ensembles
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.layout import estimate
from baselines.layout import layout_table
from baselines.tasks import protocol

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

# Of a layout's normal score by the formula, which a model's score is added to.  The
# order at first is the formula's for any scale; with a small one, training overrules
# it where it does not hold.
_PRIOR_SCALE = 0.3


class Layout(protocol.Task[layout_store.LayoutStore]):
    """Layouts of programs; see `protocol.Task`."""

    name = reading.LAYOUT
    store_class = layout_store.LayoutStore
    configs_at_once = 1
    judged_by = 'kendall_tau'
    has_default = False
    temperature = 1.0  # as published
    prior = 'padded_work'

    def make_example_graph(
        self, normalizer: normalizer_lib.Normalizer
    ) -> 'tfgnn.GraphTensor':
        from baselines.layout import graphs

        return graphs.make_example_graph(normalizer)

    def make_example_record(
        self, rng: np.random.Generator, configs: int
    ) -> records.LayoutRecord:
        """Makes a random program of a few nodes, two of them configurable."""
        features = (configs, 2, len(schema.LAYOUT))
        return records.LayoutRecord(
            node_config_ids=np.array([1, 3]),
            node_config_feat=rng.integers(-1, 6, features).astype('f4'),
            node_splits=np.array([[0, protocol.EXAMPLE_NODES]]),
            **self.make_example_fields(rng, configs),
        )

    def graphs(
        self,
        store: layout_store.LayoutStore,
        normalizer: normalizer_lib.Normalizer,
        training: bool,
        begin_with_estimate: bool,
        table: tile_table.TileTable | None = None,
    ) -> protocol.Graphs:
        from baselines.layout import graphs

        prior = _compute_group_prior if begin_with_estimate else None
        return graphs.StoredPrograms(store, normalizer, training, prior)

    def table(
        self,
        store: layout_store.LayoutStore,
        names: Sequence[str] | None,
        graphs: protocol.Graphs,
    ) -> layout_table.LayoutTable:
        return layout_table.LayoutTable(store, names)

    def scorer(
        self, model: 'tf.keras.Model', memory_budget: int, once: bool
    ) -> protocol.Scorer:
        """Returns what scores programs within a memory budget."""
        from baselines.layout import scoring

        budget = (memory_budget << 20) or scoring.DEFAULT_MEMORY
        return scoring.LayoutScorer(model, budget)

    def estimates(
        self, store: layout_store.LayoutStore, numbers: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the padded work that `layout.estimate` counts for layouts."""
        chosen = range(len(store)) if numbers is None else numbers
        return (estimate.estimate(store, int(number)) for number in chosen)

    def multiply_adds(
        self, store: layout_store.LayoutStore, numbers: np.ndarray
    ) -> np.ndarray:
        return np.array([estimate.count_multiply_adds(store, int(n)) for n in numbers])


TASK = Layout()


def compute_prior(store: layout_store.LayoutStore, number: int) -> np.ndarray:
    """Returns what --estimate adds to the scores of a model: float32 [c]."""
    of_groups = _compute_group_prior(store, number).astype(np.float32)
    return of_groups[store.part('config_group', number)]


def _compute_group_prior(store: layout_store.LayoutStore, number: int) -> np.ndarray:
    """Returns scaled normal scores of a program's different layouts by the formula."""
    scores = estimate.estimate_groups(store, number)
    return _PRIOR_SCALE * ensembles.get_normal_scores(scores)
