"""Trains layout models by one rule book, and tests them by others and on real programs.

  python benchmarks/layouts_across.py --work ~/out/layouts --real ~/real/layout/xla
  python benchmarks/layouts_across.py --work ~/out/layouts --table   # what is there

A model that was made on one simulator may know no more than its rules.  So every
model is trained on simulated programs of `roofline`, `products`, `drawn` (see
docs/simulated-data-layout.md) or the first two together, and measured on the test
programs of all of them, and on real ones that it never saw: --real is a folder
with <search>/<split>/<program>.npz of measured programs.  Rows beside the models:
random order, the formula alone, and gradient-boosted trees (LightGBM) on sums over
nodes of padded work and traffic.

With --within the models are trained on 400 configurations of unet3d, and tested on
others: equal configurations are on one side.  Trees see the layouts themselves
there.

Figures are Kendall's tau, the mean over programs, plus or minus the standard
deviation over seeds; on real programs over different configurations, each with its
mean runtime.  What is in --work is not trained again.
"""

import argparse
import contextlib
import glob
import io
import json
import os
import re
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
from scipy import stats

from baselines import command_line
from baselines import config
from baselines import files
from baselines import recipes
from baselines.data.layout import records
from baselines.data.layout import store as store_lib
from baselines.ranking import metrics

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BOOKS = ('roofline', 'products', 'drawn')
_SOURCES = (*_BOOKS, 'roofline+products')
_REAL = ('random/valid/unet_3d.4x4.bf16', 'default/train/unet3d')
_WITHIN = 400
_TREES = dict(
    objective='regression',
    learning_rate=0.05,
    num_leaves=15,
    min_data_in_leaf=3,
    verbose=-1,
    num_threads=1,
)


class Row(NamedTuple):
    """One line of the table: a name and settings of `LayoutConfig`; None: trees."""

    name: str
    settings: Any


def rows(epochs: int) -> List[Row]:
    """The models, all with as many epochs."""
    strong = dict(recipes.settings('strong', 'layout:xla:random'))
    length = {'epochs': epochs, 'early_stop': epochs}
    plain = {**strong, 'model_kwargs_json': '{}', **length}
    return [
        # Untrained it is the formula.
        Row('formula', {**plain, 'model': 'PaddedSAGE', 'epochs': 1, 'lr': 1e-12}),
        Row('trees', None),
        Row('ResModel', {**plain, 'model': 'ResModel', 'lr': 1e-3}),
        Row('HybridSAGE', {**plain, 'model': 'HybridSAGE'}),
        Row('strong', {**strong, **length}),
    ]


