"""Grows gradient-boosted trees with LightGBM.

rows = draw_rows(rng, task, store, table, graphs, most=1000)
trees, losses = fit(table.names, TreeOptions(), rows, None, seed=0)
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, NamedTuple

import numpy as np

from baselines.core import phases
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.tasks import protocol
from baselines.trees import booster as trees_lib
from baselines.trees import nodes
from baselines.trees import tree_scores


@dataclasses.dataclass(frozen=True)
class TreeOptions:
    """Options of growing trees, as in --model_kwargs_json.

    Attributes:
        trees: most of them; fewer where validation stops getting better.
        patience: trees in a row that are no better before growing ends.
        learning_rate: the share of a new tree in the prediction.
        num_leaves: most leaves of a tree.
        min_leaf: fewest rows in a leaf; a hundredth of all, but 2, if that is less.
        column_share: the share of the columns that a tree may use.
        row_share: the share of the rows that a tree is grown on.
        rows: most configurations to train on, drawn evenly from all graphs.
    """

    trees: int = settings_lib.setting(600, low=1, high=trees_lib.MAX_TREES)
    patience: int = settings_lib.setting(50, low=1)
    learning_rate: float = settings_lib.setting(0.08, low=1e-6, high=1)
    num_leaves: int = settings_lib.setting(63, low=2, high=nodes.MAX_LEAVES)
    min_leaf: int = settings_lib.setting(20, low=1)
    column_share: float = settings_lib.setting(0.5, low=1e-3, high=1)
    row_share: float = settings_lib.setting(0.8, low=1e-3, high=1)
    rows: int = settings_lib.setting(1 << 19, low=100, high=1 << 24)

    def replace_options(self, kwargs: Mapping[str, Any]) -> 'TreeOptions':
        """Returns these with the options of --model_kwargs_json.

        Raises:
            ValueError: there is no such option, or it is out of range.
        """
        names = [field.name for field in dataclasses.fields(self)]
        registry.check_options(registry.TREES, kwargs, names)
        with text.locate_errors('--model_kwargs_json'):
            changes = settings_lib.convert_types(type(self), kwargs)
            options = dataclasses.replace(self, **changes)
            settings_lib.check_ranges(options)
        return options


# With a graph model: they score three times as fast, and the mean of both is as good.
# More rows of layouts would take more time and memory than the graph model does
# (benchmarks/full_size.py).
FEWER = TreeOptions(trees=250, learning_rate=0.15, rows=1 << 16)
# Of kernels, alone or with a graph model.  With half of the columns, half of the trees
# would not see which of XLA's runtimes measured a kernel; three times as many trees are
# a little better (docs/findings/experiments.md#trees-of-tiles).
# Trees that rank the validation split no better still rank other people's programs
# better, so growing does not end soon.
OF_TILES = TreeOptions(trees=500, learning_rate=0.1, column_share=0.9, patience=200)


class Rows(NamedTuple):
    """Configurations that trees are grown on, or checked with."""

    columns: np.ndarray  # float32 [rows, columns], `booster.round_columns`
    targets: np.ndarray  # float64 [rows]
    weights: np.ndarray | None = None  # float64 [rows]; None: all 1
    # float64 [rows], normal scores of the prior's column; None without one
    prior: np.ndarray | None = None


def draw_rows(
    rng: np.random.Generator,
    task: protocol.Task[Any],
    store: splits.PackedSplit,
    table: protocol.Table,
    graphs: np.ndarray,
    most: int,
    weights: float | np.ndarray = 1.0,
) -> Rows:
    """Draws configurations evenly from graphs: their columns, and targets to predict.

    Where Kendall's tau is the measure, targets are the normal scores of ranks: most
    measured layouts differ by a thousandth of the difference to a few slow ones.  For
    tiles, centred log runtimes are added, as it matters how much slower a tile is;
    alone, they would let the slowest tiles of a kernel dominate.

    Large graphs count more than small ones, but less than by their number of
    configurations: by its square root.

    Args:
        weights: float64 [graphs], the weights of the graphs; a number: all alike.
    """
    counts = table.counts[graphs]
    shares = np.minimum(counts, find_even_share(counts, most))
    configs = [rng.permutation(c)[:s] for c, s in zip(counts, shares, strict=True)]
    rows = np.repeat(graphs, shares), np.concatenate(configs)
    columns = np.empty((len(rows[0]), len(table.names)), np.float32)
    start = 0
    for part in tree_scores.read_slices(table, *rows):
        columns[start : start + len(part)] = part
        start += len(part)
    prior = None
    if task.prior:
        ends = np.cumsum(shares)[:-1]
        parts = np.split(columns[:, table.names.index(task.prior)], ends)
        prior = np.concatenate([ensembles.get_normal_scores(part) for part in parts])
    trees_lib.round_columns(columns, out=columns)  # a copy would take half a gigabyte
    targets = []
    for graph, drawn in zip(graphs, configs, strict=True):
        labels = store.labels(graph)[drawn]
        targets.append(ensembles.get_normal_scores(labels))
        if task.judged_by == 'opa':
            logs = np.log(labels)
            targets[-1] += logs - logs.mean()
    # Together the rows of a graph weigh shares * shares^-0.5, its square root.
    of_rows = np.repeat(weights * shares**-0.5, shares)
    return Rows(columns, np.concatenate(targets), of_rows, prior)


def fit_trees(
    names: Sequence[str],
    options: TreeOptions,
    train: Rows,
    valid: Rows | None,
    seed: int,
    prior: str = '',
) -> tuple[trees_lib.Trees, dict[str, list[float]]]:
    """Fits trees to rows; stops when validation does not get better.

    Args:
        train: at least two rows.
        valid: rows that decide when to stop; None for no validation.
        prior: name of the column that the trees correct: they are grown on what its
            normal scores, times the weight that fits best, leave of the targets.

    Returns:
        The trees, and the mean squared errors `train_loss` and `val_loss` by tree.
    """
    lightgbm = starting.import_lightgbm()
    weight = _fit_prior_weight(train)
    curve: dict[str, dict[str, list[float]]] = {}
    sets: list[Any] = []
    for rows in filter(None, (train, valid)):
        residuals = rows.targets
        if rows.prior is not None:
            residuals = residuals - weight * rows.prior
        sets.append(
            lightgbm.Dataset(
                rows.columns,
                residuals,
                reference=sets[0] if sets else None,
                weight=rows.weights,
                feature_name=list(names),
            )
        )
    callbacks = [lightgbm.record_evaluation(curve)]
    if valid is not None:
        callbacks.append(lightgbm.early_stopping(options.patience, verbose=False))
    fewest = max(2, len(train.targets) // 100)
    with phases.Phase('growing trees', options.trees, 'tree') as phase:
        grown = lightgbm.train(
            {
                'objective': 'regression',
                'metric': 'l2',
                'learning_rate': options.learning_rate,
                'num_leaves': options.num_leaves,
                'min_data_in_leaf': min(options.min_leaf, fewest),
                'feature_fraction': options.column_share,
                'bagging_fraction': options.row_share,
                'bagging_freq': 1,  # a new sample for each tree
                'bin_construct_sample_cnt': 50_000,
                'deterministic': True,
                'force_row_wise': True,  # else chosen by timing, which varies
                'num_threads': 0,  # as many as there are cores
                'seed': seed,
                'verbose': -1,
            },
            sets[0],
            options.trees,
            valid_sets=sets,
            valid_names=['training', 'valid'][: len(sets)],
            callbacks=[*callbacks, lambda done: phase.update()],
        )
    content = grown.model_to_string(num_iteration=grown.best_iteration)
    keys = {'training': 'train_loss', 'valid': 'val_loss'}
    losses = {name: curve[key]['l2'] for key, name in keys.items() if key in curve}
    added = trees_lib.Prior(prior, weight) if prior and weight else None
    return trees_lib.Trees(trees_lib.shorten_leaves(content), added), losses


def _fit_prior_weight(rows: Rows) -> float:
    """Returns the factor of the prior that fits the targets best; at least 0."""
    if rows.prior is None or not rows.prior.any():
        return 0.0
    scaled = rows.prior if rows.weights is None else rows.prior * rows.weights
    # Weighted least squares with one regressor.
    weight = float(scaled @ rows.targets / (scaled @ rows.prior))
    return round(max(0.0, weight), 6)


def find_even_share(counts: Sequence[int], most: int) -> int:
    """Returns the largest s >= 1 so that min(s, count) add up to `most` at most."""
    # [max count]: how many counts are at least 1, 2, ..; their sums are those for s.
    reached = np.bincount(counts)[:0:-1].cumsum()[::-1]
    return max(1, int(np.searchsorted(np.cumsum(reached), most, 'right')))
