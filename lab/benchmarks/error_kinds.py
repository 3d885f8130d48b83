"""Which pairs of tiles a model orders wrongly: how far apart, of which kernels.

  python lab/benchmarks/error_kinds.py --run pretrained

Kernels are those of an archive that ships, by default `by_others_real`.  The first
table has pairs by the ratio of their times; every kernel counts the same.  The second
has kernels by the first kind of instruction in this list that they contain; the share
of the loss is what lies between a model and the clock, of all kernels.  One half of the
passes judges, the other one is the clock, the best that a model can be.
"""

from collections.abc import Sequence

import numpy as np

from baselines.data.tile import records
from baselines.hlo import schema
from benchmarks import results
from lab.benchmarks import judging

# Bounds of the ratio of the times of a pair.
_RATIOS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, np.inf)
_KINDS: tuple[tuple[str, ...], ...] = (
    ('convolution',),
    ('dot',),
    ('reduce', 'reduce-window'),
    ('gather', 'scatter'),
    ('transpose', 'copy'),
    ('concatenate', 'pad', 'slice', 'dynamic-slice', 'dynamic-update-slice'),
    ('exponential', 'log', 'tanh', 'logistic', 'power', 'sqrt', 'rsqrt'),
)
_OTHERS = 'elementwise'


def main() -> None:
    """Scores the kernels, and prints both tables."""
    parser = results.parser(__doc__)
    parser.add_argument('--run', default='pretrained')
    parser.add_argument('--archive', default='by_others_real')
    args = parser.parse_args()
    graphs = judging.load(args.archive, 'test')
    scores, _ = results.scores(args.run, judging.folder_of(args.archive), graphs)
    clock = judging.of_the_clock(graphs)

    results.head('slower by', 'pairs', f'{args.run}: right', 'the clock: right')
    share, right = by_ratio(graphs, scores)
    _, right_of_clock = by_ratio(graphs, clock)
    for place, (low, high) in enumerate(zip(_RATIOS, _RATIOS[1:])):
        title = f'{low - 1:.0%} to {high - 1:.0%}' if high < np.inf else '100% and more'
        cells = share[place], right[place], right_of_clock[place]
        results.row(title, *(f'{cell:.1%}' for cell in cells))

    print()
    results.head('kernels', 'number', 'top-5 error', 'OPA', 'share of the loss')
    figures = judging.figures('tile', graphs, scores)
    loss = judging.figures('tile', graphs, clock)[:, 2] - figures[:, 2]
    of_kind: dict[str, list[int]] = {}
    for place, graph in enumerate(graphs):
        of_kind.setdefault(kind(graph), []).append(place)
    for title, places in sorted(of_kind.items(), key=lambda item: -len(item[1])):
        results.row(
            title,
            f'{len(places)}',
            f'{figures[places, 1].mean():.1%}',
            f'{figures[places, 2].mean():.3f}',
            f'{loss[places].sum() / loss.sum():.0%}',
        )


def by_ratio(
    graphs: Sequence[judging.Graph], scores: judging.Scores
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the share of pairs with each ratio of times, and of these the right ones.

    Returns:
        float64 [ratios] each; kernels count the same, whatever number of pairs they
        have.
    """
    pairs, right = np.zeros((2, len(_RATIOS) - 1))
    for graph, row in zip(graphs, scores):
        times = np.asarray(graph.halves[1], float)
        first, second = np.triu_indices(len(times), 1)
        ratio = np.maximum(times[first], times[second])
        ratio /= np.minimum(times[first], times[second])
        place = np.searchsorted(_RATIOS, ratio, side='right') - 1
        # As OPA has it, pairs of equal times do not count, and equal scores are wrong.
        differs = ratio > 1
        is_right = (row[first] - row[second]) * (times[first] - times[second]) > 0
        of_graph = np.bincount(place[differs], minlength=len(pairs))
        of_right = np.bincount(place[differs & is_right], minlength=len(pairs))
        pairs += of_graph / max(of_graph.sum(), 1)
        right += of_right / max(of_graph.sum(), 1)
    return pairs / pairs.sum(), right / pairs


def kind(graph: judging.Graph) -> str:
    """Returns the first of the kinds of instructions that a kernel has."""
    present = set(records.TileRecord.read(graph.path).node_opcode.tolist())
    for names in _KINDS:
        if present & {schema.OPCODE_NUMBERS[name] for name in names}:
            return ', '.join(names)
    return _OTHERS


if __name__ == '__main__':
    results.run(main)
