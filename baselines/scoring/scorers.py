"""Scores graphs with the models of a run, or with the untrained estimate."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, Protocol, cast

import numpy as np

from baselines.core import text
from baselines.data import collections
from baselines.data import variants
from baselines.data.layout import joint
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.features import column_sets
from baselines.hlo import schema
from baselines.runs import scaling as scaling_lib
from baselines.tasks import lookup
from baselines.tasks import protocol
from baselines.trees import booster
from baselines.trees import tree_scores

if TYPE_CHECKING:
    import tensorflow as tf

# A graph is unlike those of a training if it multiplies so many times as much as any.
_UNLIKE = 10
# The scores of a graph by each member of a model: its graph model, its trees; or by
# the formula that both begin with, alone.
Members = tuple[np.ndarray, ...]


def mean_score(members: Members, weights: Sequence[float] | None = None) -> np.ndarray:
    """Averages the scores of a graph over members, each scaled to a deviation of 1.

    Args:
        weights: of the members; None: equal.
    """
    if len(members) == 1:
        return members[0]
    return ensembles.average(members, weights, by='standard')


def are_equal(scores: np.ndarray) -> bool:
    """Returns whether the scores of a graph differ by rounding at most.

    A model that ignores configurations computes the same formula for each, but rows of
    a float32 matrix product that are handled in different blocks differ by some units
    in the last place (1.7 where measured).
    """
    rounding = 16 * float(np.finfo(np.float32).eps)
    return np.allclose(scores, scores.max(), rtol=rounding, atol=0)


def noting_ties(
    name: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yields the scores of a split; notes at the end if none depends on configurations.

    Args:
        name: what made the scores, for the note.
    """
    tied = []
    for number, scores in enumerate(scored, 1):
        if len(scores) > 1:
            tied.append(are_equal(scores))
        # Before the last scores: a `zip` with the graphs' names asks for no more.
        if number == len(store) and tied and all(tied):
            text.note(
                f'{name} gives all configurations of a {store.noun} the same score: '
                'its ranking is no better than random choice'
            )
        yield scores


