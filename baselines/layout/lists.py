"""Scores configurations with a model that compares those of a list."""

import numpy as np
import tensorflow as tf

from baselines.data import config_lists as lists
from baselines.layout import graphs as graphs_lib


class ListScorer:
    """Cuts configurations into lists, several ways, and averages their scores.

    How long a list is shapes scores, so it does not depend on memory.

    Args:
        model: has `forward(graph, num_configs)`, also for a tensor num_configs.
    """

    def __init__(self, model: tf.keras.Model):
        self._model = model
        self._compiled = None

    def score(self, program: graphs_lib.Program) -> np.ndarray:
        """Scores the distinct configurations: float32 [u]."""
        graphs = graphs_lib.LayoutGraphs([program])
        distinct = np.unique(program.group, return_index=True)[1]
        cuts = lists.list_cuts(len(distinct))
        scored = (self._score_list(graphs, distinct[chosen]) for chosen in cuts)
        return lists.mean_scores(len(distinct), cuts, scored)

    def _score_list(self, graphs, configs: np.ndarray) -> np.ndarray:
        packed = graphs.items(
            np.zeros([1, 1], np.int64), configs[np.newaxis, np.newaxis]
        )
        return self._forward(graphs)(packed, len(configs)).numpy()

    def _forward(self, graphs):
        if self._compiled is None:

            def score(packed, configs):
                graph, _ = graphs_lib.unpack(packed, 0, 1)
                return self._model.forward(graph, configs)[0]

            self._compiled = tf.function(
                score,
                input_signature=[
                    graphs.signature(batch=1),
                    tf.TensorSpec([], tf.int32),
                ],
            )
        return self._compiled
