"""Every registered model on measured data, next to what needs no model of ours.

  python benchmarks/leaderboard.py --task tile --epochs 25 --seeds 0 1 2
  python benchmarks/leaderboard.py --task layout --epochs 15 --seeds 0 1 2

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
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import judging
import numpy as np
import results

from baselines.core import files
from baselines.core import registry
from baselines.data import shipped
from baselines.evaluation import time_saved

# Rows of `--recipe=strong`.
_RECIPES = (
    ('strong, with trees', ('--recipe=strong',)),
    ('strong, graph model alone', ('--recipe=strong', '--notrees')),
    ('strong, Trees alone', ('--recipe=strong', '--model=Trees')),
)
_PUBLISHED = {
    'tile': ('MLP', 'EarlyJoinSAGE', 'LateJoinSAGE', 'EarlyJoinResGCN')
    + ('LateJoinResGCN', 'ResGCN'),
    'layout': ('ResModel',),
}
_FIGURES = {
    'tile': (
        *('top-1 error', 'top-5 error', 'OPA', 'tau', 'gain with ten measured'),
        *('time saved, first choice', 'time saved, ten measured'),
    ),
    'layout': ('tau', 'slowdown@1', 'slowdown@10'),
}
_WHOLES = {'tile': judging.TILE_WHOLES, 'layout': {}}
_JUDGES = {'tile': judging.tile_figures, 'layout': judging.layout_figures}


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        name: the model.
        training: the flags it is trained with, human-readable.
        flags: of the training script.
    """

    name: str
    training: str
    flags: Tuple[str, ...]


class Part(NamedTuple):
    """Graphs to judge on: the test split of an archive."""

    name: str
    root: str
    graphs: List[judging.Graph]


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
    if not args.by_size:
        print_table(args, parts(args.task))
        return
    for size in time_saved.SIZE_CLASSES:
        print(f'\n{size}:\n')
        print_table(args, parts(args.task, size))


def rows(task: str, models: Sequence[str]) -> List[Row]:
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
    tables = {'tile': registry.tile_models, 'layout': registry.layout_models}
    for name in registry.distinct(tables[task]()):
        model, is_published = f'--model={name}', name in _PUBLISHED[task]
        if is_published:
            yield Row(name, 'published', (model,))
        if not is_published or name in ('EarlyJoinSAGE', 'ResModel'):
            yield Row(name, 'strong', ('--recipe=strong', '--notrees', model))
    for training, recipe in _RECIPES:
        yield Row('Trees' if 'Trees' in training else 'recipe', training, recipe)


def flags(args: argparse.Namespace, row: Row, seed: int) -> List[str]:
    """Returns the flags of one training."""
    shared = [f'--epochs={args.epochs}', f'--seed={seed}', '--sample_data']
    return [*row.flags, *shared]


def place(args: argparse.Namespace, row: Row, seed: int) -> str:
    """Returns the folder of one training."""
    name = '_'.join([row.name, row.training, str(args.epochs), str(seed)])
    return os.path.join(files.expand(args.work), args.task, name.replace(', ', '_'))


def parts(task: str, size: str = '') -> List[Part]:
    """Returns the test splits to judge on, of all kernels or of one size class.

    Args:
        task: 'tile' or 'layout'.
        size: one of `time_saved.SIZE_CLASSES`; '' for all.
    """
    archives = {'tile': ('tile', 'by_others', 'by_others_real'), 'layout': ('layout',)}[
        task
    ]
    return [
        Part(
            'test' if archive == task else archive,
            shipped.folder(archive),
            [
                graph
                for graph in judging.load(archive)
                if graph.split == 'test' and size in ('', judging.size_class(graph))
            ],
        )
        for archive in archives
    ]


def print_table(args: argparse.Namespace, judged: List[Part]) -> None:
    """Prints the table of some parts, best first."""
    names = _FIGURES[args.task]
    heads = [f'{name}, {part.name}' for part in judged for name in names]
    results.head('model', 'flags', *heads, 'core s', 'configs/s')
    lines = []
    for row in rows(args.task, args.models):
        runs = [place(args, row, seed) for seed in args.seeds]
        means: List[float] = []
        cells: List[str] = []
        speeds: List[float] = []
        for part in judged:
            timed = [results.scores(run, part.root, part.graphs) for run in runs]
            speeds += [sum(map(len, scores)) / seconds for scores, seconds in timed]
            figures = _figures(args.task, part, [scores for scores, _ in timed])
            means += figures['mean']
            cells += _cells(args.task, figures)
        cost = np.mean([results.cost(run)[1] for run in runs])
        cells += [f'{cost:,.0f}', f'{np.median(speeds):,.0f}']
        lines.append((means[0], [row.name, row.training, *cells]))
    lines.sort(key=lambda line: line[0], reverse=args.task == 'layout')
    for cells in [cells for _, cells in lines] + list(_others(args, judged)):
        results.row(*cells)


def _others(args: argparse.Namespace, judged: List[Part]) -> Iterator[List[str]]:
    """Yields the rows that train no model of ours, and the clock's limit."""
    estimates = {
        'tile': judging.of_the_estimate,
        'layout': judging.of_the_layout_estimate,
    }
    kinds: Dict[str, Any] = {
        'the estimate (of a TPU)': lambda graphs: [estimates[args.task](graphs)],
        'random choice': judging.of_chance,
        'the default and others at random': judging.of_the_default,
        'the clock: half of the passes': lambda graphs: [judging.of_the_clock(graphs)],
    }
    if args.task == 'tile':
        train = [graph for graph in judging.load('tile') if graph.split == 'train']
        kinds['gradient-boosted trees, flattened features'] = lambda graphs: [
            judging.of_flat_trees(train, graphs, seed) for seed in args.seeds
        ]
    for name, score in kinds.items():
        cells = []
        for part in judged:
            figures = _figures(args.task, part, score(part.graphs))
            if 'random' in name:  # draws are no seeds of a training
                figures['seeds'] = None
            cells += _cells(args.task, figures)
        yield [name, '', *cells, '', '']


def _figures(
    task: str, part: Part, scores_by_seed: Sequence[judging.Scores]
) -> Dict[str, Any]:
    """Returns the figures of a part, of scores by seed; see `judging.summary`."""
    judge = _JUDGES[task]
    rows = [judging.figures(judge, part.graphs, scores) for scores in scores_by_seed]
    return judging.summary(rows, part.graphs, _WHOLES[task])


def _cells(task: str, figures: Dict[str, Any]) -> List[str]:
    """Returns the figures of one part, as text."""
    cells = []
    for place, name in enumerate(_FIGURES[task]):
        is_share = any(word in name for word in ('error', 'slowdown', 'gain', 'saved'))
        form = '.1%' if is_share else '.3f'
        cell = f'{figures["mean"][place]:{form}} ± {figures["programs"][place]:{form}}'
        if figures['seeds']:
            cell += f' ± {figures["seeds"][place]:{form}}'
        cells.append(cell)
    return cells


if __name__ == '__main__':
    results.run(main)
