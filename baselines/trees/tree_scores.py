"""Scores the rows of a table with trees, in bounded memory."""

from collections.abc import Iterator

import numpy as np

from baselines.core import arrays
from baselines.evaluation import ensembles
from baselines.tasks import protocol
from baselines.trees import booster

_ROWS = 1 << 14  # of a table at once


def scores(
    trees: booster.Trees, table: protocol.Table, numbers: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Yields the scores of each graph's configurations, in bounded memory.

    Args:
        table: the columns that they use.
        numbers: int64, the numbers of the graphs; None for all.
    """
    if numbers is None:
        numbers = np.arange(len(table.counts))
    for group in arrays.group_pieces(table.counts[numbers], _ROWS):
        graphs = numbers[group]
        sizes = table.counts[graphs]
        configs = arrays.concatenate_ranges(np.zeros_like(sizes), sizes)
        ends = np.cumsum(sizes)[:-1]
        predicted, of_prior = [], []
        for columns in read_slices(table, np.repeat(graphs, sizes), configs):
            predicted.append(trees.predict(columns))
            if trees.prior:
                of_prior.append(columns[:, trees.used.index(trees.prior.column)])
        parts = np.split(np.concatenate(predicted), ends)
        if trees.prior:
            for part, column in zip(parts, np.split(np.concatenate(of_prior), ends)):
                part += trees.prior.weight * ensembles.get_normal_scores(column)
        yield from (part.astype(np.float32) for part in parts)


def read_slices(
    table: protocol.Table, graphs: np.ndarray, configs: np.ndarray
) -> Iterator[np.ndarray]:
    """Yields rows of a table in slices, which bound the memory."""
    for start in range(0, len(graphs), _ROWS):
        rows = slice(start, start + _ROWS)
        yield table.rows(graphs[rows], configs[rows])
