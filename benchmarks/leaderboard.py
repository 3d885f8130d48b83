"""Trains every registered model for the same time and tables what they reach.

  python benchmarks/leaderboard.py --task tiles --seeds 0 1 2 --docs
  python benchmarks/leaderboard.py --task layout --collections xla:random

Data are simulated: the figures say how models compare on them, not
what they reach on real programs.  Each training gets --budget seconds of one
core for its loop (steps and validations): two epochs are timed first, and the
number of epochs follows, so that schedules end with the budget.  Measured are
test programs, which are in no other split; validation chose the epoch.

The published models are trained with the published flags (for layouts with
those of benchmarks/layout_simulated.py, as an epoch of 24 programs is three steps
with the published ones), all others with the settings of `--recipe=strong`.  More
rows tell what of the difference is training, features or architecture.

Trained models and results stay in --work: what is there is not trained again.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import layout_simulated
import numpy as np
import tile_simulated
import tqdm

from baselines import command_line
from baselines import config
from baselines import files
from baselines import recipes
from baselines import registry
from baselines.data import collections
from baselines.simulated.layout import dataset

_DOCS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    'docs',
    'leaderboard.md',
)
_PUBLISHED_TILES = {
    'MLP',
    'LateJoinSAGE',
    'EarlyJoinSAGE',
    'LateJoinResGCN',
    'EarlyJoinResGCN',
}
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
    strong = dict(recipes.TILE_TRAINING)
    rows = []
    for name, model in registry.distinct(registry.tile_models()).items():
        if name in _PUBLISHED_TILES:
            rows.append(Row(name, 'published', {'model': name}))
            continue
        estimate = getattr(model, 'wants_estimate', False)
        rows.append(
            Row(
                name,
                'strong, --estimate' if estimate else 'strong',
                {**strong, 'model': name, **({'estimate': True} if estimate else {})},
            )
        )
    gat = '{"attention": "gatv2"}'
    plain = '{"log_scales": []}'
    return rows + [
        Row(
            'AttentionSAGE, GATv2',
            'strong',
            {**strong, 'model': 'AttentionSAGE', 'model_kwargs_json': gat},
        ),
        Row(
            'ResSAGE without logarithms',
            'strong',
            {**strong, 'model': 'ResSAGE', 'model_kwargs_json': plain},
        ),
        Row('EarlyJoinSAGE', 'strong', {**strong, 'model': 'EarlyJoinSAGE'}),
        Row(
            'EarlyJoinSAGE',
            'published, --estimate',
            {'model': 'EarlyJoinSAGE', 'estimate': True},
        ),
        Row(
            'ResSAGE',
            'strong, --estimate',
            {**strong, 'model': 'ResSAGE', 'estimate': True},
        ),
        Row(
            'ConfigAttentionSAGE',
            'strong, --estimate',
            {**strong, 'model': 'ConfigAttentionSAGE', 'estimate': True},
        ),
        Row(
            'ResSAGE',
            'strong, --tile_columns --estimate',
            {**strong, 'model': 'ResSAGE', 'tile_columns': True, 'estimate': True},
        ),
        Row(
            'LateJoinResSAGE',
            'strong, --tile_columns --estimate',
            {**recipes.settings('strong', 'tile:xla')},
        ),
    ]


def layout_rows(collection: str) -> List[Row]:
    """Every registered layout model, on one collection."""
    source, search = collection.split(':')
    of_all = {'source': source, 'search': search}
    reference = {**layout_simulated.RECIPE, **of_all}
    strong = recipes.settings('strong', f'layout:{collection}', ('model',))
    rows = [Row('ResModel', 'reference', {**reference, 'model': 'ResModel'})]
    rows += [
        Row(name, 'strong', {**strong, **of_all, 'model': name})
        for name in registry.distinct(registry.layout_models())
        if name != 'ResModel'
    ]
    if collection != _COLLECTIONS[0]:
        return rows
    # What of the difference is training, and what joining late costs.
    return rows + [
        Row('ResModel', 'strong', {**strong, **of_all, 'model': 'ResModel'}),
        Row(
            'ResSAGE, early join',
            'strong',
            {
                **strong,
                **of_all,
                'model': 'ResSAGE',
                'model_kwargs_json': '{"join": "early"}',
            },
        ),
    ]


def main() -> int:
    """Runs what is missing, and prints the tables."""
    args = _arguments()
    if args.one:
        return _one(args)
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
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    parser.add_argument('--record', action='store_true', help='keep the figures')
    parser.add_argument('--one', help=argparse.SUPPRESS)
    return parser.parse_args()


# Running ----------------------------------------------------------------------


def _place(args, task: str, row: Row, seed: int) -> str:
    """Where a job's result goes; another setting is another place."""
    spec = json.dumps([task, dict(row.settings), seed, args.budget], sort_keys=True)
    key = hashlib.sha256(spec.encode()).hexdigest()[:16]
    return os.path.join(files.expand(args.work), f'{row.settings["model"]}_{key}')


