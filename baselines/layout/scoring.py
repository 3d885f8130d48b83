"""Model x program -> the scores of its configurations, in bounded memory."""

from typing import Callable, Dict

import numpy as np
import tensorflow as tf

from baselines.layout import graphs as graphs_lib
from baselines.layout import lists
from baselines.layout import pruned

DEFAULT_MEMORY = 1 << 30

# What an unknown model may keep for a node in a configuration: some tensors of
# a few hundred floats together.
_BYTES_PER_PAIR = 4096

# Longer slices are no faster.
_MOST_CONFIGS = 64


class LayoutScorer:
    """Scores all configurations of programs with one model.

    A model that shows its parts as `ResModel` does is evaluated once for each
    distinct state of a node (`pruned`); of any other, `forward` is called with
    slices of configurations.  One whose `scores_depend_on_list` sees random
    lists of them, the same every time (`lists`).

    Args:
        model: has `forward(graph, num_configs)`.
        memory_budget: bytes that a slice of configurations may take, beside the
            program itself and TensorFlow.
    """

    def __init__(self, model: tf.keras.Model, memory_budget: int = DEFAULT_MEMORY):
        if getattr(model, 'scores_depend_on_list', False):
            self._score = lists.ListScorer(model).score
        elif shows_parts(model):
            self._score = pruned.PrunedScorer(model, memory_budget).score
        else:
            self._score = SlicedScorer(model, memory_budget).score

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the configurations of a program.

        Returns:
            float32 [c]; equal configurations have equal scores.

        Raises:
            ValueError: a score is not finite.
        """
        scores = self._score(program)
        if not np.isfinite(scores).all():
            raise ValueError(
                f'the model gives {program.graph_id} a score that is not '
                'finite; its weights or the features of this program are '
                'unusable'
            )
        return scores[program.group]


def shows_parts(model: tf.keras.Model) -> bool:
    """Whether `forward` of a model is the sum of its parts.

    It has the methods that `PrunedScorer` calls, and no subclass has replaced
    `forward` without them.
    """

    def owner(name):
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
        graphs = graphs_lib.LayoutGraphs([program])
        score = self._score_function(graphs, most)
        distinct = np.unique(program.group, return_index=True)[1]
        scores = np.empty(len(distinct), np.float32)
        for start in range(0, len(distinct), most):
            # The last slice is filled up with its last configuration.
            rows = np.arange(start, start + most).clip(max=len(distinct) - 1)
            packed = graphs.items(
                np.zeros([1, 1], np.int64), distinct[rows][np.newaxis, np.newaxis]
            )
            scores[rows] = score(packed).numpy()
        return scores

    def _score_function(self, graphs, configs: int) -> Callable:
        if configs not in self._compiled:

            def score(packed):
                graph, _ = graphs_lib.unpack(packed, 0, 1, configs)
                return self._model.forward(graph, configs)[0]

            self._compiled[configs] = tf.function(
                score, input_signature=[graphs.signature(batch=1)]
            )
        return self._compiled[configs]
