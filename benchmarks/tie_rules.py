"""Shows what the rule for equal scores is worth: the same scores judged by both rules.

  python benchmarks/tie_rules.py --runs ~/out/mlp/latest pretrained

Until commit d750d26, equal scores kept the order of the file, and configuration 0 of
every kernel that ships was XLA's default.  Here the default is put first again, and
`before` takes ties in that order; `now` is the expectation over all orders of ties
(`metrics.expected_best`).  `constant` gives every configuration one score.  Also
printed is the share of kernels whose first five are not determined by the scores.
"""

from typing import List, Tuple

import judging
import numpy as np
import results

from baselines.data import shipped
from baselines.evaluation import metrics

_FIGURES = ('top-1 error', 'top-5 error', 'Kaggle score')


def main() -> None:
    """Prints a row for a constant, the estimate and each run."""
    parser = results.parser(__doc__)
    parser.add_argument('--runs', nargs='+', default=['pretrained'], metavar='RUN')
    parser.add_argument('--archive', default='tile')
    args = parser.parse_args()
    graphs = [g for g in judging.load(args.archive) if g.split == 'test']
    root = shipped.folder(args.archive)
    rows = [
        ('constant', [np.zeros(g.halves.shape[1]) for g in graphs]),
        ('estimate (of a TPU)', judging.of_the_estimate(graphs)),
    ]
    for run in args.runs:
        predictor = results.load(run, data_root=root)
        name = f'{predictor.run.args["model"]} ({predictor.run.hash[:8]})'
        rows.append((name, results.scores(run, root, graphs)[0]))
    pairs = [f'{title}, {when}' for title in _FIGURES for when in ('before', 'now')]
    results.head('scores', 'kernels tied', *pairs)
    for name, scores in rows:
        tied, before, now = np.mean(
            [_judged(graph, row) for graph, row in zip(graphs, scores)], axis=0
        ).T
        cells = [f'{x:.3f}' for pair in zip(before, now) for x in pair]
        results.row(name, f'{tied[0]:.0%}', *cells)


def _judged(
    graph: judging.Graph, scores: np.ndarray
) -> List[Tuple[float, float, float]]:
    """Returns (whether tied, figure before, figure now) for each of `_FIGURES`."""
    runtimes = graph.halves[1]
    # Their order before: the default, and the others as they are in the file.
    order = np.argsort(np.arange(len(scores)) != graph.default, kind='stable')
    places = np.empty(len(scores), np.int64)
    places[order] = metrics.places(scores[order])
    ranked = np.sort(scores)
    tied = float(len(scores) > 5 and ranked[4] == ranked[5])
    errors = [
        (
            tied,
            metrics.top_k_error(places, runtimes, k),
            metrics.top_k_error(scores, runtimes, k),
        )
        for k in (1, 5)
    ]
    _, before, now = errors[1]
    return [*errors, (tied, 1 - before, 1 - now)]


if __name__ == '__main__':
    results.run(main)
