"""Distils a tile model into trees that a SavedModel can hold.

trees = distil(predictor)
print(describe(predictor, trees))
"""

from typing import Iterator, List

import numpy as np
import tensorflow as tf

from baselines import text
from baselines.data.packed import splits
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.runs import run_predictor
from baselines.runs import tensorflow_trees
from baselines.runs import trees as trees_lib
from baselines.training import growing

_OPTIONS = growing.Options(rows=1 << 18)
_MEASURES = ('top_1_error', 'top_5_error', 'opa')


def distil(predictor: run_predictor.RunPredictor) -> trees_lib.Trees:
    """Grows trees that score as a run does, from raw columns alone.

    They are grown on the run's training split and its scores, standardised for each
    kernel, and stop where they follow those of the validation split no better.

    Args:
        predictor: a run of tiles.

    Raises:
        ValueError: LightGBM is not installed, or the run's data are unusable.
    """
    trees_lib.check_installed('distilling a run')
    variant = predictor.variant
    names = tensorflow_trees.column_names(
        variant.node_features, variant.config_features
    )
    train, valid = (_rows(predictor, split) for split in ('train', 'valid'))
    return growing.fit(names, _OPTIONS, train, valid, seed=0)[0]


def describe(predictor: run_predictor.RunPredictor, trees: trees_lib.Trees) -> str:
    """Says how much accuracy is lost on the validation split, if it has runtimes."""
    store = predictor.open_split('valid')
    summary = f'distilled into {text.count(trees.count, "tree")} over raw columns'
    if not store.has_runtimes:
        return summary
    forest = tensorflow_trees.forest(trees)
    ours = [forest(table).numpy() for table in _tables(store)]
    overall = [
        report.summarise(
            predictor.collection.task, predictor.task.results(store, scored)
        )['overall']
        for scored in (list(predictor.score(store)), ours)
    ]
    titles = {m.key: m.title for m in metrics.MEASURES[predictor.collection.task]}
    changes = [
        f'{titles[key]} ' + ' -> '.join(f'{one[key]["mean"]:.3f}' for one in overall)
        for key in _MEASURES
        if overall[0][key]['mean'] is not None
    ]
    title = report.data_title(predictor.describe(store))
    return f'{summary}; {title}: {", ".join(changes)}'


def _rows(predictor: run_predictor.RunPredictor, split: str) -> growing.Rows:
    """Draws configurations evenly from kernels, with the scores of the run."""
    store = predictor.open_split(split)
    rng = np.random.default_rng(0)
    counts = store.config_counts
    shares = np.minimum(counts, growing.even_share(list(counts), _OPTIONS.rows))
    tables: List[np.ndarray] = []
    targets: List[np.ndarray] = []
    for table, scores, share in zip(_tables(store), predictor.score(store), shares):
        drawn = rng.permutation(len(scores))[:share]
        tables.append(table.numpy()[drawn])
        spread = scores.std() or 1.0  # equal scores: nothing to follow
        targets.append((scores[drawn] - scores.mean()) / spread)
    weights = np.repeat(shares**-0.5, shares)
    return growing.Rows(
        np.concatenate(tables), np.concatenate(targets).astype(np.float64), weights
    )


def _tables(store: splits.PackedSplit) -> Iterator[tf.Tensor]:
    """Yields `tensorflow_trees.columns` of each kernel."""
    names = ('node_feat', 'node_opcode', 'config_feat')
    for graph in range(store.num_graphs):
        yield tensorflow_trees.columns(
            {n: tf.constant(store.part(n, graph)) for n in names}
        )
