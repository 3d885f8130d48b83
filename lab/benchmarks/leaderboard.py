"""Every registered model on measured data, next to what needs no model of ours.

  python lab/benchmarks/leaderboard.py --task tile --epochs 25 --seeds 0 1 2
  python lab/benchmarks/leaderboard.py --task layout --epochs 15 --seeds 0 1 2

Each model is trained with its published flags, or those of `--recipe=strong`, on the
train split of the collection that ships, and the best epoch chosen by its valid split.
The gain with ten measured is the share of the log speed-up over the untiled kernels
that the best of the ten first choices comes to, of the best of all.
Of equal scores figures are the expectation over all orders.
The time saved is the share of the nanoseconds that could be saved over the untiled
kernels, so that kernels count by their time: by the first choice, and with ten
measured.
`test` are kernels of other families, `by_others` of other people's programs whose
families stand nowhere else, at small sizes, and `by_others_real` at published ones.
With `--by_size` there is a table for each class of the kernels' time.  Behind the
figures stand half their 95 % interval over programs and their standard deviation over
seeds.  Trainings that are in --work already are not repeated, so it can be stopped and
started.
"""

import argparse
from collections.abc import Iterator, Sequence
import os
from typing import Any, NamedTuple

import numpy as np

from baselines.core import files
from baselines.core import registry
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import time_saved

# The trees of `pretrained`.
MORE_TREES = (
    '--model=Trees',
    '--model_kwargs_json={"trees": 1500, "learning_rate": 0.05}',
)
# Rows of `--recipe=strong`.
_RECIPES = (
    ('strong, with trees', ('--recipe=strong',)),
    ('strong, graph model alone', ('--recipe=strong', '--notrees')),
    ('strong, Trees alone', ('--recipe=strong', '--model=Trees')),
    ('strong, 1,500 Trees alone', ('--recipe=strong', *MORE_TREES)),
)
_PUBLISHED = {
    'tile': ('MLP', 'EarlyJoinSAGE', 'LateJoinSAGE', 'EarlyJoinResGCN')
    + ('LateJoinResGCN', 'ResGCN'),
    'layout': ('ResModel',),
}
_WHOLES = {'tile': judging.TILE_WHOLES, 'layout': {}}


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        name: the model.
        training: the flags it is trained with, human-readable.
        flags: of the training script.
    """

    name: str
    training: str
    flags: tuple[str, ...]


class Part(NamedTuple):
    """Graphs to judge on: the test split of an archive."""

    name: str
    root: str
    graphs: list[judging.Graph]


class Line(NamedTuple):
    """What is known of a row of the tables.

    Attributes:
        name: the model.
        training: the flags it is trained with, human-readable.
        figures: of each part, by seed: float64 [graphs, figures].
        cost: the last cells.
    """

    name: str
    training: str
    figures: list[list[np.ndarray]]
    cost: tuple[str, ...] = ('', '')


def main() -> None:
    """Trains what is missing and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--task', choices=('tile', 'layout'), default='tile')
    parser.add_argument('--epochs', type=int, default=25)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--models', nargs='+', default=(), help='only these')
    parser.add_argument('--by_size', action='store_true', help='for tiles')
    parser.add_argument('--work', default='~/out/leaderboard')
    args = parser.parse_args()
    for seed in args.seeds:
        for row in rows(args.task, args.models):
            results.trained(args.task, place(args, row, seed), *flags(args, row, seed))
    judged = parts(args.task)
    lines = [*_models(args, judged), *_others(args, judged)]
    if not args.by_size:
        print_table(args.task, judged, lines)
        return
    for size in time_saved.SIZE_CLASSES:
        print(f'\n{size}:\n')
        print_table(args.task, judged, lines, size)


def rows(task: str, models: Sequence[str]) -> list[Row]:
    """Returns the rows to train: every registered model of a task, and the recipe.

    Args:
        task: 'tile' or 'layout'.
        models: names of the rows to keep; none for all.

    Raises:
        ValueError: there is no row of that name.
    """
    everything = list(_rows(task))
    unknown = sorted(set(models) - {row.name for row in everything})
    if unknown:
        raise ValueError(f'--models: there is no row {unknown[0]!r}')
    return [row for row in everything if not models or row.name in models]


def _rows(task: str) -> Iterator[Row]:
    folder = {'tile': 'tiles'}.get(task, task)
    for name in registry.drop_aliases(registry.find_models(folder)):
        model, is_published = f'--model={name}', name in _PUBLISHED[task]
        if is_published:
            yield Row(name, 'published', (model,))
        if not is_published or name in ('EarlyJoinSAGE', 'ResModel'):
            yield Row(name, 'strong', ('--recipe=strong', '--notrees', model))
    for training, recipe in _RECIPES:
        yield Row('Trees' if 'Trees' in training else 'recipe', training, recipe)