def _run(jobs, args) -> None:
    """Runs those without a result, each in a process of its own."""
    missing = [
        job
        for job in jobs
        if not os.path.exists(os.path.join(_place(args, *job), 'result.json'))
    ]
    threads = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}

    def run(job):
        task, row, seed = job
        spec = {
            'task': task,
            'settings': dict(row.settings),
            'seed': seed,
            'place': _place(args, task, row, seed),
            # The first seed's epoch is timed; the others have as many epochs.
            'timed': _place(args, task, row, args.seeds[0]),
        }
        done = subprocess.run(
            [
                sys.executable,
                os.path.abspath(__file__),
                '--one',
                json.dumps(spec),
                '--budget',
                str(args.budget),
            ],
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            tqdm.tqdm.write(f'{row.name}, seed {seed}: {done.stderr[-2000:]}')

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(
            tqdm.tqdm(
                pool.map(run, missing),
                total=len(missing),
                unit='training',
                disable=None,
            )
        )


def _data(task: str) -> Dict[str, Any]:
    """Simulated kernels; or programs by the rule book `roofline`, known best."""
    if task == 'tiles':
        return {'sample_data': True}
    programs = dataset.Programs(rules='roofline')
    root = f'{os.path.dirname(files.expand(programs.default_root))}/layout_roofline'
    return {'data_root': programs.ensure(root)}


def _one(args) -> int:
    """One training in this process; writes result.json."""
    spec = json.loads(args.one)
    command_line.start_tensorflow()
    kind = config.TileConfig if spec['task'] == 'tiles' else config.LayoutConfig
    os.makedirs(spec['place'], exist_ok=True)
    settings = kind(
        **{
            **spec['settings'],
            'seed': spec['seed'],
            'out_dir': spec['place'],
            **_data(spec['task']),
        }
    )
    timed = os.path.join(spec['timed'], 'epoch_s.json')
    if not os.path.exists(timed):
        with tempfile.TemporaryDirectory() as out_dir:
            _, seconds = _train(
                dataclasses.replace(settings, epochs=3, out_dir=out_dir)
            )
        # The first epoch compiles the validation.
        with files.write_atomically(timed) as stream:
            json.dump(statistics.mean(seconds[1:]), stream)
    with open(timed, encoding='utf-8') as stream:
        epochs = max(int(args.budget / json.load(stream)), 2)
    settings = dataclasses.replace(settings, epochs=epochs, early_stop=epochs)
    model_dir, seconds = _train(settings)
    result = {
        'model_dir': model_dir,
        'epochs': epochs,
        'seconds': sum(seconds),
        **_measured(model_dir, settings, sum(seconds)),
    }
    with files.write_atomically(os.path.join(spec['place'], 'result.json')) as stream:
        json.dump(result, stream)
    return 0


def _train(settings):
    """Trains; returns the model directory and the core seconds of each epoch.

    With one thread these are the seconds on a clock, but for what else runs.
    """
    from baselines.tasks import train
    from baselines.training import runs

    start, start_core = time.monotonic(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model_dir = train.train(settings)
    share = (time.process_time() - start_core) / (time.monotonic() - start)
    curve = runs.load(model_dir).info['train_curve']
    seconds = np.add(curve['train_seconds'], curve['val_seconds'])
    return model_dir, (share * seconds).tolist()


def _measured(model_dir: str, settings, seconds: float) -> Dict[str, Any]:
    """Errors on valid and test, size and speed of a finished run."""
    from baselines.tasks import predict
    from baselines.tasks import prediction
    from baselines.tasks import training

    data = prediction.DataOptions(cache_dir=settings.cache_dir)  # as in training
    found: Dict[str, Any] = {}
    for split in ('valid', 'test'):
        overall = predict.evaluate(model_dir, data, split=split)['overall']
        found[split] = {
            name: measure['mean']
            for name, measure in overall.items()
            if isinstance(measure, dict) and 'mean' in measure
        }
    predictor = predict.load_predictor(model_dir, data)
    store = predictor.open_split('test')
    count, steps = _scoring_and_steps(predictor, store, settings)
    start = time.process_time()
    count()
    rate = store.config_counts.sum() / (time.process_time() - start)
    curve = predictor.run.info['train_curve']
    return {
        **found,
        'weights': training.count_weights(predictor.model),
        'configs_per_s': float(rate),
        'steps_per_s': steps * len(curve['epoch']) / seconds,
    }


def _scoring_and_steps(predictor, store, settings):
    """A warm call that scores a split, and the steps of an epoch."""
    if isinstance(settings, config.TileConfig):
        from baselines.tiles import graphs
        from baselines.tiles import scoring

        scorer = scoring.TileScorer(
            predictor.model, graphs.TileGraphs(store, predictor.normalizer)
        )
        call = lambda: sum(1 for _ in scorer.score_all())
        train = predictor.open_split('train')
        steps = len(train.with_at_least(settings.configs)) // settings.batch
    else:
        from baselines.layout import programs as programs_lib
        from baselines.layout import scoring

        programs = programs_lib.StoredPrograms(store, predictor.normalizer)
        scorer = scoring.LayoutScorer(predictor.model)
        call = lambda: [scorer.score(program) for program in programs]
        train = predictor.open_split('train')
        steps = -(-train.num_graphs // settings.batch)
    call()
    return call, steps


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


def _table(args, title: str, rows: Sequence[Row]) -> str:
    """The rows that have results, best first."""
    columns = _COLUMNS[args.task]
    head = [
        'model',
        'training',
        *(name for name, *_ in columns),
        'weights',
        'core seconds',
        'steps/s',
        'configurations/s',
    ]
    lines, kept = [], []
    for row in rows:
        results = [_result(args, row, seed) for seed in args.seeds]
        results = [result for result in results if result]
        if results:
            missing = len(args.seeds) - len(results)
            note = f' ({len(results)} of {len(args.seeds)} seeds)' if missing else ''
            cells = [row.name + note, row.training]
            cells += [
                tile_simulated.shown([r['test'][key] for r in results], form)
                for _, key, form in columns
            ]
            cells += [f'{results[0]["weights"]:,}'] + [
                f'{statistics.mean(r[key] for r in results):,.0f}'
                for key in ('seconds', 'steps_per_s', 'configs_per_s')
            ]
            order = statistics.mean(
                r['test']['top_5_error']
                if args.task == 'tiles'
                else -r['test']['kendall_tau']
                for r in results
            )
            lines.append((order, cells))
            for r, seed in zip(results, args.seeds):
                kept += [
                    (
                        f'{title}: {row.name}, {row.training}, seed {seed}: test {key}',
                        r['test'][key],
                        '',
                    )
                    for _, key, _ in columns
                ]
    lines += [
        (-1e9 - count, ensemble)
        for count in (1, 3)
        if (ensemble := _ensemble(args, rows, count))
    ]
    if args.record:
        import results as results_lib

        results_lib.record(kept)
    body = [cells for _, cells in sorted(lines, key=lambda line: line[0])]
    text = [] if title == 'tiles' else [f'`{title}`', '']
    text += [f'| {" | ".join(cells)} |' for cells in [head, ['---'] * len(head), *body]]
    return '\n'.join(text) + '\n'


def _result(args, row: Row, seed: int) -> Optional[Dict[str, Any]]:
    path = os.path.join(_place(args, args.task, row, seed), 'result.json')
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as stream:
        return json.load(stream)


def _ensemble(args, rows: Sequence[Row], count: int) -> Optional[List[str]]:
    """Mean of the scores of all seeds of the `count` rows best in validation."""
    from baselines.tasks import ensemble
    from baselines.tasks import prediction

    key = 'top_5_error' if args.task == 'tiles' else 'kendall_tau'
    sign = 1 if args.task == 'tiles' else -1
    found = [(row, [_result(args, row, seed) for seed in args.seeds]) for row in rows]
    found = [(row, results) for row, results in found if None not in results]
    if len(found) < count or len(args.seeds) < 2:
        return None
    found.sort(
        key=lambda pair: sign * statistics.mean(r['valid'][key] for r in pair[1])
    )
    chosen = found[:count]
    runs = [r['model_dir'] for _, results in chosen for r in results]
    options = prediction.DataOptions(**_data(args.task))
    scored = ensemble.score(ensemble.load(runs, options))
    overall = ensemble.measure(scored, ensemble.average(scored), 'scores')['ensemble'][
        'overall'
    ]
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
    with open(_DOCS, encoding='utf-8') as stream:
        text_there = stream.read()
    if begin not in text_there or end not in text_there:
        raise ValueError(f'docs/leaderboard.md has no place for it: {begin} ... {end}')
    before, rest = text_there.split(begin)
    with files.write_atomically(_DOCS) as stream:
        stream.write(f'{before}{begin}\n{text}{end}{rest.split(end)[1]}')


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
