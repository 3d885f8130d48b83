"""Shows what the rule for equal scores is worth: the same scores judged by both rules.

  python benchmarks/tie_rules.py --runs ~/out/mlp/latest pretrained
  python benchmarks/tie_rules.py --archive layout --runs

Until commit d750d26, equal scores kept the order of the file, and configuration 0 of
every graph that ships was XLA's default.  Here the default is put first again, and
`before` takes ties in that order; `now` is the expectation over all orders of ties
(`metrics.expected_best`).  `constant` gives every configuration one score.  `tied` is
the share of graphs whose first five (layouts: ten) the scores do not determine.
The Kaggle score of tiles is 1 minus the top-5 error; that of layouts, tau, is of all
configurations, and no rule of order is in it.
"""

import judging
import numpy as np
import results

from baselines.data import shipped
from baselines.evaluation import metrics


def main() -> None:
    """Prints a row for a constant, the estimate and each run."""
    parser = results.parser(__doc__)
    parser.add_argument('--runs', nargs='*', default=['pretrained'], metavar='RUN')
    parser.add_argument('--archive', default='tile')
    args = parser.parse_args()
    graphs = judging.load(args.archive, 'test')
    root = shipped.folder(args.archive)
    of_layouts = args.archive == 'layout'
    few = 10 if of_layouts else 5
    estimate = judging.of_the_layout_estimate if of_layouts else judging.of_the_estimate
    rows = [
        ('constant', [np.zeros(g.halves.shape[1]) for g in graphs]),
        ('estimate (of a TPU)', estimate(graphs)),
    ]
    for run in args.runs:
        predictor = results.load(run, data_root=root)
        name = f'{predictor.run.args["model"]} ({predictor.run.hash[:8]})'
        rows.append((name, results.scores(run, root, graphs)[0]))
    errors = [f'top-{k} error, {when}' for k in (1, few) for when in ('before', 'now')]
    results.head('scores', 'tied', *errors)
    for name, scores in rows:
        figures = [judged(graph, row, few) for graph, row in zip(graphs, scores)]
        results.row(name, *(f'{x:.1%}' for x in np.mean(figures, axis=0)))


def judged(graph: judging.Graph, scores: np.ndarray, few: int) -> list[float]:
    """Returns whether a graph is tied, and its errors: of 1 and of `few` choices."""
    ranked = np.sort(scores)
    figures = [float(len(scores) > few and ranked[few - 1] == ranked[few])]
    # Their order before: the default, and the others as they are in the file.
    order = np.argsort(np.arange(len(scores)) != graph.default, kind='stable')
    places = metrics.places(scores[order])[np.argsort(order)]
    return figures + [
        metrics.top_k_error(ranking, graph.halves[1], k)
        for k in (1, few)
        for ranking in (places, scores)
    ]


if __name__ == '__main__':
    results.run(main)