def main() -> int:
    """Simulates, trains what is missing, and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--work', default='~/out/layouts_across')
    parser.add_argument('--real', default='', help='folder of measured programs')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    parser.add_argument('--epochs', type=int, default=40)
    parser.add_argument('--rows', nargs='+', help='only these')
    parser.add_argument('--sources', nargs='+', choices=_SOURCES, default=_SOURCES)
    parser.add_argument('--within', action='store_true', help='train on real programs')
    parser.add_argument('--table', action='store_true', help='train nothing')
    args = parser.parse_args()
    command_line.start_tensorflow()
    args.work = files.expand(args.work)
    chosen = [r for r in rows(args.epochs) if not args.rows or r.name in args.rows]
    real = _real_programs(args.real)
    if args.within:
        _within(args, chosen, {k: v for k, v in real.items() if k == 'unet3d'})
        return 0
    for book in _BOOKS:
        _simulate(args.work, book)
    _join(args.work)
    targets = {
        book: os.path.join(args.work, 'data', book, 'xla/random/test')
        for book in _BOOKS
    }
    targets = {**targets, **real}
    found = {
        (source, row.name, seed): _ensured(args, row, source, seed, targets)
        for seed in args.seeds
        for row in chosen
        for source in args.sources
    }
    for source in args.sources:
        results = {
            row.name: [found[source, row.name, seed] for seed in args.seeds]
            for row in chosen
        }
        print(f'trained on {source}\n\n{_table(results, list(targets))}')
    return 0


def _real_programs(folder: str) -> Dict[str, str]:
    """Paths of the measured programs that are there, by name; says what is not."""
    found = {}
    for name in _REAL:
        path = os.path.join(files.expand(folder), f'{name}.npz') if folder else ''
        if os.path.exists(path):
            found[os.path.basename(name)] = path
        else:
            print(f'{name}: left out, no such file in --real={folder}')
    return found


def _simulate(work: str, book: str) -> None:
    root = os.path.join(work, 'data', book)
    if not os.path.exists(root):
        command = ['--collection', 'layout', '--rules', book, '--output', root]
        subprocess.run(
            [sys.executable, '-m', 'baselines.commands.sample', *command],
            check=True,
            cwd=_ROOT,
        )


def _join(work: str) -> None:
    """Programs of two books in one folder."""
    joined = os.path.join(work, 'data', _SOURCES[-1])
    for split in ('train', 'valid', 'test'):
        part = os.path.join('xla/random', split)
        os.makedirs(os.path.join(joined, part), exist_ok=True)
        for book in _SOURCES[-1].split('+'):
            for path in glob.glob(os.path.join(work, 'data', book, part, '*.npz')):
                name = os.path.basename(path)[: -len('.npz')]
                link = os.path.join(joined, part, f'{name}_{book}.npz')
                if not os.path.exists(link):
                    os.link(path, link)


# Training ---------------------------------------------------------------------


def _ensured(args, row, source, seed, targets) -> Dict[str, float]:
    """Tau on each target; trains what has no result yet."""
    name = ''.join(c if c.isalnum() else '_' for c in f'{row.name}-{source}-{seed}')
    place = os.path.join(args.work, 'runs', f'{name}-{args.epochs}')
    known = _read(place)
    missing = [target for target in targets if target not in known]
    if missing and not args.table:
        root = os.path.join(args.work, 'data', source)
        score, known['seconds'] = _trained(args, row, root, seed, place)
        for target in missing:
            known[target] = _tau(score, targets[target], args.work)
        with files.write_atomically(f'{place}.json') as stream:
            json.dump(known, stream)
        print(f'{row.name}, {source}, seed {seed}: {known}', file=sys.stderr)
    return known


def _read(place: str) -> Dict[str, float]:
    if not os.path.exists(f'{place}.json'):
        return {}
    with open(f'{place}.json', encoding='utf-8') as stream:
        return json.load(stream)


def _trained(args, row, root, seed, place) -> Tuple[Callable, float]:
    """Trains a row on <root>/xla/random; returns what scores a store, and seconds."""
    start = time.process_time()
    if row.settings is None:
        return _trees(root, seed, args.work), time.process_time() - start
    from baselines.tasks import predict
    from baselines.tasks import prediction
    from baselines.tasks import train

    settings = config.LayoutConfig(
        **{**row.settings, 'source': 'xla', 'search': 'random', 'seed': seed},
        data_root=root,
        cache_dir=os.path.join(args.work, 'cache'),
        out_dir=place,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        model_dir = train.train(settings)
    seconds = time.process_time() - start
    options = prediction.DataOptions(root, settings.cache_dir)
    predictor = predict.load_predictor(model_dir, options)
    return lambda store: list(predictor.scores(predictor.scaled(store))), seconds


def _opened(path: str, work: str) -> store_lib.LayoutStore:
    """A split's folder, or a file: one of its own."""
    if path.endswith('.npz'):
        folder = os.path.join(work, 'real', re.sub(r'\W', '_', path))
        os.makedirs(folder, exist_ok=True)
        link = os.path.join(folder, os.path.basename(path))
        if not os.path.exists(link):
            os.symlink(path, link)
        path = folder
    return store_lib.LayoutStore.open(path, os.path.join(work, 'cache'))


