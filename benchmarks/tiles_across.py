"""Trains tile models on each of two simulators, and tests them on both.

  python benchmarks/tiles_across.py --work ~/out/across --seeds 0 1 2
  python benchmarks/tiles_across.py --work ~/out/across --ablations --seeds 0
  python benchmarks/tiles_across.py --work ~/out/across --table    # what is there

A model that was made on one simulator may know no more than its rules.  So every
model is trained on either one (600 kernels; 100 to validate on, 100 to test, of
other programs), and measured on the test kernels of both.  Rows beside the
models: random order, and the analytical estimate alone.  `Trees` are LightGBM on the
columns that the models see; `--recipe=strong` grows fewer of them beside its model
and scores with the mean, so its row is computed from those of both, seed by seed.
Errors are means over seeds, plus or minus their standard deviation; `minus Trees` is
the paired difference, kernel by kernel, of scores averaged over seeds, with its
95 % bootstrap interval.

Everything here is SIMULATED.  What is in --work is not trained again.
"""

import os
import shutil
import sys
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import results

from baselines import command_line
from baselines import files
from baselines.data.tile import store as store_lib
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.features import tile_table
from baselines.hlo import schema

_SIMULATORS = ('tile', 'tile_other')


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: as the table says it.
        flags: of tiles_train.py; none for the mean of both members.
    """

    name: str
    flags: Tuple[str, ...] = ()


_EPOCHS = '--epochs=60'
_MODEL, _TREES, _STRONG = 'LateJoinResSAGE', 'Trees', 'strong recipe'
# Those that the recipe grows.
_FEWER = 'Trees, 250 with a rate of 0.15'
ROWS = (
    Row(_TREES, ('--model=Trees',)),
    Row(
        _FEWER,
        ('--model=Trees', '--model_kwargs_json={"trees": 250, "learning_rate": 0.15}'),
    ),
    Row('EarlyJoinSAGE, published', ('--epochs=60', '--early_stop=60')),
    Row(
        'ResSAGE, estimate',
        (
            '--recipe=strong',
            '--model=ResSAGE',
            '--estimate',
            '--configs=64',
            '--batch=5',
            _EPOCHS,
        ),
    ),
    Row(_MODEL, ('--recipe=strong', '--notrees', _EPOCHS)),
    Row(_STRONG),
)
# What of the strong recipe's graph model matters: it, with one thing changed.
ABLATIONS = tuple(
    Row(f'{_MODEL}, {name}', ('--recipe=strong', '--notrees', _EPOCHS, *flags))
    for name, *flags in (
        ('no tile columns', '--notile_columns'),
        ('no estimate', '--noestimate'),
        ('no bins', '--model_kwargs_json={"bins": 0}'),
        ('no logarithms', '--model_kwargs_json={"log_scales": []}'),
        ('no message passing', '--model_kwargs_json={"node_gnns": 0}'),
        ('no head blocks', '--model_kwargs_json={"head_blocks": 0}'),
        ('dropout', '--model_kwargs_json={"dropout": 0.1}'),
        ('regression', '--losses=PairwiseDifferenceLoss'),
        ('fastest first', '--losses=FastestListMLELoss:1,MSE:0.02'),
        ('128 configurations', '--configs=128'),
        ('clipped globally', '--clip=global', '--clip_norm=1'),
    )
)


class Kernels:
    """A split of one simulator, and how to measure scores on it."""

    def __init__(self, work: str, simulator: str, split: str):
        self.root = os.path.join(work, 'data', simulator)
        self.store = store_lib.TileStore.open(
            os.path.join(self.root, split), os.path.join(work, 'cache')
        )
        counts = self.store.config_counts
        self.kernel = np.repeat(np.arange(len(counts)), counts)
        self.labels = np.asarray(self.store.config_runtime) / np.asarray(
            self.store.config_runtime_normalizers
        )

    def by_kernel(self, rows: np.ndarray) -> List[np.ndarray]:
        """Cuts rows of configurations into kernels."""
        return np.split(rows, self.store.config_offsets[1:-1])

    def measured(self, scores: np.ndarray) -> Dict[str, np.ndarray]:
        """Top-1 and top-5 error, OPA and tau of each kernel, [kernels] each."""
        found = []
        for given, labels in zip(self.by_kernel(scores), self.by_kernel(self.labels)):
            right, pairs = metrics.ordered_pairs(given, labels)
            found.append(
                (
                    metrics.top_k_error(given, labels, 1),
                    metrics.top_k_error(given, labels, 5),
                    right,
                    pairs,
                    np.nan_to_num(metrics.kendall_tau(given, labels)),
                )
            )
        one, five, right, pairs, tau = np.array(found, float).T
        return {'top-1': one, 'top-5': five, 'right': right, 'pairs': pairs, 'tau': tau}


def main() -> None:
    """Simulates, trains what is missing, and prints the tables."""
    parser = results.parser(__doc__)
    parser.add_argument('--work', default='~/out/across')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    parser.add_argument('--kernels', type=int, default=600, help='of each train split')
    parser.add_argument('--rows', nargs='+', help='only these')
    parser.add_argument('--ablations', action='store_true', help='rows of one change')
    parser.add_argument('--table', action='store_true', help='train nothing')
    args = parser.parse_args()
    command_line.start_tensorflow()
    work = files.expand(args.work)
    for simulator in _SIMULATORS:
        root = os.path.join(work, 'data', simulator)
        sizes = ['--train', str(args.kernels), '--valid', '100', '--test', '100']
        results.sample(root, '--collection', simulator, *sizes)
    rows = (*ROWS, *ABLATIONS) if args.ablations else ROWS
    rows = [row for row in rows if not args.rows or row.name in args.rows]
    if not args.table:
        for seed in args.seeds:
            for row in rows:
                for source in _SIMULATORS:
                    _ensure(work, row, source, seed)
    for target in _SIMULATORS:
        for source in (target, *(s for s in _SIMULATORS if s != target)):
            print(_table(work, rows, args.seeds, source, target))


# Scores ----------------------------------------------------------------------


def _place(work: str, row: Row, source: str, seed: int) -> str:
    name = ''.join(c if c.isalnum() else '_' for c in row.name)
    return os.path.join(work, 'runs', f'{name}-{source}-{seed}')


def _ensure(work: str, row: Row, source: str, seed: int) -> None:
    """Trains a row and keeps its scores on the test kernels of both simulators."""
    place = _place(work, row, source, seed)
    if not row.flags or os.path.exists(f'{place}.json'):
        return
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    root, cache = os.path.join(work, 'data', source), os.path.join(work, 'cache')
    start = results.core_seconds()
    flags = (f'--seed={seed}', *row.flags)
    model_dir = results.train_tiles(root, cache, place, *flags)
    figures = {'seconds': results.core_seconds() - start}
    for target in _SIMULATORS:
        kernels = Kernels(work, target, 'test')
        scores = results.load(model_dir, kernels.root, cache).score(kernels.store)
        np.save(f'{place}-{target}.npy', np.concatenate(list(scores)))
    results.keep(f'{place}.json', figures)
    print(f'{row.name}, {source}, seed {seed}: {figures}', file=sys.stderr)


# Tables -----------------------------------------------------------------------


def _table(work, rows, seeds, source: str, target: str) -> str:
    kernels = Kernels(work, target, 'test')
    lines = [
        f'trained on `{source}`, tested on `{target}`',
        '',
        '| | top-1 error | top-5 error | OPA | tau | core seconds |',
        '|---|---|---|---|---|---|',
    ]
    random = np.random.default_rng(0).random((len(seeds), len(kernels.kernel)))
    estimate = tile_table.TileTable(kernels.store, ('estimate',))
    alone = estimate.rows(np.arange(len(kernels.kernel)))[:, -1]
    lines += [
        _line('random', [kernels.measured(scores) for scores in random]),
        _line('estimate alone', [kernels.measured(alone)]),
    ]
    means: Dict[str, np.ndarray] = {}
    for row in rows:
        found = _found(work, kernels, row, seeds, source, target)
        if not found:
            continue
        scores, seconds = zip(*found)
        seen = '' if len(found) == len(seeds) else f' ({len(found)} of {len(seeds)})'
        measured = [kernels.measured(each) for each in scores]
        lines.append(_line(row.name + seen, measured, np.mean(seconds)))
        means[row.name] = _mean(kernels, scores)
        if len(found) > 1:
            of_seeds = kernels.measured(means[row.name])
            lines.append(_line(f'mean of seeds: {row.name}', [of_seeds]))
    lines.append('')
    for name in (_STRONG, _MODEL):
        for other in (_TREES, _FEWER, _MODEL):
            if name != other and {name, other} <= means.keys():
                words = f'* {name} minus {other}, over kernels: '
                lines.append(words + _paired(kernels, means[name], means[other]))
    for kind, chosen in _kinds(kernels).items():
        cells = [
            f'{name} {_opa(kernels.measured(mean), chosen):.3f}'
            for name, mean in means.items()
        ]
        lines.append(f'* OPA of {chosen.sum()} {kind}: {", ".join(cells)}')
    return '\n'.join([*lines, ''])


def _found(
    work, kernels: Kernels, row: Row, seeds, source: str, target: str
) -> List[Tuple[np.ndarray, float]]:
    """Scores and seconds of the seeds that are there; of the recipe the mean."""
    found = []
    for seed in seeds:
        if row.flags:
            place = _place(work, row, source, seed)
            kept = results.kept(f'{place}.json')
            if kept:
                found.append((np.load(f'{place}-{target}.npy'), kept['seconds']))
            continue
        members = [
            _found(work, kernels, member, [seed], source, target)
            for member in ROWS
            if member.name in (_MODEL, _FEWER)
        ]
        if all(members):
            scores, seconds = zip(*(member for [member] in members))
            found.append((_mean(kernels, scores, 'standard'), sum(seconds)))
    return found


def _mean(kernels: Kernels, scores: Sequence[np.ndarray], by: str = 'ranks'):
    """Means of ranks, or of standardised scores, within each kernel."""
    by_kernel = zip(*(kernels.by_kernel(each) for each in scores))
    return np.concatenate([ensembles.average(parts, by=by) for parts in by_kernel])


def _kinds(kernels: Kernels) -> Dict[str, np.ndarray]:
    """Which kernels hold a product, else a reduction, else neither: bool each."""
    store, numbers = kernels.store, schema.opcode_numbers
    node = np.repeat(np.arange(store.num_graphs), np.diff(store.node_offsets))
    holds = []
    for names in (('convolution', 'dot'), ('reduce', 'reduce-window')):
        nodes = np.isin(store.node_opcode, numbers(names))
        holds.append(np.bincount(node[nodes], minlength=store.num_graphs) > 0)
    product, reduction = holds
    return {
        'products': product,
        'reductions': reduction & ~product,
        'others': ~reduction & ~product,
    }


def _opa(found: Dict[str, np.ndarray], chosen: np.ndarray) -> float:
    return found['right'][chosen].sum() / found['pairs'][chosen].sum()


def _overall(found: Dict[str, np.ndarray]) -> Tuple[float, ...]:
    opa = found['right'].sum() / found['pairs'].sum()
    return found['top-1'].mean(), found['top-5'].mean(), opa, found['tau'].mean()


def _line(name: str, found, seconds: float = 0) -> str:
    values = np.array([_overall(each) for each in found])
    cells = [
        f'{mean:.{digits}f}' + (f' ± {spread:.{digits}f}' if len(found) > 1 else '')
        for mean, spread, digits in zip(values.mean(0), values.std(0), (3, 4, 3, 3))
    ]
    cost = f'{seconds:,.0f}' if seconds else ''
    return f'| {" | ".join([name, *cells, cost])} |'


def _paired(kernels: Kernels, ours: np.ndarray, theirs: np.ndarray) -> str:
    one, other = kernels.measured(ours), kernels.measured(theirs)
    texts = []
    for key in ('top-1', 'top-5', 'OPA', 'tau'):
        if key == 'OPA':  # of each kernel
            pairs = np.maximum(one['pairs'], 1)
            difference = (one['right'] - other['right']) / pairs
        else:
            difference = one[key] - other[key]
        low, high = metrics.bootstrap_interval(difference)
        texts.append(f'{key} {difference.mean():+.4f} ({low:+.4f} to {high:+.4f})')
    return ', '.join(texts)


if __name__ == '__main__':
    results.run(main)
