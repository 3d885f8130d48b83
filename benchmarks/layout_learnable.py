"""Is the runtime of simulated layout data learnable, and not trivially so?

    python benchmarks/layout_learnable.py [folder]

Fits a ridge regression on the train programs of each collection, from the
published arrays alone, and prints the mean Kendall's tau over the configurations
of the test programs, which are unseen:

    counts     how many entries differ from row major, per tensor: a global
               statistic that knows nothing of the graph
    local      registers that each configurable node's own arrays fill, and those
               whose last dimension is not the fastest, by opcode and tensor
    ceiling    tau between a measurement and another one: the noise, about
"""

import glob
import itertools
import sys

import numpy as np
import results
from scipy import stats

from baselines.data.layout.records import LayoutRecord
from baselines.data.layout.records import read_layout
from baselines.hlo import schema
from baselines.simulated.layout import dataset
from baselines.simulated.layout import rules
from baselines.simulated.layout.ops import shape
from baselines.simulated.tpu import registers

CONVOLUTION, DOT, RESHAPE = map(
    schema.OPCODE_NUMBERS.get, ('convolution', 'dot', 'reshape')
)


def main() -> None:
    root = sys.argv[1] if len(sys.argv) > 1 else dataset.Programs().ensure()
    rows = ('counts', 'local', 'ceiling')
    print('SIMULATED data; mean tau over unseen test programs')
    print(f'{"collection":14}' + ''.join(f'{row:>10}' for row in rows))
    for source, search in itertools.product(('xla', 'nlp'), ('random', 'default')):
        found = {}
        for split in ('train', 'test'):
            paths = sorted(glob.glob(f'{root}/{source}/{search}/{split}/*.npz'))
            found[split] = [examples(read_layout(path)) for path in paths]
        taus = [score(found, columns) for columns in (0, 1)]
        times = [times for _, times in found['test']]
        taus.append(np.mean([noise_ceiling(t) for t in times]))
        print(f'{source}:{search:10}' + ''.join(f'{tau:10.3f}' for tau in taus))


def examples(record: LayoutRecord):
    """Returns (two sets of features, runtimes relative to their mean)."""
    values = record.node_config_feat.astype(int).reshape(record.num_configs, -1, 3, 6)
    dims, operands = shapes(record)
    padded = np.zeros((record.num_configs, 9))
    turned = np.zeros_like(padded)
    counts = np.zeros((record.num_configs, 3))
    for position, node in enumerate(record.node_config_ids):
        kind = 3 * (CONVOLUTION, DOT, RESHAPE).index(record.node_opcode[node])
        for t, array in enumerate([node, *operands[node]][:3]):
            layouts, size = full(values[:, position, t], dims[array]), dims[array]
            if len(size) < 2:
                continue
            distinct, which = np.unique(layouts, axis=0, return_inverse=True)
            which = which.ravel()
            array = shape('', size)
            filled = np.array([registers(array.ordered(l)) for l in distinct.tolist()])
            padded[:, kind + t] += filled[which]
            wrong = layouts[:, 0] != len(size) - 1
            turned[:, kind + t] += filled[which] * wrong
            counts[:, t] += (layouts != np.arange(len(size))[::-1]).sum(axis=1)
    total = padded.mean(axis=0).sum()
    sets = (counts / counts.mean(axis=0).clip(1), np.hstack([padded, turned]) / total)
    runtimes = record.config_runtime / record.config_runtime.mean()
    return [s - s.mean(axis=0) for s in sets], runtimes - 1


def shapes(record: LayoutRecord):
    """Returns sizes of every node, and the producers of every node by number."""
    sizes = record.node_feat[:, schema.DIMENSIONS].astype(int)
    dims = [tuple(int(s) for s in row if s) for row in sizes]
    operands = {node: [] for node in range(record.num_nodes)}
    for consumer, producer in record.edge_index.tolist():
        operands[consumer].append(producer)
    return dims, operands


def full(listed: np.ndarray, dims) -> np.ndarray:
    """Completes layouts that list only the fastest dimensions, int [c, rank]."""
    rank = len(dims)
    usual = np.arange(rank)[::-1]
    distinct, which = np.unique(listed, axis=0, return_inverse=True)
    whole = []
    for row in distinct.tolist():
        row = [d for d in row if 0 <= d < rank]
        whole.append(row + [d for d in usual if d not in row])
    return np.array(whole).reshape(len(distinct), rank)[which.ravel()]


def score(found, columns: int, penalty: float = 1.0) -> float:
    """Fits on train, returns the mean tau on test."""
    x = np.concatenate([sets[columns] for sets, _ in found['train']])
    y = np.concatenate([times for _, times in found['train']])
    scale = x.std(axis=0) + 1e-9
    x = x / scale
    weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    taus = [
        stats.kendalltau(sets[columns] / scale @ weights, times).statistic
        for sets, times in found['test']
    ]
    return float(np.nanmean(taus))


def noise_ceiling(times: np.ndarray) -> float:
    """Returns tau between runtimes and runtimes with noise once more, about."""
    noise = np.random.default_rng(0).standard_normal(len(times))
    return stats.kendalltau(
        times, (1 + times) * (1 + rules.Rules().noise * noise)
    ).statistic


if __name__ == '__main__':
    results.run(main)
