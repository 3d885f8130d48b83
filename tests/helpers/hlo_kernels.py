"""Kernels written down node by node, as raw feature columns."""

import numpy as np

from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.features import tile_table
from baselines.hlo import schema

_TYPES = {'pred': 3, 's32': 6, 'f32': 13, 'bf16': 15, 'tuple': 18}  # columns


def node(opcode, dims=(), layout=None, dtype='f32', root=False, **columns):
    """Makes (opcode, 140 features); `layout` is minor_to_major, else row major."""
    features = np.zeros(140, np.float32)
    features[0] = root
    features[_TYPES[dtype]] = 1
    features[21 : 21 + len(dims)] = dims
    layout = range(len(dims) - 1, -1, -1) if layout is None else layout
    features[134 : 134 + len(dims)] = layout
    for name, value in columns.items():
        features[CONVOLUTION[name]] = value
    return opcode, features


CONVOLUTION = {
    'input_batch': 93,
    'input_feature': 94,
    'kernel_input': 99,
    'kernel_output': 100,
    'output_batch': 105,
    'output_feature': 106,
}

# A matrix product [rows, depth] x [depth, columns], as the TPU has it.
PRODUCT = dict(zip(CONVOLUTION, (0, 1, 0, 1, 0, 1)))


def configs(*bounds):
    """Makes rows of 24 columns from (output bounds, kernel bounds)."""
    rows = np.zeros((len(bounds), 24), np.float32)
    for row, (output, kernel) in zip(rows, bounds):
        for start, values in ((0, kernel), (8, output)):
            row[start : start + len(values)] = values
            row[start + 6] = sum(values)
            row[start + 7] = np.prod(values) if values else 0
    return rows


def kernel(nodes, edges, config_feat, graph_id='kernel', runtimes=None):
    """Makes a record of `node(...)`s; edges are (consumer, producer)."""
    count = len(config_feat)
    return records.TileRecord(
        graph_id=graph_id,
        node_feat=np.stack([features for _, features in nodes]),
        node_opcode=np.int32(schema.find_opcode_numbers(op for op, _ in nodes)),
        edge_index=np.array(edges, np.int32).reshape(-1, 2),
        config_feat=config_feat,
        config_runtime=np.arange(1, count + 1) if runtimes is None else runtimes,
        config_runtime_normalizers=np.ones(count, np.int64),
    )


def store(*kernels):
    """Packs kernels into a split in memory."""
    return tile_store.TileStore.from_records('here', kernels)


def addition(dims, config_feat, **changes):
    """Makes a fusion that adds two arrays."""
    shape = dict(dims=dims, **changes)
    nodes = [node(name, **shape) for name in ('parameter', 'parameter')] * 2
    nodes[2:2] = [node('add', root=True, **shape)]
    nodes.append(node('fusion', root=True, **shape))
    edges = [(2, 0), (2, 1), (5, 2), (5, 3), (5, 4)]
    return kernel(nodes, edges, config_feat)


def product(*bounds, first='left'):
    """Makes [256, 1024] x [1024, 512] in f32; operands are numbered either way."""
    operands = [node('parameter', [256, 1024]), node('parameter', [1024, 512])]
    result = node('convolution', [256, 512], root=True, **PRODUCT)
    nodes = [*(operands if first == 'left' else operands[::-1]), result]
    return kernel(nodes, [(2, 0), (2, 1)], configs(*bounds))


def columns(record, column_set):
    """Returns {name: values of the configurations} of a column set."""
    table = tile_table.TileTable(store(record), [column_set])
    rows = table.rows(np.arange(record.num_configs))
    assert rows.shape == (record.num_configs, len(set(table.names)))
    assert rows.dtype == np.float32
    return dict(zip(table.names, rows.T))
