"""Small valid layout records and splits of them, for any test that needs data."""

from collections.abc import Sequence
import dataclasses
import os

import numpy as np

from baselines.data.layout import records as layout_records
from baselines.hlo import schema


def make_record(
    rng: np.random.Generator,
    graph_id: str = 'program_0',
    nodes: int = 9,
    configurable: int = 4,
    configs: int = 12,
    node_features: int = 140,
    is_test: bool = False,
    **changes,
) -> layout_records.LayoutRecord:
    """Makes a program of random numbers whose nodes form a chain.

    A third of its configurations repeat others.  With `is_test` its runtimes are 0, as
    in published test files; `changes` are fields of the record.
    """
    chain = np.arange(1, nodes, dtype=np.int32)
    pool = rng.integers(-1, 6, (5, 18)).astype(np.float32)
    features = pool[rng.integers(0, 5, (configs, configurable))]
    repeated = rng.integers(0, configs, configs // 3)
    features[rng.integers(0, configs, configs // 3)] = features[repeated]
    fields = dict(
        graph_id=graph_id,
        node_feat=rng.integers(0, 50, (nodes, node_features)).astype(np.float32),
        node_opcode=rng.integers(1, 120, nodes).astype(np.int32),
        edge_index=np.stack([chain, chain - 1], axis=1),
        node_config_ids=rng.choice(nodes, configurable, replace=False).astype(np.int64),
        node_config_feat=features,
        config_runtime=np.zeros(configs, np.int64)
        if is_test
        else (rng.integers(10**8, 2 * 10**8, configs)),
        node_splits=np.array([[0, nodes // 2, nodes]], np.int64),
    )
    fields.update(changes)
    return layout_records.LayoutRecord(**fields)


def make_records(
    count: int, seed: int = 0, **kwargs
) -> list[layout_records.LayoutRecord]:
    """Makes programs of different sizes, named so that order is clear."""
    rng = np.random.default_rng(seed)
    return [
        make_record(
            rng,
            graph_id=f'program_{i:03d}',
            nodes=int(rng.integers(6, 20)),
            configurable=int(rng.integers(1, 7)),
            configs=int(rng.integers(10, 31)),
            **kwargs,
        )
        for i in range(count)
    ]


def two_dots() -> layout_records.LayoutRecord:
    """Makes a program of two dots: 4 x 8 by 8 x 200, and the result by 200 x 16.

    What the first writes is row major in the first and the last configuration, what
    the second reads in the first two; else columns come first.
    """
    nodes = (
        ('parameter', (4, 8)),
        ('parameter', (8, 200)),
        ('dot', (4, 200)),
        ('dot', (4, 16)),
        ('parameter', (200, 16)),
    )
    features = np.zeros((len(nodes), len(schema.NODE)), np.float32)
    for row, (_, dims) in zip(features, nodes):
        row[schema.NODE.at('shape_element_type_is_f32')] = 1
        row[schema.DIMENSIONS.start : schema.DIMENSIONS.start + 2] = dims
    rows, columns = (1, 0), (0, 1)  # fastest first
    configs = np.full((4, 2, len(schema.LAYOUT)), -1, np.float32)
    for config, (written, read) in enumerate(
        [(rows, rows), (columns, rows), (columns, columns), (rows, columns)]
    ):
        configs[config, 0, :2] = written
        configs[config, 1, 6:8] = read
    return make_record(
        np.random.default_rng(0),
        node_feat=features,
        node_opcode=np.array(
            [schema.OPCODE_NUMBERS[opcode] for opcode, _ in nodes], np.int32
        ),
        edge_index=np.array([(2, 0), (2, 1), (3, 2), (3, 4)], np.int32),
        node_config_ids=np.array([2, 3]),
        node_config_feat=configs,
        config_runtime=np.arange(1, 5),
        node_splits=np.array([[0, len(nodes)]]),
    )


def list_arrays(record: layout_records.LayoutRecord, **changes):
    """Returns the arrays of a record as a published file holds them."""
    arrays = {
        'node_feat': record.node_feat,
        'node_opcode': record.node_opcode.astype(np.uint8),
        'edge_index': record.edge_index.astype(np.int64),
        'node_config_ids': record.node_config_ids,
        'node_config_feat': record.node_config_feat,
        'config_runtime': record.config_runtime,
        'node_splits': record.node_splits,
    }
    arrays.update(changes)
    return {key: value for key, value in arrays.items() if value is not None}


def write_split(
    folder, programs: Sequence[layout_records.LayoutRecord]
) -> list[layout_records.LayoutRecord]:
    """Writes `<folder>/<graph_id>.npz` for every program; returns them."""
    for program in programs:
        program.write(os.path.join(str(folder), f'{program.graph_id}.npz'))
    return list(programs)


def read(path) -> layout_records.LayoutRecord:
    """Reads `<graph id>.npz` with the features of all its configurations."""
    program = layout_records.read_program(str(path))
    blocks = layout_records.read_configs(str(path), program)
    features = np.concatenate(list(blocks)).astype(np.float32)
    return dataclasses.replace(program, node_config_feat=features)
