"""The published data pipeline in its plainest form, on .npz files."""

import os

import numpy as np
import tile_graphs


def read_split(folder, most=None):
    """{graph id: arrays} of the first kernels, or of all."""
    kernels = {}
    for name in sorted(os.listdir(folder))[:most]:
        with np.load(os.path.join(folder, name)) as stored:
            kernels[name[: -len('.npz')]] = {key: stored[key] for key in stored.files}
    return kernels


def scale(train, others):
    """Scales all features in place; constant columns of `train` go."""
    for key in ('node_feat', 'config_feat'):
        rows = np.concatenate([kernel[key] for kernel in train.values()])
        low, high = rows.min(axis=0), rows.max(axis=0)
        used = low != high
        for kernels in (train, *others):
            for kernel in kernels.values():
                shifted = kernel[key][:, used] - low[used]
                kernel[key] = shifted / (high - low)[used]


def num_ops(*splits):
    return 1 + max(int(k['node_opcode'].max()) for s in splits for k in s.values())


def graph_tensor(kernel, name=''):
    """One kernel with all its configurations."""
    made = tile_graphs.Kernel(
        op=kernel['node_opcode'],
        feats=kernel['node_feat'],
        edges=kernel['edge_index'],
        configs=kernel['config_feat'],
        runtimes=kernel['config_runtime'],
        normalizers=kernel['config_runtime_normalizers'],
        tile_id=name,
    )
    return tile_graphs.by_hand([made])
