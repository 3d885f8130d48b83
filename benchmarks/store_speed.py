"""Times the tile store on a simulated split of the real collection's size.

    python benchmarks/store_speed.py                  5,709 kernels, minutes
    python benchmarks/store_speed.py --kernels 200    seconds

Sizes follow the published ones (40 nodes and 1,946 configurations per kernel on
average); values are random numbers, so this is about bytes and not about
kernels.  Files have just been written and lie in the page cache: what is timed
is reading them as a second run would, not the disk.  Everything is deleted at
the end, unless --dir keeps it for the next time.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time

import numpy as np
import tqdm

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import results

from baselines.data.tile import records
from baselines.data.tile import sampling
from baselines.data.tile import store as store_lib
from baselines.features import normalizer

_NODES = 40.1
_CONFIGS = 1946
_BATCH = 10


def _sizes(rng, count, mean, low):
    """Long-tailed whole numbers with that mean."""
    sizes = rng.lognormal(0, 1, count)
    return np.maximum(low, np.round(sizes * (mean / sizes.mean()))).astype(int)


def make_split(folder: str, kernels: int) -> None:
    """Writes a simulated split; a folder that has as many files is kept."""
    os.makedirs(folder, exist_ok=True)
    if len(os.listdir(folder)) == kernels:
        return
    rng = np.random.default_rng(0)
    nodes = _sizes(rng, kernels, _NODES, 2)
    configs = _sizes(rng, kernels, _CONFIGS, 2)
    for i in tqdm.trange(kernels, desc='simulating', unit='file', disable=None):
        n, c = nodes[i], configs[i]
        consumers = np.arange(1, n, dtype=np.int32)
        # As in real kernels, about half of the columns never change.
        features = np.zeros((n, 140), np.float32)
        features[:, :60] = rng.integers(0, 9, (n, 60))
        tiles = np.zeros((c, 24), np.float32)
        tiles[:, :12] = 2 ** rng.integers(0, 8, (c, 12))
        records.write_tile(
            os.path.join(folder, f'simulated_{i:05d}.npz'),
            records.TileRecord(
                graph_id='',
                node_feat=features,
                node_opcode=rng.integers(1, 120, n),
                edge_index=np.stack([consumers, consumers - 1], axis=1),
                config_feat=tiles,
                config_runtime=rng.integers(10_000, 200_000, c),
                config_runtime_normalizers=np.full(c, 20_000),
            ),
        )


def _read_bytes(folder):
    start = time.perf_counter()
    size = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as stream:
            size += len(stream.read())
    return {'read_bytes_s': time.perf_counter() - start, 'npz_mb': size / 1e6}


def _load_arrays(folder):
    start = time.perf_counter()
    for name in os.listdir(folder):
        with np.load(os.path.join(folder, name)) as arrays:
            for key in arrays.files:
                arrays[key]  # pylint: disable=pointless-statement
    return {'np_load_s': time.perf_counter() - start}


def _build(folder, cache_dir):
    start = time.perf_counter()
    store = store_lib.TileStore.open(folder, cache_dir)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        'build_s': time.perf_counter() - start,
        'build_peak_mb': peak / 1e3,
        'kernels': len(store),
        'nodes': int(store.node_offsets[-1]),
        'configs': int(store.config_offsets[-1]),
    }


def _resident_mb():
    with open('/proc/self/statm', encoding='ascii') as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() / 1e6


def _use(folder, cache_dir):
    """Opens the packed split and gathers batches as a training step does."""
    before, start = _resident_mb(), time.perf_counter()
    store = store_lib.TileStore.open(folder, cache_dir)
    opened = time.perf_counter() - start
    grown = _resident_mb() - before

    start = time.perf_counter()
    kept = store.with_at_least(_BATCH)
    scale = normalizer.Normalizer.fit(store, kept)
    fitted = time.perf_counter() - start

    rng = np.random.default_rng(0)
    times = []
    for _ in range(300):
        start = time.perf_counter()
        _gather(store, scale, rng, rng.choice(kept, _BATCH, replace=False))
        times.append(time.perf_counter() - start)
    return {
        'open_s': opened,
        'open_resident_mb': grown,
        'fit_s': fitted,
        'first_batch_ms': times[0] * 1e3,
        'batch_ms': statistics.median(times) * 1e3,
    }


def _gather(store, scale, rng, graphs):
    """The arrays of a batch: 10 kernels, 10 configurations of each."""
    rows = store.config_offsets[graphs, None] + sampling.draw_configs(
        rng, store.config_counts[graphs], _BATCH
    )
    nodes = _ranges(store.node_offsets, graphs)
    edges = _ranges(store.edge_offsets, graphs)
    counts = np.diff(store.edge_offsets)[graphs]
    first = np.concatenate([[0], np.cumsum(np.diff(store.node_offsets)[graphs])[:-1]])
    return (
        scale.nodes(store.node_feat[nodes]),
        store.node_opcode[nodes],
        store.edge_index[edges] + np.repeat(first, counts)[:, None],
        scale.configs(store.config_feat[rows]),
        store.config_runtime[rows] / store.config_runtime_normalizers[rows],
    )


def _ranges(offsets, graphs):
    """Row numbers of the graphs' ranges, end to end."""
    lengths = offsets[graphs + 1] - offsets[graphs]
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(offsets[graphs] - ends + lengths, lengths)


def main() -> None:
    """Simulates, measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--kernels', type=int, default=5709)
    parser.add_argument('--dir', help='keep the simulated split here')
    parser.add_argument('--record', action='store_true', help='keep the figures')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        split = os.path.join(args.dir or scratch, 'train')
        make_split(split, args.kernels)
        figures = {'simulated': True}
        figures.update(results.alone(_read_bytes, split))
        figures.update(results.alone(_load_arrays, split))
        figures.update(results.alone(_build, split, scratch))
        figures.update(results.alone(_use, split, scratch))
    results.show(figures, args.record)


if __name__ == '__main__':
    main()
