"""How much more measured kernels are worth: quality with parts of the training kernels.

  python benchmarks/learning_curve.py --epochs 25 --seeds 0 1 2

Trains `Trees` and the graph model of `--recipe=strong` on 1/16, 1/8, 1/4, 1/2 and all
of the training programs of the collection that ships (drawn again for each seed, each
part contained in the next), and judges on `test` and `by_others` as `leaderboard.py`
does.  Every part is trained for as many steps as all kernels are, so that less data
does not mean less training.
"""

import os
from typing import List

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


def main() -> None:
    """Trains what is missing and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--epochs', type=int, default=25)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--work', default='~/out/learning_curve')
    args = parser.parse_args()
    work = files.expand(args.work)
    graphs = judging.load('tile')
    judged = leaderboard.parts('tile')
    heads = [f'{name}, {p.name}' for p in judged for name in ('top-5 error', 'OPA')]
    results.head('model', 'training kernels', *heads)
    for model, flags in _MODELS.items():
        for part in _PARTS:
            by_part: List[List[np.ndarray]] = [[] for _ in judged]
            counts = []
            for seed in args.seeds:
                root = os.path.join(work, f'data_{part}_{seed}')
                counts.append(write_part(root, graphs, part, seed))
                epochs = args.epochs * (1 if model == 'Trees' else part)
                run = os.path.join(work, f'{model}_{part}_{seed}_{args.epochs}')
                settings = [*flags, f'--epochs={epochs}', f'--early_stop={epochs}']
                settings += [f'--seed={seed}', f'--data_root={root}']
                results.trained('tile', run, *settings, f'--cache_dir={work}/cache')
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
            results.row(model, f'1/{part}: {np.mean(counts):,.0f}', *cells)


def write_part(root: str, graphs: List[judging.Graph], part: int, seed: int) -> int:
    """Links a part of the training programs, and all of valid and test, into a folder.

    Returns:
        The number of training kernels.
    """
    programs = sorted({graph.program for graph in graphs if graph.split == 'train'})
    order = np.random.default_rng(seed).permutation(len(programs))
    chosen = {programs[i] for i in order[: max(1, len(programs) // part)]}
    count = 0
    for graph in graphs:
        if graph.split == 'train' and graph.program not in chosen:
            continue
        count += graph.split == 'train'
        link = os.path.join(root, graph.split, os.path.basename(graph.path))
        os.makedirs(os.path.dirname(link), exist_ok=True)
        if not os.path.lexists(link):
            os.symlink(graph.path, link)
    return count


if __name__ == '__main__':
    results.run(main)
