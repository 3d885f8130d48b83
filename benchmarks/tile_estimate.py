"""Measures how well the analytical estimate alone ranks tile configurations.

  python benchmarks/tile_estimate.py --sample_data                # simulated
  python benchmarks/tile_estimate.py --data_root ../shared/data/npz/tile/xla
  python benchmarks/tile_estimate.py --sample_data --record

Nothing is learned here: `log_time`, the last column of `--estimate`, is taken
as the score.  The simulator is itself a formula
over the same public figures: how well two formulas agree says little about
real kernels.
"""

import os
import time

import numpy as np
import results
from scipy import stats

from baselines import config
from baselines.data.tile import store as store_lib
from baselines.evaluation import metrics
from baselines.features import estimate
from baselines.features import kernel_facts

_MEASURES = ('Spearman', 'OPA', 'top-1 error', 'top-5 error')
_FEWEST = 10  # configurations of a kernel that is measured


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--data_root', default=config.TileConfig.data_root)
    parser.add_argument('--cache_dir', default=config.TileConfig.cache_dir)
    parser.add_argument('--sample_data', action='store_true')
    parser.add_argument('--kernels', action='store_true', help='a row for each')
    args = parser.parse_args()
    root = args.data_root
    if args.sample_data:
        from baselines.simulated.tile import dataset

        root = dataset.Kernels().ensure()
    counts = ('', 'kernels', 'configurations')
    results.head(*counts, *_MEASURES, 'configurations / s')
    rows = []
    for split in ('train', 'valid'):
        store = store_lib.TileStore.open(os.path.join(root, split), args.cache_dir)
        names, found, speed = measured(store)
        if args.kernels:
            for name, values in zip(names, found):
                print_row(name, 1, values)
        mean = found.mean(axis=0)
        print_row(f'{split}, mean', len(found), mean, f'{speed:,.0f}')
        kind = 'simulated' if args.sample_data else 'real'
        rows += [
            (f'estimate alone: {kind} {split} {name}', value, '')
            for name, value in zip(_MEASURES, mean[1:])
        ]
        rows.append((f'estimate alone: {kind} {split}', speed, 'configurations/s'))
    results.record(rows, args.record)


def measured(store: store_lib.TileStore):
    """Returns kernel names, a row of figures of each, and configurations / s."""
    kernels = np.repeat(np.arange(store.num_graphs), store.config_counts)
    start = time.perf_counter()
    facts = kernel_facts.KernelFacts.of(store)
    columns = estimate.estimate(facts, kernels, store.config_feat)
    speed = len(kernels) / (time.perf_counter() - start)
    names, found = [], []
    for kernel in store.with_at_least(_FEWEST):
        rows = slice(*store.config_offsets[kernel : kernel + 2])
        scores = columns[rows, -1]
        labels = store.config_runtime[rows] / store.config_runtime_normalizers[rows]
        names.append(store.graph_ids[kernel])
        found.append(
            [
                len(labels),
                stats.spearmanr(scores, labels)[0],
                metrics.ordered_pair_accuracy(scores, labels),
                metrics.top_k_error(scores, labels, 1),
                metrics.top_k_error(scores, labels, 5),
            ]
        )
    return names, np.array(found), speed


def print_row(name: str, kernels: int, values, speed: str = '') -> None:
    """Prints a row of the table."""
    cells = [f'{value:.3f}' for value in values[1:]]
    results.row(name, str(kernels), f'{values[0]:,.0f}', *cells, speed)


if __name__ == '__main__':
    results.run(main)
