"""Shows that the kernels `tpugraphs rank` marks as unsure are those it ranks worst.

  python lab/benchmarks/leaderboard.py --epochs 15 --seeds 0 1 2 --models recipe
  python lab/benchmarks/uncertainty.py --epochs 15 --seeds 0 1 2

A kernel is marked where the graph model and the trees of `--recipe=strong` order few of
its pairs of configurations alike: how few was read off `valid`, to mark a quarter of
it, and the others only judge.  Scored are the recipe's runs of the leaderboard.
The gain with ten is that of the ten first choices.  Then follow the kernels of each
part that cost most, with their part of the mean error.
"""

from collections.abc import Iterator

import numpy as np

from baselines.evaluation import choices
from baselines.evaluation import ensembles
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import leaderboard

_TITLE = 'strong, with trees'
_WORST = 3


def main() -> None:
    """Prints a row for the marked and the other kernels of each part of the data."""
    parser = results.parser(__doc__)
    parser.add_argument('--epochs', type=int, default=25)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--work', default='~/out/leaderboard')
    args = parser.parse_args()
    args.task = 'tile'
    [recipe] = [r for r in leaderboard.rows('tile', ()) if r.training == _TITLE]
    results.head(
        *('kernels', 'number', 'top-1 error', 'top-5 error', 'OPA'),
        'gain with ten measured',
    )
    valid = judging.load('tile', 'valid')
    parts = [leaderboard.Part('valid', judging.folder_of('tile'), valid)]
    worst = []
    for part in [*parts, *leaderboard.parts('tile')]:
        judged: list[tuple[bool, list[float]]] = []
        for seed in args.seeds:
            judged += _judged(part, leaderboard.place(args, recipe, seed))
        unsure = np.array([marked for marked, _ in judged])
        figures = np.array([row for _, row in judged])
        for name, chosen in (('unsure', unsure), ('others', ~unsure)):
            _row(f'{part.name}, {name}', figures[chosen], len(args.seeds))
        errors = figures[:, :2].reshape(len(args.seeds), -1, 2).mean(0)
        errors /= len(part.graphs)
        for number in np.argsort(-errors[:, 0])[:_WORST]:
            worst.append((part.graphs[number].name, *errors[number]))
    print()
    results.head('kernel', 'of the mean top-1 error', 'of the mean top-5 error')
    for name, error1, error5 in worst:
        results.row(name, f'{error1:.1%}', f'{error5:.1%}')


def _judged(part: leaderboard.Part, out_dir: str) -> Iterator[tuple[bool, list[float]]]:
    """Yields for each kernel whether it is marked, and its figures."""
    predictor = results.load(results.run_of(out_dir), data_root=part.root)
    store = predictor.open_split(part.graphs[0].split)
    by_name = dict(zip(store.graph_ids, predictor.score_members(store)))
    for graph in part.graphs:
        members = by_name[graph.name]
        scores = ensembles.average(members, by='standard')
        figures = judging.tile_figures(graph, scores)
        error1, error5, opa, _, first_ten, _, _, best, _ = figures
        marked = ensembles.compute_agreement(members) < choices.LEAST_AGREEMENT
        yield marked, [error1, error5, opa, first_ten, best]


def _row(name: str, figures: np.ndarray, seeds: int) -> None:
    """Prints the means of kernels' figures, and shares of the gain."""
    error1, error5, opa, first_ten, best = figures.mean(0)
    results.row(
        *(name, f'{len(figures) / seeds:.0f}'),
        *(f'{error1:.1%}', f'{error5:.1%}', f'{opa:.3f}'),
        f'{first_ten / best:.1%}',
    )


if __name__ == '__main__':
    results.run(main)
