"""Draws how much of the possible gain is there after measuring a few configurations.

  python lab/benchmarks/gain_curve.py --output lab/docs/images/gain.svg

The kernels are those of an archive that ships, by default `by_others_real`: programs of
other people at published sizes.  A tuner measures XLA's default and then one
configuration after another, in the order of a model, of the estimate, or at random, and
keeps the fastest.  Drawn is the share of the time that the best of all configurations
would save, so that kernels count by their time.  One half of the passes chooses, the
other half judges.  Prints the same as a table.
"""

from collections.abc import Sequence

import numpy as np

from baselines.core import files
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import time_saved

_MEASURED = (0, 1, 2, 3, 5, 7, 10, 14, 19)
# Legible on light and on dark pages.
_INK = '#808080'
_COLOURS = ('#3b82f6', '#f59e0b', '#10b981', '#ef4444', '#a855f7')


def main() -> None:
    """Scores, prints, and draws."""
    parser = results.parser(__doc__)
    parser.add_argument('--runs', nargs='+', default=['pretrained'], metavar='RUN')
    parser.add_argument('--archive', default='by_others_real')
    parser.add_argument('--output', default='', metavar='FILE.svg')
    args = parser.parse_args()
    graphs = judging.load(args.archive, 'test')
    draws = [curve(scores, graphs) for scores in judging.of_chance(graphs)]
    curves = {'random choice': np.mean(draws, axis=0)}
    curves['estimate (of a TPU)'] = curve(judging.of_the_estimate(graphs), graphs)
    for run in args.runs:
        scores, _ = results.scores(run, judging.folder_of(args.archive), graphs)
        curves[run] = curve(scores, graphs)
    results.head('measured', *map(str, _MEASURED))
    for name, shares in curves.items():
        results.row(name, *(f'{share:.1%}' for share in shares))
    if args.output:
        draw(curves, files.expand(args.output))


def curve(scores: judging.Scores, graphs: Sequence[judging.Graph]) -> np.ndarray:
    """Returns the share of the possible saving, float64 [numbers of measured]."""
    saved = np.zeros(len(_MEASURED))
    possible = 0.0
    for graph, row in zip(graphs, scores):
        search, judge = graph.halves
        for place, count in enumerate(_MEASURED):
            found = time_saved.time_saved(row, search, judge, graph.default, count)
            saved[place] += found.measured
        possible += found.possible
    return saved / possible


def draw(curves: dict[str, np.ndarray], output: str) -> None:
    """Writes the curves as an image."""
    import matplotlib

    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout='constrained')
    names: list[str] = sorted(curves, key=lambda name: -curves[name][-2])
    for name, colour in zip(names, _COLOURS):
        axes.plot(_MEASURED, curves[name], color=colour, marker='o', ms=4, label=name)
    axes.axhline(0, color=_INK, linewidth=1, linestyle='--')
    axes.annotate("XLA's default", (_MEASURED[-1], 0.02), ha='right', color=_INK)
    axes.set_xlabel('configurations measured', color=_INK)
    axes.set_ylabel('share of the possible saving', color=_INK)
    axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
    axes.set_ylim(-0.03, 1.03)
    axes.set_xticks([0, 1, 3, 5, 7, 10, 14, 19])
    axes.tick_params(colors=_INK)
    for side in axes.spines.values():
        side.set_color(_INK)
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, labelcolor=_INK, loc='center right')
    with files.write_atomically(output, 'wb') as stream:
        figure.savefig(stream, format='svg', transparent=True)
    pyplot.close(figure)


if __name__ == '__main__':
    results.run(main)
