"""The published data pipeline in its plainest form, on .npz files."""

import os

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn


def read_split(folder, min_configs=0):
    """{graph id: arrays} of the kernels with at least so many configurations."""
    kernels = {}
    for name in sorted(os.listdir(folder)):
        with np.load(os.path.join(folder, name)) as stored:
            kernel = {key: stored[key] for key in stored.files}
        if len(kernel['config_feat']) >= min_configs:
            kernels[name[: -len('.npz')]] = kernel
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
    nodes, configs = len(kernel['node_opcode']), len(kernel['config_feat'])
    edges = kernel['edge_index'].astype(np.int32)

    def node_set(size, **features):
        return tfgnn.NodeSet.from_fields(
            sizes=tf.constant([size]),
            features={key: tf.constant(value) for key, value in features.items()},
        )

    def edge_set(source, source_index, target, target_index):
        return tfgnn.EdgeSet.from_fields(
            sizes=tf.constant([len(source_index)]),
            adjacency=tfgnn.Adjacency.from_indices(
                (source, tf.constant(source_index)), (target, tf.constant(target_index))
            ),
        )

    def members(target, size):
        return edge_set(
            'g', np.zeros(size, np.int32), target, np.arange(size, dtype=np.int32)
        )

    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            'op': node_set(
                nodes,
                op=kernel['node_opcode'].astype(np.int32),
                feats=kernel['node_feat'].astype(np.float32),
            ),
            'config': node_set(
                configs,
                feats=kernel['config_feat'].astype(np.float32),
                runtimes=kernel['config_runtime'].astype(np.float32),
                normalizers=kernel['config_runtime_normalizers'].astype(np.float32),
            ),
            'g': node_set(1, tile_id=np.array([name], object)),
        },
        edge_sets={
            'feed': edge_set('op', edges[:, 0], 'op', edges[:, 1]),
            'g_op': members('op', nodes),
            'g_config': members('config', configs),
        },
    )
