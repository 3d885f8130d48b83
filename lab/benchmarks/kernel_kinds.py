"""What kinds of the measured training kernels are worth to trees.

  python lab/benchmarks/kernel_kinds.py --seeds 0 1

Grows trees as those of `--recipe=strong --model=Trees`, but 200 with a learning rate of
0.12, on parts of the train split of the collection that ships: without kernels of an
origin, of a release of XLA, or of a size; and of some of the programs.  They are judged
on `test`, `by_others` and `by_others_real` as `leaderboard.py` does; the last one by
the time of its kernels, too.
"""

from collections.abc import Callable
import dataclasses
import re
import zlib

import numpy as np

from baselines.data import hardware
from baselines.data.tile import store as tile_store
from baselines.features import tree_table
from baselines.tasks import lookup
from baselines.trees import booster
from baselines.trees import growing
from baselines.trees import tree_scores
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import leaderboard
from lab.benchmarks import time_saved
from tpugraphs_lab.columns import release_columns

_OPTIONS = dataclasses.replace(growing.OF_TILES, trees=200, learning_rate=0.12)
_SMALLEST = time_saved.SIZE_CLASSES[0]


def main() -> None:
    """Grows trees on each part, and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1])
    parser.add_argument('--only', default='', help='a pattern of titles of parts')
    args = parser.parse_args()
    grower = Grower()
    judged = [*leaderboard.parts('tile')]
    stores = [judging.store_of(part.graphs) for part in judged]
    of_size = [f'{judged[-1].name}, {size}' for size in time_saved.SIZE_CLASSES]
    heads = [f'{name}, {p.name}' for p in judged for name in ('top-5 error', 'OPA')]
    results.head('training kernels', *heads, *(f'OPA, {title}' for title in of_size))
    for title, is_left_out in kinds(grower.graphs).items():
        if not re.search(args.only, title):
            continue
        kept = np.array([not is_left_out(graph) for graph in grower.graphs])
        figures: list[list[np.ndarray]] = [[] for _ in judged]
        for seed in args.seeds:
            trees = grower.grow(kept, seed)
            for place, (test, store) in enumerate(zip(judged, stores)):
                columns = tree_table.TreeTable(store, trees.used)
                scores = [*tree_scores.scores(trees, columns)]
                of_all = judging.figures('tile', test.graphs, scores)
                figures[place].append(of_all[:, 1:3])
        cells = []
        for of_seeds in figures:
            means = np.array([values.mean(0) for values in of_seeds])
            spread = means.std(0, ddof=1) if len(means) > 1 else np.zeros(2)
            for at, form in enumerate(('.1%', '.3f')):
                cells.append(f'{means[:, at].mean():{form}} ± {spread[at]:{form}}')
        sizes = np.array([judging.size_class(graph) for graph in judged[-1].graphs])
        opa = np.mean(figures[-1], axis=0)[:, 1]
        cells += [
            f'{opa[sizes == size].mean():.3f}' for size in time_saved.SIZE_CLASSES
        ]
        results.row(f'{title}: {kept.sum():,}', *cells)


class Grower:
    """Grows trees on parts of the train split.

    Attributes:
        graphs: of the train split.
    """

    def __init__(self):
        splits = {split: judging.load('tile', split) for split in ('train', 'valid')}
        self._rows: dict[str, growing.Rows] = {}
        for split, graphs in splits.items():
            self._names, self._rows[split] = rows_of(judging.store_of(graphs))
        self.graphs = splits['train']
        counts = [graph.halves.shape[1] for graph in self.graphs]
        self._graph = np.repeat(np.arange(len(counts)), counts)  # of each row

    def grow(self, kept: np.ndarray, seed: int) -> booster.Trees:
        """Grows trees on some kernels.

        Args:
            kept: bool [graphs].
            seed: of the growing.
        """
        rows, mask = self._rows['train'], kept[self._graph]
        part = growing.Rows(
            rows.columns[mask], rows.targets[mask], np.asarray(rows.weights)[mask]
        )
        return growing.fit_trees(
            self._names, _OPTIONS, part, self._rows['valid'], seed
        )[0]


def rows_of(
    store: tile_store.TileStore, weight: float = 1.0
) -> tuple[list[str], growing.Rows]:
    """Returns the names of the columns of trees, and the rows of all tiles of a split.

    Args:
        weight: what each kernel counts.
    """
    task, table = lookup.TASKS['tile'], tree_table.TreeTable(store)
    everything, rng = np.arange(len(store)), np.random.default_rng(0)
    rows = growing.draw_rows(rng, task, store, table, everything, 1 << 30, weight)
    return table.names, rows


def is_early(graph: judging.Graph) -> bool:
    """Returns whether XLA's earlier runtime, without thunks, measured a kernel."""
    release = hardware.parse_release(graph.jaxlib)
    return release < release_columns.FIRST_WITH_THUNKS


def kinds(train: list[judging.Graph]) -> dict[str, Callable[[judging.Graph], bool]]:
    """Returns title -> whether a training kernel is left out."""

    def is_random(graph: judging.Graph) -> bool:
        return graph.program.startswith('random_')

    def is_small(graph: judging.Graph) -> bool:
        return judging.size_class(graph) == _SMALLEST

    def outside(part: int) -> Callable[[judging.Graph], bool]:
        return lambda graph: zlib.crc32(graph.program.encode()) % part > 0

    alike: dict[str, list[str]] = {}  # program -> its small kernels
    for graph in train:
        if is_early(graph) and is_small(graph):
            alike.setdefault(graph.program, []).append(graph.name)
    fifths = {name for names in alike.values() for name in sorted(names)[4:]}
    arms = ('drawn', 'chosen')
    return {
        'all': lambda graph: False,
        'without drawn and chosen': lambda graph: graph.origin in arms,
        'without chosen': lambda graph: graph.origin == 'chosen',
        'without drawn': lambda graph: graph.origin == 'drawn',
        **{f'1/{part} of the programs': outside(part) for part in (2, 4, 8)},
        'without random programs': is_random,
        'without programs by others': lambda graph: not is_random(graph),
        'without published sizes': lambda graph: graph.origin == 'published',
        'without 0.4.30': is_early,
        'without 0.12.0.1': lambda graph: not is_early(graph),
        'without 0.4.30 below 30 us': lambda g: is_early(g) and is_small(g),
        'at most 4 of 0.4.30 below 30 us of a program': lambda g: g.name in fifths,
        'without 0.12.0.1 below 30 us': lambda g: not is_early(g) and is_small(g),
        'without 0.3 ms and above': lambda graph: (
            judging.size_class(graph) in time_saved.SIZE_CLASSES[2:]
        ),
    }


if __name__ == '__main__':
    results.run(main)
