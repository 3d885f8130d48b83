"""What trees would rank better if half of a kernel's tiles had been measured.

  python benchmarks/known_tiles.py

The untiled configuration of each kernel of an archive for tests, and half of its tiles
drawn at random, are added to the training kernels, at some multiples of their weight.
The trees, as those of `--model=Trees`, order the pairs of the other tiles.  What they
still get wrong, no number of other kernels would teach them with these columns.  The
last row is of the half of the passes that does not judge.
"""

import dataclasses
from typing import List, NamedTuple, Sequence

import judging
import numpy as np
import results

from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import tile_table
from baselines.tasks import lookup
from baselines.trees import growing
from baselines.trees import scoring

_WEIGHTS = (0.0, 1.0, 3.0, 10.0)


class Table(NamedTuple):
    """Columns of trees: their names, and the rows."""

    names: List[str]
    rows: growing.Rows


def main() -> None:
    """Grows the trees, and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--archive', default='by_others_real')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1])
    args = parser.parse_args()
    graphs = judging.load(args.archive, 'test')
    train, valid = (
        table_of(judging.store_of(judging.load('tile', split)))
        for split in ('train', 'valid')
    )
    of_seeds = []
    for seed in args.seeds:
        rng = np.random.default_rng(seed)
        known = [rng.random(graph.halves.shape[1]) < 0.5 for graph in graphs]
        for mask, graph in zip(known, graphs):
            mask[graph.default] = True  # the columns of all others depend on it
        of_seeds.append(
            [
                *(opa_of(graphs, known, train, valid, w, seed) for w in _WEIGHTS),
                opa(graphs, known, judging.of_the_clock(graphs)),
            ]
        )
    results.head('tiles of the same kernel that are trained on', 'OPA of the others')
    titles = [
        'none',
        *(f'half, {weight:g} times the weight' for weight in _WEIGHTS[1:]),
    ]
    for title, cells in zip([*titles, 'the clock'], zip(*of_seeds)):
        results.row(title, ', '.join(f'{cell:.3f}' for cell in cells))


def opa_of(
    graphs: Sequence[judging.Graph],
    known: Sequence[np.ndarray],
    train: Table,
    valid: Table,
    weight: float,
    seed: int,
) -> float:
    """Grows trees with the known tiles, and judges them on the others.

    Args:
        known: bool [configurations] of each graph.
        weight: of a known tile, where a training tile's is 1; 0 leaves them out.
    """
    rows = train.rows
    if weight:
        added = table_of(known_tiles(graphs, known), weight).rows
        rows = growing.Rows(
            np.concatenate([rows.columns, added.columns]),
            np.concatenate([rows.targets, added.targets]),
            np.concatenate([weights_of(rows), weights_of(added)]),
        )
    trees, _ = growing.fit(train.names, growing.OF_TILES, rows, valid.rows, seed)
    table = tile_table.TreeTable(judging.store_of(graphs), trees.used)
    return opa(graphs, known, [*scoring.scores(trees, table)])


def table_of(store: tile_store.TileStore, weight: float = 1.0) -> Table:
    """Returns the columns and targets of all tiles of a split."""
    task, table = lookup.TASKS['tile'], tile_table.TreeTable(store)
    everything, rng = np.arange(store.num_graphs), np.random.default_rng(0)
    rows = growing.draw(rng, task, store, table, everything, 1 << 30, weight)
    return Table(table.names, rows)


def weights_of(rows: growing.Rows) -> np.ndarray:
    """Returns the weights of rows: float64 [rows]."""
    return np.ones(len(rows.targets)) if rows.weights is None else rows.weights


def known_tiles(
    graphs: Sequence[judging.Graph], known: Sequence[np.ndarray]
) -> tile_store.TileStore:
    """Returns the kernels of which two tiles or more are known, with these alone."""
    per_tile = ('config_feat', 'config_runtime', 'config_runtime_normalizers')
    kernels = []
    for graph, mask in zip(graphs, known):
        record = records.read_tile(graph.path)
        parts = {name: getattr(record, name)[mask] for name in per_tile}
        if mask.sum() > 1:
            kernels.append(dataclasses.replace(record, **parts))
    return tile_store.TileStore.of_records('known', kernels)


def opa(
    graphs: Sequence[judging.Graph], known: Sequence[np.ndarray], scores: judging.Scores
) -> float:
    """Returns the share of pairs of unknown tiles in the right order, a mean."""
    shares = []
    for graph, mask, row in zip(graphs, known, scores):
        correct, total = metrics.ordered_pairs(row[~mask], graph.halves[1][~mask])
        if total:
            shares.append(correct / total)
    return float(np.mean(shares))


if __name__ == '__main__':
    results.run(main)
