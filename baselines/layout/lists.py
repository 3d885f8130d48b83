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
        total, times = np.zeros(len(distinct)), np.zeros(len(distinct))
        for chosen in lists.list_cuts(len(distinct)):
            packed = graphs.items(
                np.zeros([1, 1], np.int64), distinct[chosen][np.newaxis, np.newaxis]
            )
            total[chosen] += self._forward(graphs)(packed, len(chosen)).numpy()
            times[chosen] += 1
        return (total / times).astype(np.float32)

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