def flags(args: argparse.Namespace, row: Row, seed: int) -> list[str]:
    """Returns the flags of one training."""
    shared = [f'--epochs={args.epochs}', f'--seed={seed}', '--sample_data']
    return [*row.flags, *shared]


def place(args: argparse.Namespace, row: Row, seed: int) -> str:
    """Returns the folder of one training."""
    name = '_'.join([row.name, row.training, str(args.epochs), str(seed)])
    return os.path.join(files.expand(args.work), args.task, name.replace(', ', '_'))


def parts(task: str) -> list[Part]:
    """Returns the test splits to judge on."""
    others = ('by_others', 'by_others_real') if task == 'tile' else ()
    return [
        Part(
            'test' if archive == task else archive,
            judging.folder_of(archive),
            judging.load(archive, 'test'),
        )
        for archive in (task, *others)
    ]


def print_table(
    task: str, judged: Sequence[Part], lines: Sequence[Line], size: str = ''
) -> None:
    """Prints the lines, in their order.

    Args:
        task: 'tile' or 'layout'.
        judged: the parts that the figures are of.
        lines: to print.
        size: of kernels, one of `time_saved.SIZE_CLASSES`; '' for all.
    """
    heads = [
        f'{name}, {part.name}' for part in judged for name in judging.FIGURES[task]
    ]
    results.head('model', 'flags', *heads, 'core s', 'configs/s')
    chosen = [
        [n for n, g in enumerate(part.graphs) if size in ('', judging.size_class(g))]
        for part in judged
    ]
    for line in lines:
        cells: list[str] = []
        for part, places, figures in zip(judged, chosen, line.figures):
            by_seed = [rows[places] for rows in figures]
            graphs = [part.graphs[place] for place in places]
            summary = judging.summary(by_seed, graphs, _WHOLES[task])
            if 'random' in line.name:  # draws are no seeds of a training
                summary['seeds'] = None
            cells += _cells(task, summary)
        results.row(line.name, line.training, *cells, *line.cost)


def _models(args: argparse.Namespace, judged: Sequence[Part]) -> list[Line]:
    """Returns the lines of models, the best on the first part first."""
    lines = []
    for row in rows(args.task, args.models):
        runs = [place(args, row, seed) for seed in args.seeds]
        figures: list[list[np.ndarray]] = []
        speeds: list[float] = []
        for part in judged:
            timed = [
                results.scores(results.run_of(run), part.root, part.graphs)
                for run in runs
            ]
            speeds += [sum(map(len, scores)) / seconds for scores, seconds in timed]
            figures.append(_figures(args.task, part, [scores for scores, _ in timed]))
        seconds = np.mean([results.cost(run)[1] for run in runs])
        cost = f'{seconds:,.0f}', f'{np.median(speeds):,.0f}'
        lines.append(Line(row.name, row.training, figures, cost))
    lines.sort(
        key=lambda line: np.mean(line.figures[0], axis=(0, 1))[0],
        reverse=args.task == 'layout',
    )
    return lines


def _others(args: argparse.Namespace, judged: Sequence[Part]) -> Iterator[Line]:
    """Yields the lines that train no model of ours, and the clock's limit."""
    estimates = {
        'tile': judging.of_the_estimate,
        'layout': judging.of_the_layout_estimate,
    }
    kinds: dict[str, Any] = {
        'the estimate (of a TPU)': lambda graphs: [estimates[args.task](graphs)],
        'random choice': judging.of_chance,
        'the default and others at random': judging.of_the_default,
        'the clock: half of the passes': lambda graphs: [judging.of_the_clock(graphs)],
    }
    if args.task == 'tile':
        flat = [judging.FlatTrees(seed) for seed in args.seeds]
        kinds['gradient-boosted trees, flattened features'] = lambda graphs: [
            trees.scores(graphs) for trees in flat
        ]
    for name, score in kinds.items():
        figures = [_figures(args.task, part, score(part.graphs)) for part in judged]
        yield Line(name, '', figures)


def _figures(
    task: str, part: Part, scores_by_seed: Sequence[judging.Scores]
) -> list[np.ndarray]:
    """Returns the figures of a part's graphs, of scores by seed."""
    return [judging.figures(task, part.graphs, scores) for scores in scores_by_seed]


def _cells(task: str, figures: dict[str, Any]) -> list[str]:
    """Returns the figures of one part, as text."""
    cells = []
    for place, name in enumerate(judging.FIGURES[task]):
        is_share = any(word in name for word in ('error', 'slowdown', 'gain', 'saved'))
        form = '.1%' if is_share else '.3f'
        cell = f'{figures["mean"][place]:{form}} ± {figures["programs"][place]:{form}}'
        if figures['seeds']:
            cell += f' ± {figures["seeds"][place]:{form}}'
        cells.append(cell)
    return cells


if __name__ == '__main__':
    results.run(main)