def _tau(score, path: str, work: str) -> float:
    """Mean over programs; real ones by different configurations."""
    store = _opened(path, work)
    found = []
    for number, scores in enumerate(score(store)):
        runtimes = np.asarray(store.config_runtime[store.rows('config', number)])
        if path.endswith('.npz'):
            group = np.asarray(store.config_group[store.rows('config', number)])
            _, first = np.unique(group, return_index=True)
            scores = np.asarray(scores)[first]
            runtimes = np.asarray(store.group_runtime[store.rows('group', number)])
        found.append(np.nan_to_num(metrics.kendall_tau(scores, runtimes)))
    return float(np.mean(found))


# Trees ------------------------------------------------------------------------


def _trees(root: str, seed: int, work: str, flat: bool = False) -> Callable:
    """Fits ranks of runtimes within their program; early stopping on valid.

    Log runtimes in place of ranks are worse by .13 on unet3d: few configurations
    three times as slow decide.
    """
    import lightgbm

    columns = _flat if flat else _pooled

    def data(split, reference=None):
        store = _opened(os.path.join(root, 'xla/random', split), work)
        x, y = [], []
        for number in range(store.num_graphs):
            x.append(columns(store.record(number)))
            runtimes = store.config_runtime[store.rows('config', number)]
            y.append(stats.rankdata(runtimes) / len(runtimes))
        return lightgbm.Dataset(
            np.concatenate(x), np.concatenate(y), reference=reference
        )

    train = data('train')
    booster = lightgbm.train(
        {**_TREES, 'seed': seed, 'feature_fraction': 0.8},
        train,
        1000,
        valid_sets=[data('valid', train)],
        callbacks=[lightgbm.early_stopping(100, verbose=False)],
    )
    return lambda store: [
        booster.predict(columns(store.record(number)))
        for number in range(store.num_graphs)
    ]


def _flat(record: records.LayoutRecord) -> np.ndarray:
    return record.node_config_feat.reshape(record.num_configs, -1)


