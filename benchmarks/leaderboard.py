"""Trains every registered model for the same time and tables what they reach.

  python benchmarks/leaderboard.py --task tiles --seeds 0 1 2 --docs
  python benchmarks/leaderboard.py --task layout --collections xla:random

Data are simulated: the figures say how models compare on them, not
what they reach on real programs.  Each training gets --budget seconds of one
core for its loop (steps and validations): two epochs are timed first, and the
number of epochs follows, so that schedules end with the budget.  Measured are
test programs, which are in no other split; validation chose the epoch.

The published models are trained with the published flags (for layouts with
`_LAYOUT_REFERENCE`, as an epoch of 24 programs is three steps with the published
ones), all others with the settings of `--recipe=strong`.  More
rows tell what of the difference is training, features or architecture.

Trained models and results stay in --work: what is there is not trained again.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import statistics
import subprocess
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import leaderboard_training
import results as results_lib
import tqdm

from baselines import command_line
from baselines import files
from baselines import recipes
from baselines import registry
from baselines.data import collections

_DOCS = results_lib.ROOT / 'docs/leaderboard.md'
_PUBLISHED_TILES = frozenset(
    'MLP LateJoinSAGE EarlyJoinSAGE LateJoinResGCN EarlyJoinResGCN'.split()
)
_LAYOUT_REFERENCE = dict(
    epochs=300,
    early_stop=100,
    lr=0.01,
    batch=4,
    configs=32,
    sampling='uniform',
    validation_configs=300,
)
_COLLECTIONS = tuple(
    name.partition(':')[2] for name in collections.NAMES if name.startswith('layout:')
)


class Row(NamedTuple):
    """One line of a table.

    Attributes:
        name: what is trained, as the table says.
        training: how.
        settings: of the TileConfig or LayoutConfig.
    """

    name: str
    training: str
    settings: Mapping[str, Any]


def tile_rows() -> List[Row]:
    """Every registered tile model, and what tells the reasons apart."""

    def strong(model: str, flags: str = '', name: str = '', **settings) -> Row:
        """With the settings of `--recipe=strong`, and flags switched on."""
        on = {flag.lstrip('-'): True for flag in flags.split()}
        settings = {**recipes.TILE_TRAINING, 'model': model, **on, **settings}
        return Row(name or model, ', '.join(filter(None, ('strong', flags))), settings)

    rows = []
    for name, model in registry.distinct(registry.tile_models()).items():
        estimated = getattr(model, 'wants_estimate', False)
        published = Row(name, 'published', {'model': name})
        ours = strong(name, '--estimate' if estimated else '')
        rows.append(published if name in _PUBLISHED_TILES else ours)
    gat, plain = '{"attention": "gatv2"}', '{"log_scales": []}'
    estimated = {'model': 'EarlyJoinSAGE', 'estimate': True}
    recipe = recipes.settings('strong', 'tile:xla')
    return rows + [
        strong('AttentionSAGE', name='AttentionSAGE, GATv2', model_kwargs_json=gat),
        strong('ResSAGE', name='ResSAGE without logarithms', model_kwargs_json=plain),
        strong('EarlyJoinSAGE'),
        Row('EarlyJoinSAGE', 'published, --estimate', estimated),
        strong('ResSAGE', '--estimate'),
        strong('ConfigAttentionSAGE', '--estimate'),
        strong('ResSAGE', '--tile_columns --estimate'),
        Row('LateJoinResSAGE, Trees', 'strong: the recipe', recipe),
        Row('Trees', 'all columns', {'model': 'Trees'}),
    ]


def layout_rows(collection: str) -> List[Row]:
    """Every registered layout model, on one collection."""
    source, search = collection.split(':')
    of_all = {'source': source, 'search': search}
    reference = {**_LAYOUT_REFERENCE, **of_all, 'model': 'ResModel'}
    recipe = recipes.settings('strong', f'layout:{collection}', ('model',))

    def strong(model: str, name: str = '', **settings) -> Row:
        settings = {**recipe, **of_all, 'model': model, **settings}
        return Row(name or model, 'strong', settings)

    names = registry.distinct(registry.layout_models())
    rows = [
        Row('ResModel', 'reference', reference),
        Row('Trees', 'all columns', {**of_all, 'model': 'Trees'}),
    ]
    rows += [strong(name) for name in names if name != 'ResModel']
    if collection == _COLLECTIONS[0]:
        # What of the difference is training, and what joining late costs.
        early = '{"join": "early"}'
        rows += [
            strong('ResModel'),
            strong('ResSAGE', 'ResSAGE, early join', model_kwargs_json=early),
        ]
    return rows


def main() -> None:
    """Runs what is missing, and prints the tables."""
    args = _arguments()
    command_line.quiet_tensorflow()
    tables = (
        {'tiles': tile_rows()}
        if args.task == 'tiles'
        else {collection: layout_rows(collection) for collection in args.collections}
    )
    jobs = [
        (args.task, row, seed)
        for seed in args.seeds
        for rows in tables.values()
        for row in rows
        if not args.models or row.settings['model'] in args.models
    ]
    if not args.table:
        _run(jobs, args)
    blocks = []
    for title, rows in tables.items():
        text = _table(args, title, rows)
        print(text)
        blocks.append(text)
    if args.docs:
        _write_docs(args.task, '\n'.join(blocks))


def _arguments() -> argparse.Namespace:
    parser = results_lib.parser(__doc__, record=True)
    parser.add_argument('--task', choices=('tiles', 'layout'), default='tiles')
    parser.add_argument(
        '--collections', nargs='+', choices=_COLLECTIONS, default=_COLLECTIONS
    )
    parser.add_argument('--models', nargs='+', help='only these models')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    parser.add_argument(
        '--budget', type=float, default=60, help='seconds of training each'
    )
    parser.add_argument(
        '--jobs', type=int, default=2, help='trainings side by side, a core each'
    )
    parser.add_argument('--work', default='~/out/leaderboard')
    parser.add_argument(
        '--docs', action='store_true', help='put the tables into docs/leaderboard.md'
    )
    parser.add_argument(
        '--table', action='store_true', help='train nothing: table what is there'
    )
    return parser.parse_args()


# Running ----------------------------------------------------------------------


def _place(args, task: str, row: Row, seed: int) -> str:
    """Where a job's result goes; another setting is another place."""
    spec = json.dumps([task, dict(row.settings), seed, args.budget], sort_keys=True)
    key = hashlib.sha256(spec.encode()).hexdigest()[:16]
    return os.path.join(files.expand(args.work), f'{row.settings["model"]}_{key}')


