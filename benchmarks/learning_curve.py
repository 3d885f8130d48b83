"""How much more measured kernels are worth: quality with parts of the training kernels.

  python benchmarks/learning_curve.py --epochs 25 --seeds 0 1 2

Trains `Trees` and the graph model of `--recipe=strong` on 1/16, 1/8, 1/4, 1/2 and all
of the training programs of the collection that ships (drawn again for each seed, each
part contained in the next), and judges on `test`, `by_others` and `by_others_real` as
`leaderboard.py` does.  Every part is trained for as many steps as all kernels are, so
that less data does not mean less training.
"""

import functools
import os
from typing import Callable, List, NamedTuple, Set

import judging
import leaderboard
import numpy as np
import results

from baselines.core import files

_PARTS = (16, 8, 4, 2, 1)
_MODELS = {
    'Trees': ('--recipe=strong', '--model=Trees'),
    'graph model': ('--recipe=strong', '--notrees'),
}


class Subset(NamedTuple):
    """A part of the training kernels.

    Attributes:
        title: of its row.
        model: a key of `_MODELS`.
        chosen: (graphs, seed) -> names of those to train on.
        epochs: how many times as many epochs as with all kernels.
    """

    title: str
    model: str
    chosen: Callable[[List[judging.Graph], int], Set[str]]
    epochs: int = 1


def main() -> None:
    """Trains what is missing and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--epochs', type=int, default=25)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--work', default='~/out/learning_curve')
    args = parser.parse_args()
    graphs = judging.load('tile')
    judged = leaderboard.parts('tile')
    heads = [f'{name}, {p.name}' for p in judged for name in ('top-5 error', 'OPA')]
    results.head('model', 'training kernels', *heads)
    for subset in random_parts():
        by_part: List[List[np.ndarray]] = [[] for _ in judged]
        counts = []
        for seed in args.seeds:
            work = os.path.join(files.expand(args.work), subset.title.replace('/', '_'))
            root = os.path.join(work, f'data_{seed}')
            counts.append(write_part(root, graphs, subset.chosen(graphs, seed)))
            epochs = args.epochs * subset.epochs
            run = os.path.join(work, f'{subset.model}_{seed}_{args.epochs}')
            settings = [*_MODELS[subset.model], f'--epochs={epochs}']
            settings += [f'--early_stop={epochs}', f'--seed={seed}']
            settings += [f'--data_root={root}', f'--cache_dir={work}/cache']
            results.trained('tile', run, *settings)
            for place, test in enumerate(judged):
                scores, _ = results.scores(run, test.root, test.graphs)
                rows = judging.figures(judging.tile_figures, test.graphs, scores)
                by_part[place].append(rows[:, 1:3])
        cells = []
        for test, rows in zip(judged, by_part):
            figures = judging.summary(rows, test.graphs)
            for at, form in enumerate(('.1%', '.3f')):
                seeds = figures['seeds'][at] if figures['seeds'] else 0
                cells.append(f'{figures["mean"][at]:{form}} ± {seeds:{form}}')
        results.row(subset.model, f'{subset.title}: {np.mean(counts):,.0f}', *cells)


def random_parts() -> List[Subset]:
    """Returns parts of the training programs, each contained in the next."""

    def chosen(part: int, graphs: List[judging.Graph], seed: int) -> Set[str]:
        programs = sorted({g.program for g in graphs if g.split == 'train'})
        order = np.random.default_rng(seed).permutation(len(programs))
        kept = {programs[i] for i in order[: max(1, len(programs) // part)]}
        return {graph.name for graph in graphs if graph.program in kept}

    return [
        Subset(
            f'1/{part}',
            model,
            functools.partial(chosen, part),
            1 if model == 'Trees' else part,
        )
        for model in _MODELS
        for part in _PARTS
    ]


def write_part(root: str, graphs: List[judging.Graph], chosen: Set[str]) -> int:
    """Links some training kernels, and all of valid and test, into a folder.

    Returns:
        The number of training kernels.
    """
    count = 0
    for graph in graphs:
        if graph.split == 'train' and graph.name not in chosen:
            continue
        count += graph.split == 'train'
        link = os.path.join(root, graph.split, os.path.basename(graph.path))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        if not os.path.lexists(link):
            os.symlink(graph.path, link)
    return count


if __name__ == '__main__':
    results.run(main)
