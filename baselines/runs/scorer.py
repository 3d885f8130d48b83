"""Scores of a run: those of its graph model, of its trees, or the mean of both."""

from typing import Any, Iterator, Optional

import numpy as np

from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.runs import tasks
from baselines.runs import trees as trees_lib


class Scorer:
    """Scores graphs with a graph model, trees, or both.

    Args:
        task: whose graphs.
        model: scores with the graph model; None where trees do alone.
        trees: None where the graph model does alone.
    """

    def __init__(
        self,
        task: tasks.Task,
        model: Optional[tasks.ModelScorer],
        trees: Optional[trees_lib.Trees],
    ):
        self._task, self._model, self._trees = task, model, trees

    def scores(
        self,
        store: splits.PackedSplit,
        graphs: Any = None,
        numbers: Optional[np.ndarray] = None,
    ) -> Iterator[np.ndarray]:
        """Yields float32 [configurations] of each graph; lower is faster.

        Args:
            store: a split.
            graphs: the same, from `Task.graphs`; None where trees do alone.
            numbers: int64, of the graphs, ascending; None for all.
        """
        parts = []
        if self._model is not None:
            parts.append(self._model.scores(graphs, numbers))
        if self._trees is not None:
            table = self._task.table(store, self._trees.used, graphs)
            parts.append(trees_lib.scores(self._trees, table, numbers))
        if len(parts) == 1:
            return parts[0]
        return (ensembles.average(both, by='standard') for both in zip(*parts))
