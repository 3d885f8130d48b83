"""Kernels of a split -> packed batches -> the GraphTensors that models read.

A batch is never assembled graph by graph.  Many batches ("items") are packed
into a few long arrays with vectorised operations, handed to TensorFlow at once,
and a compiled loop cuts one item after another out of them (`unpack`):

    graphs = TileGraphs(store, normalizer)
    packed = graphs.pack(kernels, configs)     # numpy
    graph, labels = unpack(packed, 0, batch=10)          # GraphTensor, labels
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.core import arrays
from baselines.data.tile import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table

# Arrays of some items; b kernels in each.  See `TileGraphs.pack`.
Packed = dict[str, np.ndarray]
# An edge set: sources and targets, each the name of a node set and int [edges],
# numbers of nodes; and int [graphs], the number of edges of each graph.
Edges = tuple[tuple[str, tf.Tensor], tuple[str, tf.Tensor], tf.Tensor]

# A kernel's configurations are scored in slices of about this many pairs of node and
# configuration, so that intermediate results stay in cache.
PAIRS_PER_ITEM = 8192


@tf.autograph.experimental.do_not_convert
def unpack(
    packed: dict[str, tf.Tensor],
    item: int | tf.Tensor,
    batch: int,
    configs: int | None = None,
) -> tuple[tfgnn.GraphTensor, tf.Tensor]:
    """Cuts one item out of packed arrays; runs eagerly or in a tf.function.

    Args:
        item: number of the item, an int or scalar int32 tensor.
        batch: kernels in each item; static, as models read it from the shape.
        configs: configurations per kernel where they are static.

    Returns:
        The GraphTensor, with the types of the published pipeline: int64 sizes, ends of
        edges and normalisers, uint8 opcodes, float64 runtimes, float32 features; and
        labels float32 [batch, configs]: runtimes divided by their normalisers.
    """
    # Static where they can be: models read the batch size from the shape.
    node_sizes = tf.ensure_shape(packed['node_sizes'][item], [batch])
    edge_sizes = tf.ensure_shape(packed['edge_sizes'][item], [batch])
    per_kernel = tf.cast(configs or packed['configs_per_kernel'][item], tf.int64)
    config_sizes = tf.ensure_shape(tf.fill([batch], per_kernel), [batch])
    num_configs = batch * per_kernel

    def piece(start: str, size: tf.Tensor):
        begin = packed[start][item]
        return slice(begin, begin + size)

    # An item's nodes, edges and configurations are contiguous, kernel by kernel, and
    # `edges` [m, 2] number its nodes from 0.
    nodes = piece('node_start', tf.reduce_sum(node_sizes))
    edges = piece('edge_start', tf.reduce_sum(edge_sizes))
    rows = piece('config_start', num_configs)
    runtimes = packed['runtimes'][rows]
    normalizers = packed['normalizers'][rows]
    edge = packed['edges'][edges]
    ops = {'op': packed['op'][nodes], 'feats': packed['feats'][nodes]}
    configurations = {
        'feats': packed['config_feats'][rows],
        'runtimes': runtimes,
        'normalizers': normalizers,
    }
    ids = tf.ensure_shape(packed['tile_ids'][item], [batch])
    kernels = tf.range(batch, dtype=tf.int64)
    node = tf.range(tf.reduce_sum(node_sizes))
    in_kernels = ('g', tf.repeat(kernels, node_sizes))
    of_kernels = ('g', tf.repeat(kernels, per_kernel))
    graph = make_graph(
        {
            'op': (node_sizes, ops),
            'config': (config_sizes, configurations),
            'g': (tf.ones([batch], tf.int64), {'tile_id': ids}),
        },
        {
            'feed': (('op', edge[:, 0]), ('op', edge[:, 1]), edge_sizes),
            'g_op': (in_kernels, ('op', node), node_sizes),
            'g_config': (of_kernels, ('config', tf.range(num_configs)), config_sizes),
        },
    )
    labels = tf.cast(runtimes / tf.cast(normalizers, tf.float64), tf.float32)
    return graph, tf.reshape(labels, [batch, configs or per_kernel])


def make_graph(
    nodes: Mapping[str, tuple[tf.Tensor, Mapping[str, tf.Tensor]]],
    edges: Mapping[str, Edges],
) -> tfgnn.GraphTensor:
    """Makes a GraphTensor of its node sets and edge sets, by name.

    Args:
        nodes: numbers of nodes, int [graphs], and features by name.
        edges: edges between nodes, which are numbered through all graphs.
    """
    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            name: tfgnn.NodeSet.from_fields(sizes=sizes, features=features)
            for name, (sizes, features) in nodes.items()
        },
        edge_sets={
            name: tfgnn.EdgeSet.from_fields(
                sizes=sizes,
                features={},
                adjacency=tfgnn.Adjacency.from_indices(source, target),
            )
            for name, (source, target, sizes) in edges.items()
        },
    )


def make_signature(arrays: Any) -> Any:
    """Returns specs of nested arrays for a tf.function that is traced once.

    All axes may change their length, but not the columns of float32 matrices.
    """

    def spec(array: np.ndarray) -> tf.TensorSpec:
        array = np.asarray(array)
        shape: list[int | None] = [None] * array.ndim
        if array.dtype == np.float32 and array.ndim == 2:
            shape[1] = array.shape[1]
        return tf.TensorSpec(shape, tf.string if array.dtype == object else array.dtype)

    return tf.nest.map_structure(spec, arrays)


def trace_once(function: Callable) -> Callable:
    """Makes a tf.function that is traced once, for all sizes of its arguments."""
    compiled: list[Callable] = []

    def call(*args: Any):
        if not compiled:
            specs = make_signature(args)
            compiled.append(tf.function(function, input_signature=specs))
        return compiled[0](*args)

    return call


def make_example_graph(normalizer: normalizer_lib.Normalizer) -> tfgnn.GraphTensor:
    """Makes a kernel of two nodes and two configurations, to build variables with."""
    packed = {
        'op': np.zeros(2, np.uint8),
        'feats': np.zeros((2, normalizer.num_node_features), np.float32),
        'edges': np.array([[1, 0]]),
        'config_feats': np.zeros((2, normalizer.num_config_features), np.float32),
        'runtimes': np.ones(2),
        'normalizers': np.ones(2, np.int64),
        'node_start': np.array([0]),
        'edge_start': np.array([0]),
        'config_start': np.array([0]),
        'node_sizes': np.array([[2]]),
        'edge_sizes': np.array([[1]]),
        'configs_per_kernel': [2],
        'tile_ids': [['example']],
    }
    tensors = {key: tf.convert_to_tensor(value) for key, value in packed.items()}
    return unpack(tensors, 0, batch=1)[0]


class TileGraphs:
    """A split's kernels with scaled node features, ready to be packed.

    Node features are scaled once and kept (the real training split's take
    37 MB); configurations stay memory-mapped and are scaled as they are drawn.

    Attributes:
        store: the split.
        table: the columns that are computed of its configurations.

    Args:
        table: the columns that are computed of configurations; None makes them.
    """

    def __init__(
        self,
        store: store_lib.TileStore,
        normalizer: normalizer_lib.Normalizer,
        table: tile_table.TileTable | None = None,
    ):
        self.store = store
        self._normalizer = normalizer
        self._op = np.asarray(store.node_opcode, np.uint8)
        self._feats = normalizer.nodes(store.node_feat)
        self._edges = np.asarray(store.edge_index)
        self._ids = np.array([s.encode() for s in store.graph_ids], object)
        if table is None and normalizer.table_ranges:
            table = tile_table.TileTable(store, list(normalizer.table_ranges))
        self.table = table

    def pack(self, kernels: np.ndarray, configs: np.ndarray) -> Packed:
        """Packs batches of kernels with the configurations drawn of each.

        Args:
            kernels: int64 [items, b], numbers of kernels in the split.
            configs: int64 [items, b, c], configurations drawn of each.

        Returns:
            Arrays by name.  Ragged pieces lie end to end, and `*_start` says where
            each item's piece begins, int64: `op` uint8 [nodes], scaled `feats` float32
            [nodes, f], `edges` int64 [edges, 2] numbered per item, scaled
            `config_feats` float32 [configs, k], `runtimes` float64 and `normalizers`
            int64 [configs]; `node_sizes` and `edge_sizes` int64 [items, b];
            `configs_per_kernel` int32 [items]; `tile_ids` string [items, b].
        """
        rows = self.store.config_offsets[kernels][..., np.newaxis] + configs
        per_kernel = np.full(len(kernels), configs.shape[-1], np.int32)
        return self._pack(kernels, rows.reshape(-1), per_kernel)

    def pack_all(
        self, kernels: np.ndarray, pairs: int | None = PAIRS_PER_ITEM
    ) -> Packed:
        """Packs every configuration of kernels, a kernel in one or more items.

        Args:
            kernels: int64 [kernels].
            pairs: most nodes x configurations in an item; None for no limit.

        Returns:
            Items of one kernel each; their configurations, end to end, are all
            configurations of `kernels` in stored order.
        """
        store = self.store
        counts = store.config_counts[kernels]  # [kernels], as `slices`
        slices = np.ones_like(counts)
        if pairs is not None:
            # A kernel with more nodes than `pairs` still gets a configuration an item.
            most = np.maximum(pairs // np.diff(store.node_offsets)[kernels], 1)
            slices = -(-counts // most)
        # Equal slices: the first `counts % slices` of a kernel get one more.
        of_item = np.repeat(np.arange(len(kernels)), slices)
        number = np.arange(len(of_item)) - np.repeat(np.cumsum(slices) - slices, slices)
        share, rest = counts // slices, counts % slices
        per_item = share[of_item] + (number < rest[of_item])
        rows = arrays.concatenate_ranges(store.config_offsets[kernels], counts)
        return self._pack(
            kernels[:, np.newaxis], rows, per_item.astype(np.int32), of_item
        )

    def pack_chosen(self, kernels: np.ndarray, configs: Sequence[np.ndarray]) -> Packed:
        """Packs the chosen configurations of kernels, a kernel in an item.

        Args:
            kernels: int64 [kernels].
            configs: list of int64 arrays, the configurations of each.
        """
        sizes = np.array([len(c) for c in configs], np.int32)
        # Numbers within a kernel -> rows of the split: [chosen configurations].
        rows = np.repeat(self.store.config_offsets[kernels], sizes)
        rows = rows + np.concatenate(configs)
        return self._pack(kernels[:, np.newaxis], rows, sizes)

    def _pack(
        self,
        kernels: np.ndarray,
        config_rows: np.ndarray,
        configs_per_kernel: np.ndarray,
        group_of_item: np.ndarray | None = None,
    ) -> Packed:
        """Packs the nodes, edges and configurations of items; see `pack`.

        A large kernel is scored in several items; these share its nodes and edges,
        which are packed once.  Hence groups, rows of kernels, as well as items.

        Args:
            kernels: int64 [groups, b].
            config_rows: int64 [configs], rows of the split, item by item.
            configs_per_kernel: int32 [items].
            group_of_item: int64 [items], row of `kernels`; None: one item per row.
        """
        store = self.store
        groups, batch = kernels.shape
        flat = kernels.reshape(-1)  # [groups * b]
        node_sizes = np.diff(store.node_offsets)[kernels]  # [groups, b]
        edge_sizes = np.diff(store.edge_offsets)[kernels]  # [groups, b]
        num_nodes, num_edges = node_sizes.reshape(-1), edge_sizes.reshape(-1)
        # [nodes], [edges]: rows of the split, kernel by kernel.
        nodes = arrays.concatenate_ranges(store.node_offsets[flat], num_nodes)
        edges = arrays.concatenate_ranges(store.edge_offsets[flat], num_edges)
        # Edges number nodes from the first of their graph; an item joins b graphs, so
        # each edge is shifted by the nodes of the item's earlier graphs.
        before = np.cumsum(node_sizes, axis=1) - node_sizes
        shift = np.repeat(before, num_edges)  # [edges]
        item = np.arange(groups) if group_of_item is None else group_of_item
        return {
            'op': self._op[nodes],
            'feats': self._feats[nodes],
            'edges': self._edges[edges] + shift[:, np.newaxis],
            'config_feats': self._scale_configs(config_rows),
            'runtimes': store.config_runtime[config_rows].astype(np.float64),
            'normalizers': store.config_runtime_normalizers[config_rows],
            'node_start': arrays.find_starts(node_sizes.sum(1), np.int64)[item],
            'edge_start': arrays.find_starts(edge_sizes.sum(1), np.int64)[item],
            'config_start': arrays.find_starts(configs_per_kernel * batch, np.int64),
            'node_sizes': node_sizes[item],
            'edge_sizes': edge_sizes[item],
            'configs_per_kernel': configs_per_kernel,
            'tile_ids': self._ids[kernels][item],
        }

    def _scale_configs(self, rows: np.ndarray) -> np.ndarray:
        """Scales configuration features; the table's columns come last."""
        scaled = self._normalizer.configs(self.store.config_feat[rows])
        if self.table is None or not self.table.sets:
            return scaled
        columns = self._normalizer.table(self.table.rows(rows))
        return np.concatenate([scaled, columns], axis=1)
