"""Tile GraphTensors assembled by hand, kernel by kernel, in plain loops.

What `baselines.tiles.graphs` packs in a few vectorised steps is compared with
these, and models are tried on them.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

NODE_FEATURES = 5
CONFIG_FEATURES = 3
NUM_OPS = 7


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel with scaled features; n nodes, m edges, c configurations."""

    op: np.ndarray  # int [n]
    feats: np.ndarray  # float32 [n, f]
    edges: np.ndarray  # int [m, 2], (consumer, producer)
    configs: np.ndarray  # float32 [c, k]
    runtimes: np.ndarray  # [c]
    normalizers: np.ndarray  # [c]
    tile_id: str

    @classmethod
    def of(cls, record, scaled_nodes, scaled_configs) -> 'Kernel':
        """Takes a record, with features scaled by functions of the raw ones."""
        return cls(
            op=record.node_opcode,
            feats=scaled_nodes(record.node_feat),
            edges=record.edge_index,
            configs=scaled_configs(record.config_feat),
            runtimes=record.config_runtime,
            normalizers=record.config_runtime_normalizers,
            tile_id=record.graph_id,
        )

    def choose(self, configs: Sequence[int]) -> 'Kernel':
        """Returns the kernel with some of its configurations, in that order."""
        return dataclasses.replace(
            self,
            configs=self.configs[configs],
            runtimes=self.runtimes[configs],
            normalizers=self.normalizers[configs],
        )


def random_kernel(
    rng: np.random.Generator,
    nodes: int,
    configs: int,
    edges: Sequence[Sequence[int]] | None = None,
    tile_id: str = 'kernel',
) -> Kernel:
    """Makes a kernel of random numbers; its nodes form a chain if `edges` is None."""
    if edges is None:
        edges = [(node, node - 1) for node in range(1, nodes)]
    return Kernel(
        op=rng.integers(0, NUM_OPS, nodes),
        feats=rng.random((nodes, NODE_FEATURES), np.float32),
        edges=np.array(edges, np.int64).reshape(-1, 2),
        configs=rng.random((configs, CONFIG_FEATURES), np.float32),
        runtimes=rng.integers(1000, 5000, configs),
        normalizers=np.full(configs, 1000),
        tile_id=tile_id,
    )


def by_hand(kernels: Sequence[Kernel], index_dtype=tf.int64) -> tfgnn.GraphTensor:
    """Merges kernels into one GraphTensor, as the published pipeline lays it out."""
    feed: list[list[int]] = [[], []]
    g_op: list[list[int]] = [[], []]
    g_config: list[list[int]] = [[], []]
    nodes = configs = 0
    for number, kernel in enumerate(kernels):
        for consumer, producer in kernel.edges:
            feed[0].append(nodes + consumer)
            feed[1].append(nodes + producer)
        for _ in kernel.op:
            g_op[0].append(number)
            g_op[1].append(nodes)
            nodes += 1
        for _ in kernel.configs:
            g_config[0].append(number)
            g_config[1].append(configs)
            configs += 1

    def sizes(parts):
        return tf.constant([len(part) for part in parts], index_dtype)

    def edge_set(source, target, ends, parts):
        ends = [tf.constant(end, index_dtype) for end in ends]
        return tfgnn.EdgeSet.from_fields(
            sizes=sizes(parts),
            adjacency=tfgnn.Adjacency.from_indices(
                (source, ends[0]), (target, ends[1])
            ),
        )

    def joined(field, dtype):
        return tf.constant(np.concatenate([getattr(k, field) for k in kernels]), dtype)

    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            'op': tfgnn.NodeSet.from_fields(
                sizes=sizes([k.op for k in kernels]),
                features={
                    'op': joined('op', tf.uint8),
                    'feats': joined('feats', tf.float32),
                },
            ),
            'config': tfgnn.NodeSet.from_fields(
                sizes=sizes([k.configs for k in kernels]),
                features={
                    'feats': joined('configs', tf.float32),
                    'runtimes': joined('runtimes', tf.float64),
                    'normalizers': joined('normalizers', tf.int64),
                },
            ),
            'g': tfgnn.NodeSet.from_fields(
                sizes=tf.ones([len(kernels)], index_dtype),
                features={'tile_id': tf.constant([k.tile_id for k in kernels])},
            ),
        },
        edge_sets={
            'feed': edge_set('op', 'op', feed, [k.edges for k in kernels]),
            'g_op': edge_set('g', 'op', g_op, [k.op for k in kernels]),
            'g_config': edge_set('g', 'config', g_config, [k.configs for k in kernels]),
        },
    )
