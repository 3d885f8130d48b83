"""Small valid tile records and splits of them, for any test that needs data."""

from collections.abc import Sequence
import os

import numpy as np

from baselines.data.tile import records


def make_record(
    rng: np.random.Generator,
    graph_id: str = 'kernel_0',
    nodes: int = 5,
    configs: int = 12,
    node_features: int = 140,
    config_features: int = 24,
    is_test: bool = False,
    **changes,
) -> records.TileRecord:
    """Makes a kernel of random numbers whose nodes form a chain.

    With `is_test` its runtimes are 0 and normalisers 1, as in published test files;
    `changes` are fields of the record.
    """
    chain = np.arange(1, nodes, dtype=np.int32)
    normalizer = int(rng.integers(1_000, 100_000))
    runtime = rng.integers(normalizer, 5 * normalizer, configs)
    fields = dict(
        graph_id=graph_id,
        node_feat=rng.integers(0, 50, (nodes, node_features)).astype(np.float32),
        node_opcode=rng.integers(1, 120, nodes).astype(np.int32),
        edge_index=np.stack([chain, chain - 1], axis=1),
        config_feat=rng.integers(0, 9, (configs, config_features)).astype(np.float32),
        config_runtime=np.zeros(configs, np.int64) if is_test else runtime,
        config_runtime_normalizers=np.full(
            configs, 1 if is_test else normalizer, np.int64
        ),
    )
    fields.update(changes)
    return records.TileRecord(**fields)


def make_records(
    count: int, seed: int = 0, configs: Sequence[int] | None = None, **kwargs
) -> list[records.TileRecord]:
    """Makes kernels of different sizes, named so that order is clear.

    `configs` are numbers of configurations, by default random ones from 10 to 30.
    """
    rng = np.random.default_rng(seed)
    return [
        make_record(
            rng,
            graph_id=f'program_{i % 3}_{i:04d}',
            nodes=int(rng.integers(2, 9)),
            configs=int(rng.integers(10, 31)) if configs is None else configs[i],
            **kwargs,
        )
        for i in range(count)
    ]


def write_split(
    folder, kernels: Sequence[records.TileRecord]
) -> list[records.TileRecord]:
    """Writes `<folder>/<graph_id>.npz` for every kernel.

    Returns:
        The kernels in the order of their file names, which is a store's order.
    """
    for kernel in kernels:
        kernel.write(os.path.join(str(folder), f'{kernel.graph_id}.npz'))
    return sorted(kernels, key=lambda kernel: f'{kernel.graph_id}.npz')


def write_splits(folder, count: int = 4) -> None:
    """Writes train, valid and test splits of `count` kernels each.

    As published, the runtimes of the test split are 0.
    """
    for seed, split in enumerate(('train', 'valid', 'test')):
        write_split(
            os.path.join(str(folder), split),
            make_records(count, seed=seed, is_test=split == 'test'),
        )
