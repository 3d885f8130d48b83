"""Trains ResModel on the simulated layout collections, beside boosted trees.

  pip install scikit-learn                              # for the trees only
  python benchmarks/layout_simulated.py                    # all four, one seed
  python benchmarks/layout_simulated.py --seeds 0 1 2 --record

Prints Kendall's tau on the test programs, which are in no other split: the mean
over programs and seeds, and its 95 % bootstrap interval over programs.  `trees`
are scikit-learn's histogram gradient boosting on the numbers of
`layout_features.py`.

Where the real graph is at hand (--real_root), both also train on the 72
configurations of its training split and rank the 40 of its validation split.
Those choose nothing there, neither epoch nor setting.  Some of them are in the
training split too; a row of its own leaves these out.

The data are simulated: the figures say how models compare on it, not what they
reach on real programs.  ResModel has its published architecture, loss and
gradient clipping; `RECIPE` is what differs from the default flags, because an
epoch of 24 programs is three steps with those, not hundreds.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from typing import Dict, List, NamedTuple

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import layout_features

from baselines import command_line
from baselines import config
from baselines.data import collections
from baselines.data.layout import store as layout_store
from baselines.ranking import metrics
from baselines.ranking import report
from baselines.simulated.layout import dataset

COLLECTIONS = tuple(
    name.partition(':')[2] for name in collections.NAMES if name.startswith('layout:')
)

# Chosen by the tau of the validation programs.
RECIPE = dict(
    epochs=300,
    early_stop=100,
    lr=0.01,
    batch=4,
    configs=32,
    sampling='uniform',
    validation_configs=300,
)
# Without validation the last epoch counts.  One program is one step an epoch:
# the default 50 epochs are 50 steps, and more did not help folds of its
# training split.
REAL_RECIPE = dict(batch=1, validate_batches=0)

TREES = dict(
    max_iter=150,
    learning_rate=0.1,
    max_leaf_nodes=15,
    min_samples_leaf=50,
    l2_regularization=1.0,
    early_stopping=False,
)
REAL_TREES = {**TREES, 'min_samples_leaf': 5}
_ROWS_PER_PROGRAM = 600  # that trees learn from; of more a uniform subset

_REAL_ROOT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), '../../shared/data/npz/layout'
)


class Found(NamedTuple):
    """What a model reached.

    Attributes:
        taus: per seed {program: tau}.
        seconds: of training, mean over seeds.
    """

    taus: List[Dict[str, float]]
    seconds: float

    def means(self) -> List[float]:
        """The mean over programs for each seed."""
        return [float(np.mean(list(taus.values()))) for taus in self.taus]

    def cell(self) -> str:
        """Mean over seeds and programs, interval, and range over seeds."""
        of_program = np.mean([list(taus.values()) for taus in self.taus], axis=0)
        text = f'{of_program.mean():.3f}'
        if len(of_program) > 1:
            low, high = metrics.bootstrap_interval(of_program)
            text += f' ({low:.3f} to {high:.3f})'
        if len(self.taus) > 1:
            text += f'; seeds {min(self.means()):.3f} to {max(self.means()):.3f}'
        return text


def main() -> int:
    """Trains, measures and prints."""
    args = _arguments()
    command_line.start_tensorflow()
    changed = {'epochs': args.epochs} if args.epochs else {}
    rows = []
    print('| collection | random | trees | ResModel | training |')
    print('|---|---|---|---|---|')
    for collection in args.collections:
        settings = _settings(args, dataset.Programs().ensure(), collection)
        trees = by_seed(boosted, args, settings, 'test', TREES)
        model = by_seed(trained, args, settings, 'test', {**RECIPE, **changed})
        rows += show(collection, '0', every(trees), every(model))
    real = os.path.normpath(args.real_root)
    if os.path.isdir(os.path.join(real, 'xla', 'random')):
        settings = _settings(args, real, 'xla:random')
        trees = by_seed(boosted, args, settings, 'valid', REAL_TREES)
        model = by_seed(trained, args, settings, 'valid', {**REAL_RECIPE, **changed})
        new = _new_configurations(settings)
        for name, keep in (('held back', new | True), ('held back and new', new)):
            count = int(keep.sum())
            far = 1.96 * (2 * (2 * count + 5) / (9 * count * (count - 1))) ** 0.5
            rows += show(
                f'real graph, {count} {name}',
                f'0 ({-far:.2f} to {far:.2f})',
                every(trees, keep),
                every(model, keep),
            )
    else:
        print(f'no real graph in {real}: no row for it', file=sys.stderr)
    if args.record:
        import results

        results.record(rows)
    return 0


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--collections', nargs='*', choices=COLLECTIONS, default=COLLECTIONS
    )
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    parser.add_argument(
        '--epochs', type=int, default=0, help="in place of the recipes'"
    )
    parser.add_argument(
        '--cache_dir',
        default=config.LayoutConfig.cache_dir,
        help='where packed splits are kept',
    )
    parser.add_argument(
        '--real_root',
        default=_REAL_ROOT,
        help='folder with xla/random of a single real graph',
    )
    parser.add_argument('--record', action='store_true', help='keep the figures')
    return parser.parse_args()


def _settings(args, data_root: str, collection: str):
    source, search = collection.split(':')
    return dict(
        data_root=data_root, source=source, search=search, cache_dir=args.cache_dir
    )


def show(name: str, chance: str, trees: Found, model: Found):
    """Prints a row of the table, and returns those of results.csv."""
    print(
        f'| {name} | {chance} | {trees.cell()} | {model.cell()} '
        f'| {model.seconds:.0f} s |',
        flush=True,
    )
    rows = []
    for kind, found in (('trees', trees), ('ResModel', model)):
        for number, tau in enumerate(found.means(), 1):
            of = f'seed {number} of {len(found.taus)}'
            rows.append((f'{name}: {kind}, {of}: tau', tau, ''))
        rows.append((f'{name}: {kind}, training', found.seconds, 's'))
    return rows


def by_seed(method, args, *more):
    """Calls a method once per seed: [(results, seconds), ...]."""
    return [method(seed, *more) for seed in args.seeds]


def every(runs, keep=slice(None)) -> Found:
    """Measures what `by_seed` returned, on the configurations in `keep`."""
    taus = [
        {
            r.graph_id: float(
                np.nan_to_num(metrics.kendall_tau(r.scores[keep], r.runtimes[keep]))
            )
            for r in results
        }
        for results, _ in runs
    ]
    return Found(taus, float(np.mean([seconds for _, seconds in runs])))


def trained(seed: int, settings, split: str, recipe):
    """Trains ResModel; returns ([GraphResult] of a split, seconds)."""
    from baselines.tasks import predict
    from baselines.tasks import prediction
    from baselines.tasks import train

    with tempfile.TemporaryDirectory() as out_dir:
        options = config.LayoutConfig(**settings, **recipe, seed=seed, out_dir=out_dir)
        start = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()):
            model_dir = train.train(options)
        seconds = time.monotonic() - start
        data = prediction.DataOptions(options.data_root, options.cache_dir)
        predictor = predict.load_predictor(model_dir, data)
        store = predictor.open_split(split)
        return [
            report.GraphResult(name, scores, predictor.labels(store, number))
            for number, (name, scores) in enumerate(predictor.score(store))
        ], seconds


def boosted(seed: int, settings, split: str, options):
    """Trains trees on train; returns ([GraphResult] of a split, seconds)."""
    try:
        from sklearn import ensemble
    except ImportError:
        raise ValueError(
            'the reference needs scikit-learn: pip install scikit-learn'
        ) from None

    start = time.monotonic()
    train, test = (_rows(settings, part) for part in ('train', split))
    rng = np.random.default_rng(seed)
    x, y, weights = [], [], []
    for rows in train:
        kept = rng.permutation(len(rows.runtimes))[:_ROWS_PER_PROGRAM]
        times = np.log(rows.runtimes)
        x.append(_features(rows, train)[kept])
        y.append(((times - times.mean()) / max(times.std(), 1e-9))[kept])
        weights.append(np.full(len(kept), len(kept) ** -0.5))
    model = ensemble.HistGradientBoostingRegressor(random_state=seed, **options)
    model.fit(np.concatenate(x), np.concatenate(y), np.concatenate(weights))
    seconds = time.monotonic() - start
    return [
        report.GraphResult(
            rows.graph_id, model.predict(_features(rows, train)), rows.runtimes
        )
        for rows in test
    ], seconds


def _features(rows, train) -> np.ndarray:
    """A program's sums, as deviations within the program.

    Only so do programs compare; a single program needs no such thing, and the
    means of its splits differ.
    """
    if len(train) == 1:
        return rows.sums.astype(np.float32)
    mean, spread = rows.sums.mean(axis=0), rows.sums.std(axis=0)
    deviation = rows.sums - mean
    scaled = deviation / np.where(spread > 1e-9, spread, 1)
    return np.hstack([deviation, scaled]).astype(np.float32)


def _rows(settings, split: str):
    store = _store(settings, split)
    return [
        layout_features.rows_of(store, graph, merged=split == 'train')
        for graph in range(store.num_graphs)
    ]


def _store(settings, split: str) -> layout_store.LayoutStore:
    return layout_store.LayoutStore.open(
        os.path.join(
            settings['data_root'], settings['source'], settings['search'], split
        ),
        settings['cache_dir'],
    )


def _new_configurations(settings) -> np.ndarray:
    """Which validation configurations of a single graph are not in train."""
    train, valid = (
        _store(settings, split).config_features(0, slice(None))
        for split in ('train', 'valid')
    )
    known = {one.tobytes() for one in train}
    return np.array([one.tobytes() not in known for one in valid])


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