def _run(jobs, args) -> None:
    """Runs those without a result, each in a process of its own."""
    missing = [job for job in jobs if not _result(args, *job)]
    threads = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}

    def run(job):
        task, row, seed = job
        spec = {
            'task': task,
            'settings': dict(row.settings),
            'seed': seed,
            'budget': args.budget,
            'place': _place(args, task, row, seed),
            # The first seed's epoch is timed; the others have as many epochs.
            'timed': _place(args, task, row, args.seeds[0]),
        }
        done = subprocess.run(
            [sys.executable, leaderboard_training.__file__, json.dumps(spec)],
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            tqdm.tqdm.write(f'{row.name}, seed {seed}: {done.stderr[-2000:]}')

    bar = tqdm.tqdm(total=len(missing), unit='training', disable=None)
    with bar, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for _ in pool.map(run, missing):
            bar.update()


# Tables -----------------------------------------------------------------------

_COLUMNS = {
    'tiles': (
        ('top-1 error', 'top_1_error', '.3f'),
        ('top-5 error', 'top_5_error', '.4f'),
        ('OPA', 'opa', '.3f'),
        ('tau', 'kendall_tau', '.3f'),
    ),
    'layout': (
        ('tau', 'kendall_tau', '.3f'),
        ('slowdown@1', 'slowdown_1', '.4f'),
        ('slowdown@10', 'slowdown_10', '.4f'),
    ),
}


_COSTS = ('weights', 'core seconds', 'steps/s', 'configurations/s')


def _table(args, title: str, rows: Sequence[Row]) -> str:
    """The rows that have results, best first."""
    columns = _COLUMNS[args.task]
    head = ['model', 'training', *(name for name, *_ in columns), *_COSTS]
    lines, kept = [], []
    for row in rows:
        results = list(filter(None, _results(args, row)))
        if results:
            missing = len(args.seeds) - len(results)
            note = f' ({len(results)} of {len(args.seeds)} seeds)' if missing else ''
            cells = [row.name + note, row.training]
            cells += [
                results_lib.shown([r['test'][key] for r in results], form)
                for _, key, form in columns
            ]
            weights = results[0]['weights']  # trees have none
            cells += [f'{weights:,}' if weights else ''] + [
                f'{statistics.mean(r[key] for r in results):,.0f}'
                for key in ('seconds', 'steps_per_s', 'configs_per_s')
            ]
            lines.append((_order(args.task, results, 'test'), cells))
            for r, seed in zip(results, args.seeds):
                of = f'{title}: {row.name}, {row.training}, seed {seed}: test'
                kept += [(f'{of} {key}', r['test'][key], '') for _, key, _ in columns]
    lines += [
        (-1e9 - count, ensemble)
        for count in (1, 3)
        if (ensemble := _ensemble(args, rows, count))
    ]
    results_lib.record(kept, args.record)
    body = [cells for _, cells in sorted(lines, key=lambda line: line[0])]
    text = [] if title == 'tiles' else [f'`{title}`', '']
    text += [f'| {" | ".join(cells)} |' for cells in [head, ['---'] * len(head), *body]]
    return '\n'.join(text) + '\n'


def _order(task: str, results: Sequence[Dict[str, Any]], split: str) -> float:
    """What is lowest for the best row: its errors on a split, mean of its seeds."""
    key, sign = {'tiles': ('top_5_error', 1), 'layout': ('kendall_tau', -1)}[task]
    return sign * statistics.mean(r[split][key] for r in results)


def _result(args, task: str, row: Row, seed: int) -> Dict[str, Any]:
    """What a training has reached; nothing before it is done."""
    return results_lib.kept(f'{_place(args, task, row, seed)}/result.json')


def _results(args, row: Row) -> List[Dict[str, Any]]:
    return [_result(args, args.task, row, seed) for seed in args.seeds]


def _ensemble(args, rows: Sequence[Row], count: int) -> Optional[List[str]]:
    """Mean of the scores of all seeds of the `count` rows best in validation."""
    from baselines.runs import ensemble
    from baselines.runs import prediction

    found = [(row, _results(args, row)) for row in rows]
    found = [(row, results) for row, results in found if all(results)]
    if len(found) < count or len(args.seeds) < 2:
        return None
    found.sort(key=lambda pair: _order(args.task, pair[1], 'valid'))
    chosen = found[:count]
    runs = [r['model_dir'] for _, results in chosen for r in results]
    data = leaderboard_training.data_of(args.task)
    scored = ensemble.score(ensemble.load(runs, prediction.DataOptions(**data)))
    measured = ensemble.measure(scored, ensemble.average(scored), 'scores')
    overall = measured['ensemble']['overall']
    names = ', '.join(dict.fromkeys(row.name for row, _ in chosen))
    training = '; '.join(dict.fromkeys(row.training for row, _ in chosen))
    cells = [f'mean of {len(runs)}: {names}', training]
    cells += [
        format(overall[key]['mean'], form) for _, key, form in _COLUMNS[args.task]
    ]
    return cells + [''] * 4


def _write_docs(task: str, text: str) -> None:
    """Puts a table between its two marks."""
    begin, end = f'<!-- leaderboard {task} -->', f'<!-- end of {task} -->'
    text_there = _DOCS.read_text(encoding='utf-8')
    if begin not in text_there or end not in text_there:
        raise ValueError(f'docs/leaderboard.md has no place for it: {begin} ... {end}')
    before, rest = text_there.split(begin)
    with files.write_atomically(str(_DOCS)) as stream:
        stream.write(f'{before}{begin}\n{text}{end}{rest.split(end)[1]}')


if __name__ == '__main__':
    results_lib.run(main)
