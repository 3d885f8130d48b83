"""Scores graphs with a graph model, trees, both, or a fixed formula."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, cast

import numpy as np

from baselines.core import arrays
from baselines.core import registry
from baselines.core import text
from baselines.data.packed import splits
from baselines.features import column_sets
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import schema
from baselines.tasks import lookup
from baselines.tasks import protocol

if TYPE_CHECKING:
    import tensorflow as tf

    from baselines.data.layout import store as layout_store
    from baselines.trees import booster

# A graph is unlike those of a training if it multiplies so many times as much as any.
_UNLIKE = 10


class Flag(NamedTuple):
    """The collection of the graphs that a run of several scores."""

    collection: str  # its name
    trained_on: Sequence[str]  # names of all collections of the run's training

    @property
    def values(self) -> list[float]:
        """What the flag columns of the collection's nodes hold."""
        return [float(name == self.collection) for name in self.trained_on]


@dataclasses.dataclass(frozen=True, eq=False)
class Scorer:
    """Scores the graphs of splits; the members' scores are averaged.

    The members are a graph model, trees, or both; without any, the formula of the task
    scores (`Task.estimates`).
    """

    task: lookup.AnyTask  # of the graphs
    variant: splits.Variant  # columns of the splits
    graph_model: protocol.Scorer | None = None  # None where trees score alone
    trees: Optional['booster.Trees'] = None  # None where the graph model scores alone
    # of both in their mean; None: equal. Where both are 0, the formula that they begin
    # with scores alone.
    weights: Sequence[float] | None = None
    # of the largest graph that they were trained on, if they begin with a formula
    most_multiply_adds: float | None = None
    # of the features that the graph model reads; None of a formula, and in a training
    scaling: normalizer_lib.Scaling | None = None
    # the graph model as Keras made it, of a run
    keras_model: Optional['tf.keras.Model'] = None
    adds_to_formula: bool = False  # whether a graph model of layouts does (--estimate)
    flag: Flag | None = None  # of the graphs, for a run of several collections

    @property
    def num_ops(self) -> int:
        """The graph model knows the opcodes below this number."""
        if self.scaling is None:
            return max(schema.OPCODE_NUMBERS.values()) + 1
        return self.scaling.num_ops

    @property
    def reads_extra(self) -> bool:
        """Whether it reads `node_feat_extra` of graphs that have it."""
        sets = self.scaling.normalizer.table_ranges if self.scaling else ()
        columns = self.trees.used if self.trees else ()
        names = [*sets, *columns]
        return self.variant.extra or bool(names) and column_sets.read_extra(names)

    @property
    def is_formula_alone(self) -> bool:
        """Whether scores are those of the formula, and no trained part has a weight."""
        if self.graph_model is None and self.trees is None:
            return True
        return self.weights is not None and not any(self.weights)

    def check(self, store: splits.PackedSplit) -> splits.PackedSplit:
        """Returns a split with the columns that are read.

        Raises:
            ValueError: it does not have them; says in what it differs.
        """
        than = 'the model was trained on' if self.scaling else 'the estimate reads'
        store = self.variant.check(store, than)
        if self.flag is None:
            return store
        from baselines.data.layout import joint

        # Only layouts have runs of several collections, and so flags.
        flagged = {self.flag.collection: cast('layout_store.LayoutStore', store)}
        return joint.JointStore(flagged, self.flag.trained_on)

    def graphs(self, store: splits.PackedSplit) -> protocol.Graphs | None:
        """Returns the graphs of a checked split, scaled as in the training.

        Opcodes that the graph model does not know become the unknown one.  None
        without a graph model: trees and formulas read the split itself, and trees
        count opcodes, known or not.
        """
        if self.scaling is None or self.graph_model is None:
            return None
        store = store.with_opcodes_below(self.num_ops)
        normalizer = self.scaling.normalizer
        return self.task.graphs(store, normalizer, False, self.adds_to_formula)

    def members(
        self,
        store: splits.PackedSplit,
        graphs: protocol.Graphs | None,
        numbers: np.ndarray | None = None,
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields for each graph a float [configurations] of each member.

        What was learned says nothing about graphs that are unlike those of the
        training: there the formula scores alone, and a note says so.

        Args:
            store: a checked split.
            graphs: its graphs, from `graphs`.
            numbers: int64, of the graphs, ascending; None for all.
        """
        if self.is_formula_alone:
            return zip(self.task.estimates(store, numbers))
        if numbers is None:
            numbers = np.arange(len(store))
        unlike = self._is_unlike(store, numbers)
        if not unlike.any():
            return self._score_learned(store, graphs, numbers)
        formula = zip(self.task.estimates(store, numbers[unlike]))
        learned = self._score_learned(store, graphs, numbers[~unlike])
        # Both come in the order of their graphs, so the next one is this graph's.
        return (next(formula if each else learned) for each in unlike)

    def scores(
        self,
        store: splits.PackedSplit,
        graphs: protocol.Graphs | None,
        numbers: np.ndarray | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields the mean of the members of each graph; see `members`."""
        return map(self.mean, self.members(store, graphs, numbers))

    def mean(self, members: tuple[np.ndarray, ...]) -> np.ndarray:
        """Averages a graph's scores by the members, each scaled to a deviation of 1."""
        if len(members) == 1:
            return members[0]
        from baselines.evaluation import ensembles

        return ensembles.average(members, self.weights, by='standard')

    def _is_unlike(self, store: splits.PackedSplit, numbers: np.ndarray) -> np.ndarray:
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

    def _score_learned(
        self, store: splits.PackedSplit, graphs: protocol.Graphs, numbers: np.ndarray
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the scores of graph model and trees; see `members`."""
        parts = []
        if self.graph_model is not None:
            parts.append(self.graph_model.scores(graphs, numbers))
        if self.trees is not None:
            from baselines.trees import tree_scores

            table = self.task.table(store, self.trees.used, graphs)
            parts.append(tree_scores.scores(self.trees, table, numbers))
        return zip(*parts)


def note_ties(
    name: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yields the scores of a split; notes at the end if none depends on configurations.

    Args:
        name: the source of the scores, for the note.
    """
    tied = []
    for number, scores in enumerate(scored, 1):
        if len(scores) > 1:
            tied.append(arrays.are_scores_equal(scores))
        # Before the last scores: a `zip` with the graphs' names asks for no more.
        if number == len(store) and tied and all(tied):
            text.note(
                f'{name} gives all configurations of a {store.noun} the same score: '
                'its ranking is no better than random choice'
            )
        yield scores


def make_model(
    task: lookup.AnyTask,
    model_class: type,
    kwargs: Mapping[str, Any],
    num_configs: int,
    num_ops: int,
    normalizer: normalizer_lib.Normalizer,
) -> 'tf.keras.Model':
    """Makes a graph model and its variables.

    A model whose constructor takes `scaling` is given the normaliser, to undo it.

    Args:
        model_class: from `registry.find_model_class`.
        kwargs: its options.
        num_configs: configurations of a graph in a training step.

    Raises:
        ValueError: an option is unknown.
    """
    graph = task.make_example_graph(normalizer)
    return registry.construct_model(
        model_class,
        num_configs,
        num_ops,
        kwargs,
        normalizer.to_json(),
        lambda model: model.forward(graph, 2),
    )