def _pooled(record: records.LayoutRecord) -> np.ndarray:
    """Shares of a program's work by what padding makes of it: [c, columns].

    By kind of instruction (convolution, gradient of a window, dot, reshape) and
    array: elements, times the padding of the fastest dimension to 128, times that
    of the second to 8, and the share whose fastest dimension is the last; for the
    output also with multiply-adds in place of elements.
    """
    consumer, producer = record.edge_index.T
    features, opcode = record.node_feat, record.node_opcode
    dims_of = features[:, 21:27].astype(np.int64)
    columns = np.zeros([record.num_configs, 4, 3, 3])
    products = np.zeros([record.num_configs, 4, 2])
    totals = np.full([4, 3, 1], 1e-9)
    work = 1e-9
    for place, node in enumerate(record.node_config_ids):
        operands = producer[consumer == node][:2]
        arrays = [dims_of[i] for i in (node, *operands)]
        sizes = [float(np.prod(np.maximum(dims, 1))) for dims in arrays]
        window = max(features[node, 44], 1.0)
        kind = {26: 0, 34: 2}.get(int(opcode[node]), 3)
        depth = np.sqrt(sizes[1] * sizes[-1] / sizes[0]) if kind == 2 else 0.0
        if kind == 0:
            batch, feature = features[node, [105, 106]].astype(int)
            depth = window
            pixels = sizes[0] / max(arrays[0][batch] * arrays[0][feature], 1)
            kind = int(window > pixels)
        work += sizes[0] * depth
        for array, (dims, size) in enumerate(zip(arrays, sizes)):
            chosen = record.node_config_feat[:, place, 6 * array : 6 * array + 2]
            rank = np.count_nonzero(dims)
            usual = np.array([rank - 1, rank - 2])
            chosen = np.where(chosen < 0, usual, chosen).astype(int).clip(0, 5)
            fastest, second = np.maximum(dims[chosen], 1).T
            lanes = -(-fastest // 128) * 128 / fastest
            both = lanes * -(-second // 8) * 8 / second
            seen = np.stack([lanes, both, chosen[:, 0] == rank - 1], 1)
            columns[:, kind, array] += size * seen
            totals[kind, array] += size
            if not array:
                products[:, kind, 0] += size * depth * lanes
                products[:, kind, 1] += size * depth * np.log(lanes)
    columns /= totals
    parts = [columns, products / work, products.sum(1) / work]
    return np.concatenate([p.reshape(record.num_configs, -1) for p in parts], 1)


# Within a program ---------------------------------------------------------------


def _within(args, chosen: List[Row], real: Dict[str, str]) -> None:
    """Prints tau on held-out configurations of each real program."""
    results: Dict[str, List[Dict[str, float]]] = {row.name: [] for row in chosen}
    for seed in args.seeds:
        for row in chosen:
            known = {}
            for name, path in real.items():
                root = os.path.join(args.work, 'within', f'{name}-{seed}')
                _split(path, os.path.join(root, 'xla/random'), seed)
                place = os.path.join(root, ''.join(filter(str.isalnum, row.name)))
                place = f'{place}-{args.epochs}'
                known[name] = _read(place).get('tau')
                if known[name] is None and not args.table:
                    if row.settings is None:
                        score = _trees(root, seed, args.work, flat=True)
                    else:
                        alone = {**row.settings, 'batch': 1, 'configs': 64}
                        score, _ = _trained(
                            args, row._replace(settings=alone), root, seed, place
                        )
                    test = os.path.join(root, 'xla/random/test')
                    known[name] = _tau(score, test, args.work)
                    with files.write_atomically(f'{place}.json') as stream:
                        json.dump({'tau': known[name]}, stream)
                    print(row.name, name, seed, known[name], file=sys.stderr)
            results[row.name].append(known)
    print(f'trained on {_WITHIN} configurations\n\n{_table(results, list(real))}')


def _split(path: str, root: str, seed: int) -> None:
    """Writes 400 configurations to train, 100 to valid, the others to test."""
    if os.path.exists(os.path.join(root, 'test')):
        return
    record = records.read_layout(path)
    flat = record.node_config_feat.reshape(record.num_configs, -1)
    group = np.unique(flat, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.random.default_rng(seed).permutation(group.max() + 1)[group]
    order = np.argsort(order, kind='stable')
    bounds = [0, _WITHIN, _WITHIN + 100, len(order)]
    for i in (1, 2):  # no group on two sides
        while group[order[bounds[i]]] == group[order[bounds[i] - 1]]:
            bounds[i] += 1
    for i, split in enumerate(('train', 'valid', 'test')):
        part = np.sort(order[bounds[i] : bounds[i + 1]])
        folder = os.path.join(root, split)
        os.makedirs(folder, exist_ok=True)
        records.write_layout(
            os.path.join(folder, os.path.basename(path)),
            records.LayoutRecord(
                **{
                    **vars(record),
                    'node_config_feat': record.node_config_feat[part],
                    'config_runtime': record.config_runtime[part],
                }
            ),
        )


def _table(results: Dict[str, List[Dict[str, float]]], targets: List[str]) -> str:
    lines = ['| model | ' + ' | '.join(targets) + ' | core seconds |']
    lines += ['|' + ' --- |' * (len(targets) + 2)]
    lines += ['| random | ' + '0 | ' * len(targets) + '- |']
    for name, seeds in results.items():
        cells = [_shown([s.get(t) for s in seeds], '.3f') for t in targets]
        cells += [_shown([s.get('seconds') for s in seeds], '.0f')]
        lines.append(f'| {name} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def _shown(values: List[Any], form: str) -> str:
    values = [value for value in values if value is not None]
    if not values:
        return '-'
    spread = f' ± {format(statistics.stdev(values), form)}' if len(values) > 1 else ''
    return format(statistics.mean(values), form) + spread


if __name__ == '__main__':
    sys.exit(main())
