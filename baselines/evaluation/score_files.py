"""Reads what any model predicts of a split: the ranking CSV, or scores as npz.

ID,TopConfigs                      see `submission`; the ID names the collection
{graph ID: float [configurations]}   lower is predicted faster; the ID of the CSV, too
"""

from collections.abc import Mapping, Sequence
import sys
from typing import NamedTuple

import numpy as np

from baselines.core import files
from baselines.core import npz
from baselines.core import text
from baselines.evaluation import submission

_MAX_BYTES = 1 << 30  # the scores of 134 million configurations


class FileScores(NamedTuple):
    """The scores of the graphs that a file has."""

    by_graph: dict[str, np.ndarray]  # ID -> [configurations], lower = predicted faster
    # how many of the configurations ranked first are in order, the others being equal;
    # None: all of them
    first: int | None = None

    def in_order(
        self, counts: Mapping[str, int], chosen: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Returns the scores of all graphs of a split, 0 where the file has none.

        Args:
            counts: as for `read`.
            chosen: for each graph int [s], the configurations to take; [] for all.
        """
        scores = [self.by_graph.get(name, np.zeros(n)) for name, n in counts.items()]
        return [s[rows] for s, rows in zip(scores, chosen)] if chosen else scores


def read(path: str, collection: str, counts: Mapping[str, int]) -> FileScores:
    """Reads the scores of a split's graphs; notes how many of them the file lacks.

    Args:
        path: a CSV, or an npz, by its ending.
        collection: such as 'tile:xla'; rows of others are left out.
        counts: graph ID -> number of its configurations, of the whole split.

    Raises:
        ValueError: the file is damaged or too large, has a graph that the split does
            not have or one twice, none at all, or not the scores or choices that its
            configurations need.
        OSError: it cannot be read.
    """
    read_format = _read_npz if path.lower().endswith('.npz') else _read_csv
    scores = read_format(path, collection, counts)
    missing = [graph_id for graph_id in counts if graph_id not in scores.by_graph]
    if missing:
        text.note(
            f'{path} lacks {len(missing):,} of {text.count(len(counts), "graph")}, '
            f'{missing[0]} first; the others are measured'
        )
    return scores


def _read_npz(path: str, collection: str, counts: Mapping[str, int]) -> FileScores:
    """Reads arrays of scores."""
    stored = npz.read_all(files.expand(path), _MAX_BYTES)
    arrays = {name.removeprefix(f'{collection}:'): x for name, x in stored.items()}
    if len(arrays) < len(stored):
        both = next(name for name in stored if f'{collection}:{name}' in stored)
        raise ValueError(f'{path}: has {both} with and without {collection}:')
    _check_known_graphs(path, [*arrays], collection, counts)
    schema = {name: npz.Field('fiu', (counts[name],)) for name in arrays}
    return FileScores(npz.check_arrays(path, arrays, schema))


def _read_csv(path: str, collection: str, counts: Mapping[str, int]) -> FileScores:
    """Turns choices into scores: 0, 1, 2, ... in their order, and equal ones after."""
    rows = submission.read_predictions(path, padded=True)
    chosen = {
        row.id.rpartition(':')[2]: list(dict.fromkeys(row.configs))
        for row in rows
        if row.collection == collection
    }
    if not chosen:
        raise ValueError(
            f'{path}: ranks {rows[0].collection}, not {collection}; see --collection'
        )
    _check_known_graphs(path, [*chosen], collection, counts)
    most = submission.TILE_CHOICES if collection.startswith('tile') else sys.maxsize
    scores, shorter = {}, []
    for graph_id, configs in chosen.items():
        count = counts[graph_id]
        needed = min(most, count)
        if len(configs) < needed or max(configs) >= count:
            raise ValueError(
                f'{path}: {graph_id} must rank {needed} of the configurations 0 to '
                f'{count - 1}, not {len(configs)} of 0 to {max(configs)}'
            )
        scores[graph_id] = np.full(count, len(configs), np.float64)
        scores[graph_id][configs] = np.arange(len(configs))
        if len(configs) < count:
            shorter.append(len(configs))
    return FileScores(scores, min(shorter, default=None))


def _check_known_graphs(
    path: str, graph_ids: Sequence[str], collection: str, counts: Mapping[str, int]
) -> None:
    """Raises ValueError unless a file has graphs, all of which are in the split."""
    unknown = [graph_id for graph_id in graph_ids if graph_id not in counts]
    if unknown:
        raise ValueError(
            f'{path}: {text.quoted(unknown[0])} is no graph of this split of '
            f'{collection}; see --split and --collection'
        )
    if not graph_ids:
        raise ValueError(f'{path}: holds no graph')
