"""Fits the nanoseconds of `columns/loop_costs.py` to measured kernels.

  python lab/tools/measured_data/fit_costs.py
  python lab/tools/measured_data/fit_costs.py --judge

Prints the table `NANOSECONDS`: for each term the nanoseconds before XLA's thunks and
since, fitted to the train split of the kernels that ship.  What is minimised is, of
the logarithm of the predicted time over the measured one, Huber's loss of its
difference from the kernel's mean and a tenth of that of itself.  It starts from the
nonnegative least squares of the relative error.  The second command prints how well the
table that is there ranks kernels by itself.
"""

import numpy as np
import scipy.optimize

from baselines.data.tile import store as tile_store
from baselines.features import kernel_nodes
from baselines.features import tile_table
from benchmarks import results
from lab.benchmarks import judging
from tpugraphs_lab.columns import loop_costs
from tpugraphs_lab.columns import node_groups
from tpugraphs_lab.columns import release_columns

_ABSOLUTE = 0.1  # weight of the error of a kernel's mean
_LEAST = 1e-4  # nanoseconds to start from
_BOUNDS = -10, 14  # logarithms of nanoseconds
_ROWS = 2048  # at a time


def main() -> None:
    """Fits, and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--judge', action='store_true')
    if parser.parse_args().judge:
        judge()
        return
    graphs = judging.load('tile', 'train')
    store = judging.store_of(graphs)
    counts, terms = counts_of(store)  # [rows, terms]
    times = np.concatenate([graph.halves.min(axis=0) for graph in graphs])
    kernel = np.repeat(np.arange(len(graphs)), store.config_counts)
    have_thunks = release_columns.have_thunks(store)
    rates = []
    for thunks in (False, True):
        chosen = (have_thunks == thunks)[kernel]
        _, place = np.unique(kernel[chosen], return_inverse=True)
        rates.append(fit(counts[chosen], np.log(times[chosen]), place))
    for term, before, since in zip(terms, *rates):
        print(f'    {term!r}: ({before:.2g}, {since:.2g}),')


def judge() -> None:
    """Prints how well the additive model ranks kernels that it was not fitted to."""
    results.head('kernels', 'number', 'top-5 error', 'OPA')
    for archive, split in (
        ('tile', 'valid'),
        ('tile', 'test'),
        ('by_others', 'test'),
        ('by_others_real', 'test'),
    ):
        graphs = judging.load(archive, split)
        store = judging.store_of(graphs)
        rows = np.arange(store.config_offsets[-1])
        table = tile_table.TileTable(store, ['loop'])
        times = table.rows(rows)[:, table.names.index('exact_cost_time')]
        scores = np.split(times, store.config_offsets[1:-1])
        figures = judging.figures('tile', graphs, scores).mean(axis=0)
        name = f'{archive}, {split}'
        results.row(name, f'{len(graphs)}', f'{figures[1]:.1%}', f'{figures[2]:.3f}')


def counts_of(store: tile_store.TileStore) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns the counts of all configurations, [rows, terms], and the terms."""
    nodes = kernel_nodes.KernelNodes(store)
    groups = node_groups.NodeGroups(nodes)
    columns = loop_costs.LoopCosts(groups)
    rows = np.arange(store.config_offsets[-1])
    kernels = np.searchsorted(store.config_offsets, rows, 'right') - 1
    bounds = node_groups.bounds_in(store.config_feat[rows].astype(np.float64))
    parts = []
    for start in range(0, len(rows), _ROWS):
        chunk = kernels[start : start + _ROWS]
        cut = groups.cut(chunk, bounds[start : start + _ROWS])
        parts.append(columns.counts(chunk, cut))
    terms = tuple(parts[0])
    return np.concatenate([np.stack([*p.values()], axis=1) for p in parts]), terms


def fit(counts: np.ndarray, logs: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Returns the nanoseconds of terms.

    Args:
        counts: float64 [rows, terms].
        logs: float64 [rows], logarithms of the measured nanoseconds.
        kernel: int [rows], of each row, from 0 on.
    """
    sizes = np.bincount(kernel)
    weight = 1 / sizes[kernel]

    def centred(values: np.ndarray) -> np.ndarray:
        return values - (np.bincount(kernel, values) / sizes)[kernel]

    def loss(exponents: np.ndarray) -> tuple[float, np.ndarray]:
        parts = counts * np.exp(exponents)
        total = parts.sum(axis=1)
        errors = np.log(total) - logs
        ranked = centred(errors)
        value = _huber(ranked) + _ABSOLUTE * _huber(errors)
        slope = centred(np.clip(ranked, -1, 1)) + _ABSOLUTE * np.clip(errors, -1, 1)
        gradient = (weight * slope / total) @ parts
        return (weight * value).sum() / weight.sum(), gradient / weight.sum()

    relative = counts * np.sqrt(weight)[:, np.newaxis] / np.exp(logs)[:, np.newaxis]
    scale = np.linalg.norm(relative, axis=0) + 1e-30
    start, _ = scipy.optimize.nnls(relative / scale, np.sqrt(weight))
    found = scipy.optimize.minimize(
        loss,
        np.log(np.maximum(start / scale, _LEAST)),
        jac=True,
        method='L-BFGS-B',
        bounds=[_BOUNDS] * counts.shape[1],
        options={'maxiter': 3000, 'ftol': 1e-10, 'gtol': 1e-9},
    )
    return np.exp(found.x)


def _huber(errors: np.ndarray) -> np.ndarray:
    size = np.abs(errors)
    return np.where(size < 1, errors**2 / 2, size - 0.5)


if __name__ == '__main__':
    results.run(main)
