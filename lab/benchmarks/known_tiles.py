"""What trees would rank better if half of a kernel's tiles had been measured.

  python lab/benchmarks/known_tiles.py

The untiled configuration of each kernel of an archive for tests, and half of its tiles
drawn at random, are added to the training kernels, at some multiples of their weight.
The trees, as those of `--model=Trees`, order the pairs of the other tiles.  Other
kernels would hardly teach these trees and columns what they still get wrong there.  The
last row is of the half of the passes that does not judge.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np

from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import tree_table
from baselines.trees import growing
from baselines.trees import tree_scores
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import kernel_kinds

_WEIGHTS = (1.0, 3.0, 10.0)


def main() -> None:
    """Grows the trees, and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--archive', default='by_others_real')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1])
    args = parser.parse_args()
    graphs = judging.load(args.archive, 'test')
    store = judging.store_of(graphs)
    (names, train), (_, valid) = (
        kernel_kinds.rows_of(judging.store_of(judging.load('tile', split)))
        for split in ('train', 'valid')
    )
    of_seeds = []
    for seed in args.seeds:
        rng = np.random.default_rng(seed)
        known = [rng.random(graph.halves.shape[1]) < 0.5 for graph in graphs]
        for mask, graph in zip(known, graphs):
            mask[graph.default] = True  # the columns of all others depend on it
        parts = [train]
        for weight in _WEIGHTS:
            _, added = kernel_kinds.rows_of(known_tiles(store, known), weight)
            parts.append(joined(train, added))
        cells = []
        for rows in parts:
            trees, _ = growing.fit_trees(names, growing.OF_TILES, rows, valid, seed)
            table = tree_table.TreeTable(store, trees.used)
            cells.append(opa(graphs, known, [*tree_scores.scores(trees, table)]))
        of_seeds.append([*cells, opa(graphs, known, judging.of_the_clock(graphs))])
    results.head('tiles of the same kernel that are trained on', 'OPA of the others')
    titles = [f'half, {weight:g} times the weight' for weight in _WEIGHTS]
    for title, of_title in zip(['none', *titles, 'the clock'], zip(*of_seeds)):
        results.row(title, ', '.join(f'{cell:.3f}' for cell in of_title))


def known_tiles(
    store: tile_store.TileStore, known: Sequence[np.ndarray]
) -> tile_store.TileStore:
    """Returns the kernels of which two tiles or more are known, with these alone.

    Args:
        known: bool [configurations] of each kernel.
    """
    per_tile = ('config_feat', 'config_runtime', 'config_runtime_normalizers')
    kernels = []
    for number, mask in enumerate(known):
        if mask.sum() > 1:
            record = store.record(number)
            parts = {name: getattr(record, name)[mask] for name in per_tile}
            kernels.append(dataclasses.replace(record, **parts))
    return tile_store.TileStore.from_records('known', kernels)


def joined(first: growing.Rows, second: growing.Rows) -> growing.Rows:
    """Returns the rows of both; all have weights, as `growing.draw` gives them."""
    both: list[np.ndarray] = [
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ('columns', 'targets', 'weights')
    ]
    return growing.Rows(*both)


def opa(
    graphs: Sequence[judging.Graph], known: Sequence[np.ndarray], scores: judging.Scores
) -> float:
    """Returns the share of pairs of unknown tiles in the right order, a mean."""
    shares = []
    for graph, mask, row in zip(graphs, known, scores):
        if mask.all():
            continue
        correct, total = metrics.ordered_pairs(row[~mask], graph.halves[1][~mask])
        if total:
            shares.append(correct / total)
    return float(np.mean(shares))


if __name__ == '__main__':
    results.run(main)
