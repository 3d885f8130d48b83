"""Model x program -> the scores of its configurations, in bounded memory."""

import dataclasses
from typing import Callable, Dict, Iterator, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines.hlo import arrays
from baselines.layout import graphs as graphs_lib
from baselines.layout import pruned

DEFAULT_MEMORY = 1 << 30

# What an unknown model may keep for a node in a configuration: some tensors of
# a few hundred floats together.
_BYTES_PER_PAIR = 4096

# Longer slices are no faster.
_MOST_CONFIGS = 64

_FIRST = np.zeros([1, 1], np.int64)  # the only program that is packed


class LayoutScorer:
    """Scores all configurations of programs with one model.

    A model that shows its parts as `ResModel` does is evaluated once for each
    distinct state of a node (`pruned`); of any other, `forward` is called with
    slices of configurations.  One whose `scores_depend_on_list` sees random
    lists of them, the same every time (`ListScorer`).

    Args:
        model: has `forward(graph, num_configs)`.
        memory_budget: bytes that a slice of configurations may take, beside the
            program itself and TensorFlow.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = DEFAULT_MEMORY):
        if getattr(model, 'scores_depend_on_list', False):
            self._score = ListScorer(model).score
        elif shows_parts(model):
            self._score = pruned.PrunedScorer(model, memory_budget).score
        else:
            self._score = SlicedScorer(model, memory_budget).score

    def scores(
        self, graphs: Sequence[graphs_lib.Program], numbers: Optional[np.ndarray] = None
    ) -> Iterator[np.ndarray]:
        """See `runs.tasks.ModelScorer`."""
        if numbers is None:
            numbers = np.arange(len(graphs))
        return (self.score(graphs[number]) for number in numbers)

    def chosen(
        self, graphs: Sequence[graphs_lib.Program], configs: Sequence[np.ndarray]
    ) -> Callable[[], Iterator[np.ndarray]]:
        """See `runs.tasks.ModelScorer`."""
        programs = [_subset(graphs[n], some) for n, some in enumerate(configs)]
        return lambda: self.scores(programs)

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the configurations of a program.

        Returns:
            float32 [c]; equal configurations have equal scores.

        Raises:
            ValueError: a score is not finite.
        """
        if len(np.unique(program.group)) < len(program.codes):
            # A split with some configurations: those that are left out cost nothing.
            program = _subset(program, np.arange(program.num_configs))
        scores = self._score(program)
        if not np.isfinite(scores).all():
            raise ValueError(
                f'the model gives {program.graph_id} a score that is not '
                'finite; its weights or the features of this program are '
                'unusable'
            )
        return scores[program.group]


def _subset(program: graphs_lib.Program, configs: np.ndarray) -> graphs_lib.Program:
    """Returns a program with only some of its configurations, int [s]."""
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return dataclasses.replace(
        program,
        codes=program.codes[groups],
        group=group,
        runtimes=program.runtimes[configs],
    )


def shows_parts(model: tf.keras.Model) -> bool:
    """Tells whether `forward` of a model is the sum of its parts.

    It has the methods that `PrunedScorer` calls, and no subclass has replaced
    `forward` without them.
    """

    def owner(name: str):
        classes = [c for c in type(model).__mro__ if name in vars(c)]
        return classes[0] if classes else None

    parts = ['node_inputs', 'prepare', 'variable_sums', 'read_out', 'num_gnns']
    owners = [owner(name) for name in parts]
    return None not in owners and all(
        issubclass(part, owner('forward')) for part in owners
    )


class SlicedScorer:
    """Scores with any model, a slice of the configurations at a time.

    Args:
        model: has `forward(graph, num_configs)`.
        memory_budget: bytes that computing a slice may take.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int):
        self._model = model
        self._budget = memory_budget
        self._compiled: Dict[int, Callable] = {}

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        fit = self._budget // (_BYTES_PER_PAIR * program.num_nodes)
        # Powers of two, so that few sizes are compiled.
        most = 1 << (min(max(fit, 1), _MOST_CONFIGS).bit_length() - 1)
        graphs, distinct = _distinct(program)
        if most not in self._compiled:
            self._compiled[most] = _compiled(self._model, graphs, most)
        scores = np.empty(len(distinct), np.float32)
        for start in range(0, len(distinct), most):
            # The last slice is filled up with its last configuration.
            rows = np.arange(start, start + most).clip(max=len(distinct) - 1)
            packed = graphs.items(_FIRST, distinct[rows][np.newaxis, np.newaxis])
            scores[rows] = self._compiled[most](packed, most).numpy()
        return scores


class ListScorer:
    """Scores with a model that compares the configurations of a list.

    They are cut into lists, several ways, and the scores averaged.  How long a
    list is shapes scores, so it does not depend on memory.

    Args:
        model: has `forward(graph, num_configs)`, also for a tensor num_configs.
    """

    def __init__(self, model: tf.keras.Model):
        self._model = model
        self._compiled: Optional[Callable] = None

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        graphs, distinct = _distinct(program)
        self._compiled = self._compiled or _compiled(self._model, graphs)
        cuts = arrays.list_cuts(len(distinct))
        lists_of = (distinct[chosen][np.newaxis, np.newaxis] for chosen in cuts)
        scored = (
            self._compiled(graphs.items(_FIRST, configs), configs.size).numpy()
            for configs in lists_of
        )
        return arrays.mean_scores(len(distinct), cuts, scored)


def _distinct(program: graphs_lib.Program):
    """Returns a program alone, and a configuration of every group, int64 [u]."""
    graphs = graphs_lib.LayoutGraphs([program])
    return graphs, np.unique(program.group, return_index=True)[1]


def _compiled(
    model: tf.keras.Model,
    graphs: graphs_lib.LayoutGraphs,
    configs: Optional[int] = None,
) -> Callable:
    """Compiles scoring of a program's packed configurations and their number."""

    def score(packed: Dict[str, tf.Tensor], count: tf.Tensor):
        graph, _ = graphs_lib.unpack(packed, 0, 1, configs)
        return model.forward(graph, configs or count)[0]

    signature = [graphs.signature(batch=1), tf.TensorSpec([], tf.int32)]
    return tf.function(score, input_signature=signature)