class Models(NamedTuple):
    """A graph model, trees, or both."""

    task: lookup.AnyTask  # of the graphs that they score
    graph_model: protocol.Inference | None  # None where trees score alone
    trees: booster.Trees | None  # None where the graph model scores alone
    # of both in their mean; None: equal. Where both are 0, the formula that they begin
    # with scores alone.
    weights: Sequence[float] | None = None
    # of the largest graph that they were trained on, if they begin with a formula
    most_multiply_adds: float | None = None

    def members(
        self,
        store: splits.PackedSplit,
        graphs: protocol.Graphs,
        numbers: np.ndarray | None = None,
    ) -> Iterator[Members]:
        """Yields for each graph a float [configurations] of each member.

        What was learned says nothing about graphs that are unlike those of the
        training: there the formula scores alone, and a note says so.

        Args:
            graphs: the same split, from `Task.graphs`; None where trees score alone.
            numbers: int64, of the graphs, ascending; None for all.
        """
        if self.is_formula_alone:
            return zip(self.task.estimates(store, numbers))
        if numbers is None:
            numbers = np.arange(len(store))
        unlike = self._unlike(store, numbers)
        if not unlike.any():
            return self._learned(store, graphs, numbers)
        formula = zip(self.task.estimates(store, numbers[unlike]))
        learned = self._learned(store, graphs, numbers[~unlike])
        return (next(formula if each else learned) for each in unlike)

    def _unlike(self, store: splits.PackedSplit, numbers: np.ndarray) -> np.ndarray:
        """Marks the graphs that are unlike those of the training: bool [graphs]."""
        if self.most_multiply_adds is None:
            return np.zeros(len(numbers), bool)
        counts = self.task.multiply_adds(store, numbers)
        unlike = counts > _UNLIKE * self.most_multiply_adds
        if unlike.any():
            first = store.graph_ids[numbers[unlike.argmax()]]
            others = f' and {unlike.sum() - 1} more' if unlike.sum() > 1 else ''
            text.note(
                f'{first}{others}: over {_UNLIKE} times the multiply-adds of any '
                f'{store.noun} trained on; the formula of --estimate ranks it alone'
            )
        return unlike

    def _learned(
        self, store: splits.PackedSplit, graphs: protocol.Graphs, numbers: np.ndarray
    ) -> Iterator[Members]:
        """Yields the scores of graph model and trees; see `members`."""
        parts = []
        if self.graph_model is not None:
            parts.append(self.graph_model.scores(graphs, numbers))
        if self.trees is not None:
            table = self.task.table(store, self.trees.used, graphs)
            parts.append(tree_scores.scores(self.trees, table, numbers))
        return zip(*parts)

    @property
    def is_formula_alone(self) -> bool:
        """Whether nothing that was learned counts."""
        return self.weights is not None and not any(self.weights)

    def scores(
        self,
        store: splits.PackedSplit,
        graphs: protocol.Graphs,
        numbers: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the mean of the members of each graph; see `members`."""
        return map(self.mean, self.members(store, graphs, numbers))

    def mean(self, members: Members) -> np.ndarray:
        """Averages the members' scores of a graph with their weights."""
        return mean_score(members, self.weights)

    def weighed(
        self,
        store: splits.PackedSplit,
        scored: Sequence[Members],
        formula: Sequence[np.ndarray] | None = None,
    ) -> 'Models':
        """Returns the models with weights chosen on validation graphs; prints them.

        Args:
            formula: scores of each graph by the formula that the members begin with,
                if they do; it scores alone where they rank no better.
        """
        task = self.task
        if self.graph_model is None or self.trees is None:
            return self
        # Judged by the same measure as the best epoch.
        key = 'kendall_tau' if task.judged_by_tau else 'opa'
        quality = metrics.measure_of(task.name, key).of_graph
        graphs = [
            ensembles.ScoredGraph(
                task.program_of(name), members, task.labels(store, number)
            )
            for number, (name, members) in enumerate(zip(store.graph_ids, scored))
            if len(members) > 1
        ]
        weights = ensembles.chosen_weights(graphs, quality)
        if formula is not None:
            # A model that starts from the formula must beat it on validation graphs.
            learned = [mean_score(members, weights) for members in scored]
            runtimes = [task.labels(store, n) for n in range(len(scored))]
            if not ensembles.is_better(learned, formula, runtimes, quality):
                print(
                    'note: nothing learned ranks validation better than the formula of '
                    '--estimate,\nwhich scores alone'
                )
                return self._replace(weights=[0.0, 0.0])
        if min(weights) < 1:
            print(
                f'note: validation is ranked better with weights of {weights[0]:g} for '
                f'the graph model and {weights[1]:g} for the trees'
            )
        return self._replace(weights=weights)


class Scorer(Protocol):
    """Scores the graphs of a split.

    Attributes:
        variant: the columns that it reads.
        num_ops: it knows the opcodes below this number.
        reads_opcodes: whether a graph model reads them, and takes others for unknown.
        reads_extra: whether it reads `node_feat_extra` of graphs that have it.
    """

    variant: variants.Variant
    num_ops: int
    reads_opcodes: bool
    reads_extra: bool

    def check(self, store: splits.PackedSplit) -> splits.PackedSplit:
        """Returns a split with the columns that the scorer reads.

        Raises:
            ValueError: it does not have them; says in what it differs.
        """

    def members(self, store: splits.PackedSplit) -> Iterator[Members]:
        """Yields the scores of each graph of a checked split."""

    def mean(self, members: Members) -> np.ndarray:
        """Averages the members' scores of a graph: float [configurations]."""


class Flag(NamedTuple):
    """The collection of the graphs that a run of several scores."""

    collection: str  # its name
    trained_on: Sequence[str]  # names of all collections of the run's training

    @property
    def values(self) -> list[float]:
        """What the flag columns of the collection's nodes hold."""
        return [float(name == self.collection) for name in self.trained_on]

    def of(self, store: layout_store.LayoutStore) -> joint.JointStore:
        """Returns a split whose graphs are flagged; see `JointStore`."""
        return joint.JointStore({self.collection: store}, self.trained_on)


class RunScorer:
    """Scores graphs with the models of a run.

    Attributes:
        models: its graph model, its trees, or both.
        scaling: of the features that the graph model reads.
        variant: the columns of the data that it was trained on.
        num_ops: the graph model knows the opcodes below this number.
        keras_model: the graph model as Keras made it; None where trees score alone.
        estimate: whether a graph model of layouts adds to the formula (--estimate).
        flag: of the graphs, for a run of several collections; None for others.
    """

    def __init__(
        self,
        models: Models,
        scaling: scaling_lib.Scaling,
        variant: variants.Variant,
        keras_model: Optional['tf.keras.Model'],
        estimate: bool = False,
        flag: Flag | None = None,
    ):
        self.models, self.scaling, self.variant = models, scaling, variant
        self.num_ops, self.keras_model = scaling.num_ops, keras_model
        self.reads_opcodes = keras_model is not None
        columns = models.trees.used if models.trees else ()
        self.reads_extra = variant.extra or column_sets.read_extra(
            [*scaling.normalizer.table_ranges, *columns]
        )
        self.estimate, self.flag = estimate, flag

    def check(self, store: splits.PackedSplit) -> splits.PackedSplit:
        """Returns a split with the columns of the training; see `Scorer.check`."""
        store = self.variant.check(store, 'the model was trained on')
        # Only layouts have runs of several collections, and so flags.
        flagged = cast(layout_store.LayoutStore, store)
        return self.flag.of(flagged) if self.flag else store

    def graphs(self, store: splits.PackedSplit) -> protocol.Graphs | None:
        """Returns the graphs of a split with features scaled as in the training.

        Opcodes that the graph model does not know become the unknown one.  None
        where trees score alone: they read the split itself.
        """
        if self.models.graph_model is None:
            return None
        # Trees read the split itself: they count opcodes, known or not.
        store = store.with_opcodes_below(self.num_ops)
        normalizer = self.scaling.normalizer
        return self.models.task.graphs(store, normalizer, False, self.estimate)

    def members(self, store: splits.PackedSplit) -> Iterator[Members]:
        """Yields for each graph a float [configurations] of each member."""
        return self.models.members(store, self.graphs(store))

    def mean(self, members: Members) -> np.ndarray:
        """Averages the members' scores of a graph with their weights."""
        return self.models.mean(members)


class EstimateScorer:
    """Scores graphs by formulas of a TPU v3 alone: `--dir estimate`.

    Tiles by `features.tpu.estimate_columns`, layouts by `layout.estimate`.

    Attributes:
        variant: the published columns.
        num_ops: it knows the opcodes below this number.
    """

    def __init__(self, collection: collections.Collection):
        self._task = lookup.of(collection)
        self.variant = variants.Variant(config_features=collection.config_columns)
        self.num_ops = max(schema.OPCODE_NUMBERS.values()) + 1
        self.reads_opcodes = self.reads_extra = False

    def check(self, store: splits.PackedSplit) -> splits.PackedSplit:
        """Returns a split if its columns are the published ones; see `Scorer.check`."""
        return self.variant.check(store, 'the estimate reads')

    def members(self, store: splits.PackedSplit) -> Iterator[Members]:
        """Yields for each graph a tuple of its float [configurations]."""
        return zip(self._task.estimates(store))

    def mean(self, members: Members) -> np.ndarray:
        """Returns the scores of the one member."""
        return mean_score(members)
