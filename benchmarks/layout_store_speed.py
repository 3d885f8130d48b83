"""Times the layout store: importing one huge graph, and sampling from many.

    python benchmarks/layout_store_speed.py                  about a minute
    python benchmarks/layout_store_speed.py --configs 2000   seconds

The huge graph has 20,000 nodes, 1,500 of them configurable, and --configs
configurations (20,000: 2.2 GB as float32).  The 8 graphs that are sampled have
as many nodes and 2,000 configurations each; --many draws from 100,000.
Values are simulated: 2 to 8 layouts per configurable node out of 300, and 30 %
of the configurations repeat others.  Files have just been written and lie in
the page cache.  Everything is deleted at the end.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
import zipfile

import numpy as np
import tqdm

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import results

from baselines.data.layout import sampling as layout_sampling
from baselines.data.layout import store as layout_store
from baselines.features import normalizer

_NODES = 20_000
_CONFIGURABLE = 1_500
_GRAPHS = 8
_DRAWN = 16
_BLOCK = 50


def write_graph(path, dtype, configs, configurable=_CONFIGURABLE, seed=0):
    """Writes a simulated graph without ever holding its features."""
    rng = np.random.default_rng(seed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pool = np.full((300, 18), -1, dtype)
    for row in pool:
        for start in (0, 6, 12):
            rank = rng.integers(0, 6)
            row[start : start + rank] = rng.permutation(rank)
    options = rng.integers(0, len(pool), (configurable, 8))
    choices = rng.integers(2, 9, configurable)
    chain = np.arange(1, _NODES)
    features = np.zeros((_NODES, 140), np.float32)
    features[:, :60] = rng.integers(0, 9, (_NODES, 60))
    arrays = {
        'node_feat': features,
        'node_opcode': rng.integers(1, 120, _NODES).astype(np.uint8),
        'edge_index': np.stack([chain, chain - 1], axis=1),
        'node_config_ids': np.sort(rng.choice(_NODES, configurable, replace=False)),
        'config_runtime': rng.integers(10**8, 2 * 10**8, configs),
        'node_splits': np.array([[0, _NODES]]),
    }
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for key, array in arrays.items():
            with archive.open(f'{key}.npy', 'w') as member:
                np.lib.format.write_array(member, array)
        with archive.open('node_config_feat.npy', 'w', force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member,
                {
                    'descr': np.dtype(dtype).str,
                    'fortran_order': False,
                    'shape': (configs, configurable, 18),
                },
            )
            # Written before, for repetitions.
            old = np.zeros((0, configurable, 18), dtype)
            starts = range(0, configs, _BLOCK)
            for start in tqdm.tqdm(starts, 'simulating', disable=None):
                count = min(_BLOCK, configs - start)
                picks = (rng.random((count, configurable)) * choices).astype(int)
                block = pool[options[np.arange(configurable), picks]]
                repeated = np.flatnonzero(rng.random(count) < 0.3)
                if len(old):
                    block[repeated] = old[rng.integers(0, len(old), len(repeated))]
                old = block
                member.write(block.data)


def _inflate(folder):
    """Only unpacks, which bounds any import from below."""
    start, start_cpu = time.perf_counter(), time.process_time()
    for name in os.listdir(folder):
        with zipfile.ZipFile(os.path.join(folder, name)) as archive:
            with archive.open('node_config_feat.npy') as member:
                while member.read(1 << 20):
                    pass
    return {
        'unpack_only_s': time.perf_counter() - start,
        'unpack_only_cpu_s': time.process_time() - start_cpu,
    }


def _import(folder, cache_dir):
    start, start_cpu = time.perf_counter(), time.process_time()
    store = layout_store.LayoutStore.open(folder, cache_dir)
    seconds = time.perf_counter() - start
    return {
        'import_s': seconds,
        'import_cpu_s': time.process_time() - start_cpu,
        'import_peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        'configs': int(store.config_offsets[-1]),
        'different_configs': int(store.group_offsets[-1]),
        'vectors': int(store.vector_offsets[-1]),
        'packed_mb': sum(
            entry.stat().st_size
            for folder in os.scandir(cache_dir)
            if folder.is_dir()
            for entry in os.scandir(folder.path)
        )
        / 1e6,
    }


def _huge(scratch, configs):
    split = os.path.join(scratch, 'huge', 'train')
    path = os.path.join(split, 'huge.npz')
    write_graph(path, np.float32, configs)
    return {
        'float32_mb': configs * _CONFIGURABLE * 18 * 4 / 1e6,
        'npz_mb': os.path.getsize(path) / 1e6,
        **results.alone(_inflate, split),
        **results.alone(_import, split, os.path.join(scratch, 'huge', 'cache')),
    }


def _draw(split, cache_dir):
    """Draws and decodes batches as a training step does."""
    store = layout_store.LayoutStore.open(split, cache_dir)
    scale = normalizer.Normalizer.fit(store)
    graphs = list(range(_GRAPHS))
    figures = {}
    for strategy in layout_sampling.STRATEGIES:
        sampler = layout_sampling.ConfigSampler(store, strategy, unique=True)
        rng = np.random.default_rng(0)
        times = []
        for _ in range(50):
            start = time.perf_counter()
            drawn = sampler.draw(rng, graphs, _DRAWN)
            for graph, configs in zip(graphs, drawn.configs):
                store.config_features(
                    graph, configs, scale=scale.configs, nodes_first=True
                )
            times.append(time.perf_counter() - start)
        figures[f'{strategy}_ms'] = statistics.median(times) * 1e3
        figures[f'{strategy}_first_ms'] = times[0] * 1e3
    times = []
    for _ in range(50):
        start = time.perf_counter()
        drawn = sampler.draw(rng, graphs, _DRAWN)
        for graph, configs in zip(graphs, drawn.configs):
            store.config_features(graph, configs, nodes_first=True)
        times.append(time.perf_counter() - start)
    figures['raw_18_columns_ms'] = statistics.median(times) * 1e3
    return figures


def _many(scratch, configs, configurable, name):
    split = os.path.join(scratch, name, 'train')
    for i in range(_GRAPHS):
        write_graph(os.path.join(split, f'{i}.npz'), np.int8, configs, configurable, i)
    cache_dir = os.path.join(scratch, name, 'cache')
    results.alone(_import, split, cache_dir)
    return {
        f'{name}_{key}': value
        for key, value in results.alone(_draw, split, cache_dir).items()
    }


def main() -> None:
    """Simulates, measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--configs', type=int, default=20_000)
    parser.add_argument('--many', action='store_true')
    parser.add_argument('--record', action='store_true', help='keep the figures')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = {'simulated': True, **_huge(scratch, args.configs)}
        figures.update(_many(scratch, 2_000, _CONFIGURABLE, 'draw'))
        if args.many:
            figures.update(_many(scratch, 100_000, 20, 'many'))
    results.show(figures, args.record)


if __name__ == '__main__':
    main()
