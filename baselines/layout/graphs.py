"""Programs packed into arrays -> the GraphTensors that layout models read.

As for tiles, many batches ("items") are packed into a few long arrays, handed
to TensorFlow at once, and cut out of them by a compiled loop (`unpack`):

    packed = pack(programs, numbers, configs, segments)    # numpy
    graph, labels = unpack(packed, 0, batch=8)             # GraphTensor, labels

A configuration's features travel as codes into a table of distinct vectors:
a graph of the NLP collections has a thousand nodes to configure, but only some
dozens of vectors.
"""

from collections.abc import Callable, Sequence
import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines.core import arrays
from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.tiles import graphs as tile_graphs

# Arrays of some items; b programs in each.  See `pack`.
Packed = dict[str, np.ndarray]

# Scaled features that are kept: of 350 programs with 10,000 nodes.
_KEPT_BYTES = 2 << 30


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class ScaledProgram:
    """One program as models see it.  Arrays may be memory-mapped.

    n nodes, m edges, c configurations of k nodes, of which u differ, with d
    distinct vectors.
    """

    graph_id: str  # its name
    op: np.ndarray  # any integer type, [n], opcodes below 256
    feats: np.ndarray  # float32 [n, f], scaled node features
    edges: np.ndarray  # int32 [m, 2], rows (consumer, producer)
    config_ops: np.ndarray  # int32 [k], different numbers of the configurable nodes
    vectors: np.ndarray  # float32 [d, q], scaled configuration features
    codes: np.ndarray  # any integer type, [u, k]: rows of `vectors`
    group: np.ndarray  # int [c], rows of `codes`
    runtimes: np.ndarray  # float [c], nanoseconds
    # float32 [u], added to the scores of a model; None: 0
    prior: np.ndarray | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.op)

    @property
    def num_configs(self) -> int:
        """Number of configurations, c."""
        return len(self.group)


@dataclasses.dataclass(eq=False, repr=False)
class StoredPrograms(Sequence[ScaledProgram]):
    """A split's programs by number.

    Node features are scaled at the first access to a program.  They are kept until all
    of them take 2 GiB; then the oldest go.  Codes stay memory-mapped.

    Attributes:
        mean_runtimes: whether equal configurations get the mean of their runtimes, for
            training, or keep their own.
        prior: (store, number) -> scores of a program's different configurations,
            float [u], which are added to the scores of a model; None: 0.
    """

    store: layout_store.LayoutStore
    normalizer: normalizer_lib.Normalizer
    mean_runtimes: bool = False
    prior: Callable[[layout_store.LayoutStore, int], np.ndarray] | None = None
    # The oldest first, and their bytes.
    _programs: dict[int, ScaledProgram] = dataclasses.field(
        default_factory=dict, init=False
    )
    _kept: int = dataclasses.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self.store)

    def pack(self, *drawn: np.ndarray) -> Packed:
        """Packs batches of programs; see the function of this name."""
        return pack(self, *drawn)

    def __getitem__(  # type: ignore[override]  # one at a time, no slices
        self, number: int
    ) -> ScaledProgram:
        if number not in self._programs:
            program = self._programs[number] = self._read(number)
            self._kept += program.feats.nbytes
            # The newest stays, even if it alone is larger; a dict keeps its order.
            while self._kept > _KEPT_BYTES and len(self._programs) > 1:
                first = next(iter(self._programs))
                self._kept -= self._programs.pop(first).feats.nbytes
        return self._programs[number]

    def _read(self, number: int) -> ScaledProgram:
        """Reads and scales a program."""
        store = self.store
        group = store.part('config_group', number)
        if self.mean_runtimes:
            runtimes = store.part('group_runtime', number)[group]
        else:
            runtimes = store.part('config_runtime', number)
        prior = None
        if self.prior is not None:
            prior = self.prior(store, number).astype(np.float32)
        return ScaledProgram(
            graph_id=store.graph_ids[number],
            op=store.part('node_opcode', number),
            feats=self.normalizer.nodes(store.part('node_feat', number)),
            edges=store.part('edge_index', number),
            config_ops=store.part('node_config_ids', number).astype(np.int32),
            vectors=self.normalizer.configs(store.vectors(number)),
            codes=store.group_codes(number),
            group=group,
            runtimes=runtimes,
            prior=prior,
        )


@tf.autograph.experimental.do_not_convert
def unpack(
    packed: dict[str, tf.Tensor],
    item: int | tf.Tensor,
    batch: int,
    configs: int | None = None,
) -> tuple[tfgnn.GraphTensor, tf.Tensor]:
    """Cuts one item out of packed arrays; runs eagerly or in a tf.function.

    Args:
        packed: tensors of `pack`.
        item: number of the item, an int or scalar int32 tensor.
        batch: programs in each item; static, as models read it from the shape.
        configs: configurations per program where they are static.

    Returns:
        The GraphTensor, with the types of the published pipeline: int32 sizes and ends
        of edges, uint8 opcodes, float32 runtimes; and labels float32 [batch, configs].
    """

    def per_program(key: str, *rest: int | None):
        return tf.ensure_shape(packed[key][item], [batch, *rest])

    def piece(sizes: tf.Tensor, start: str):
        begin = packed[start][item]
        return slice(begin, begin + tf.reduce_sum(sizes))

    # [batch] each; runtimes [batch, configs].
    node_sizes = per_program('node_sizes')
    edge_sizes = per_program('edge_sizes')
    config_sizes = per_program('config_sizes')
    runtimes = per_program('runtimes', configs)
    nodes = piece(node_sizes, 'node_start')
    edge = packed['edges'][piece(edge_sizes, 'edge_start')]  # [m, 2]
    config_rows = piece(config_sizes, 'config_start')
    config_ops = packed['config_ops'][config_rows]  # [k], numbers of nodes
    codes = packed['codes'][config_rows]  # [k, configs], rows of `vectors`
    if configs is not None:
        codes = tf.ensure_shape(codes, [None, configs])
    num_nodes = tf.reduce_sum(node_sizes)
    num_config_ops = tf.reduce_sum(config_sizes)
    # The sampled edge sets are those inside the segment: an edge needs both ends.
    selected = _mark_segments(node_sizes, per_program('segments', 2))  # bool [n]
    kept = _count_marked(selected, node_sizes, batch) / node_sizes  # [batch]
    configurable = tf.range(num_config_ops)  # edge i begins at 'nconfig' node i
    config_inside = tf.gather(selected, config_ops)  # bool [k]
    edge_inside = tf.reduce_all(tf.gather(selected, edge), 1)  # bool [m]
    ops = {'op': packed['op'][nodes], 'feats': packed['feats'][nodes]}
    programs = {
        'graph_id': per_program('graph_ids'),
        'runtimes': runtimes,
        'kept_node_ratio': tf.cast(kept, tf.float32),
    }
    layouts, of_nodes = ('nconfig', configurable), ('g', _find_owners(node_sizes))
    config = (layouts, ('op', config_ops), config_sizes)
    feed = (('op', edge[:, 0]), ('op', edge[:, 1]), edge_sizes)
    graph = tile_graphs.make_graph(
        {
            'op': (node_sizes, {**ops, 'selected': selected}),
            'nconfig': (config_sizes, {'feats': tf.gather(packed['vectors'], codes)}),
            'g': (tf.ones([batch], tf.int32), programs),
        },
        {
            'config': config,
            'sampled_config': _keep_edges(config, config_inside),
            'feed': feed,
            'sampled_feed': _keep_edges(feed, edge_inside),
            'g_op': (of_nodes, ('op', tf.range(num_nodes)), node_sizes),
            'g_config': (('g', _find_owners(config_sizes)), layouts, config_sizes),
        },
    )
    return graph, runtimes / layout_store.LABEL_SCALE


def _find_owners(sizes: tf.Tensor) -> tf.Tensor:
    """Returns the number of the program that every element belongs to."""
    return tf.repeat(tf.range(tf.shape(sizes)[0]), sizes)


def _count_marked(mask: tf.Tensor, sizes: tf.Tensor, batch: int) -> tf.Tensor:
    """Counts the elements of every program in a mask: int32 [batch]."""
    ones, owners = tf.cast(mask, tf.int32), _find_owners(sizes)
    counts = tf.math.unsorted_segment_sum(ones, owners, batch)
    return tf.ensure_shape(counts, [batch])


def _mark_segments(node_sizes: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
    """Marks the nodes that lie in their program's segment: bool [nodes]."""
    first = tf.cumsum(node_sizes, exclusive=True)
    # [nodes, 2]: first node and end of its program's segment, numbered in the item.
    ends = tf.repeat(first[:, tf.newaxis] + segments, node_sizes, axis=0)
    number = tf.range(tf.reduce_sum(node_sizes))
    return (ends[:, 0] <= number) & (number < ends[:, 1])


def _keep_edges(edges: tile_graphs.Edges, mask: tf.Tensor) -> tile_graphs.Edges:
    """Returns the edges where a mask, bool [edges], is true."""
    *ends, sizes = edges
    source, target = ((name, tf.boolean_mask(at, mask)) for name, at in ends)
    return source, target, _count_marked(mask, sizes, sizes.shape[0])


def make_example_graph(normalizer: normalizer_lib.Normalizer) -> tfgnn.GraphTensor:
    """Makes a program of two nodes and two configurations, to build variables with."""
    program = ScaledProgram(
        graph_id='example',
        op=np.zeros(2, np.int32),
        feats=np.zeros((2, normalizer.num_node_features), np.float32),
        edges=np.array([[1, 0]], np.int32),
        config_ops=np.zeros(1, np.int32),
        vectors=np.zeros((1, normalizer.num_config_features), np.float32),
        codes=np.zeros((1, 1), np.int32),
        group=np.zeros(2, np.int32),
        runtimes=np.ones(2),
    )
    packed = pack([program], np.zeros([1, 1], np.int64), np.array([[[0, 1]]]))
    tensors = {key: tf.convert_to_tensor(value) for key, value in packed.items()}
    return unpack(tensors, 0, batch=1)[0]


def pack(
    programs: Sequence[ScaledProgram],
    numbers: np.ndarray,
    configs: np.ndarray,
    segments: np.ndarray | None = None,
) -> Packed:
    """Packs batches of programs with the configurations chosen of each.

    Args:
        numbers: int [items, b], programs of the split; repetitions are allowed.
        configs: int [items, b, c], configurations of each.
        segments: int [items, b, 2], the selected nodes of each, from a
            first one to before an end; None selects all.

    Returns:
        Arrays by name.  Ragged pieces lie end to end, and `*_start` says where
        each item's piece begins: `op` uint8 [nodes], scaled `feats` float32
        [nodes, f], `edges` int32 [edges, 2] and `config_ops` int32
        [configurable], both numbered from the item's first node, `codes` int32
        [configurable, c], rows of scaled `vectors` float32 [vectors, q].  Per
        item and program `node_sizes`, `edge_sizes`, `config_sizes`
        (configurable nodes) and `segments` (first node, end; in the program's
        numbers) int32, `runtimes` and `prior` float32 [items, b, c], `graph_ids`
        string.
    """
    parts = [programs[number] for number in numbers.reshape(-1)]
    chosen = configs.reshape(len(parts), -1)  # [items * b, c]
    # Numbers of rows, int32 [items, b].
    nodes = _count_items(parts, 'op', numbers)
    edges = _count_items(parts, 'edges', numbers)
    configurable = _count_items(parts, 'config_ops', numbers)
    # [items * b]: nodes of the item's earlier programs, which shift node numbers.
    before = (np.cumsum(nodes, 1) - nodes).reshape(-1)
    shifted_edges = [p.edges + start for p, start in zip(parts, before)]
    shifted_ops = [p.config_ops + start for p, start in zip(parts, before)]
    if segments is None:
        segments = np.stack([np.zeros_like(nodes), nodes], -1)
    # The vectors of a program that is drawn several times are packed once: codes are
    # rows of `vectors`, which all items share.
    distinct, which = np.unique(numbers, return_inverse=True)
    tables = [programs[number].vectors for number in distinct]
    table_start = arrays.find_starts(np.array([len(t) for t in tables]))
    table_start = table_start[which.reshape(-1)]  # [items * b]
    # `group` maps configurations to distinct ones, whose codes are [distinct, k].
    codes = [
        p.codes[p.group[rows]].T.astype(np.int32) + start
        for p, rows, start in zip(parts, chosen, table_start, strict=True)
    ]
    runtimes = [p.runtimes[rows] for p, rows in zip(parts, chosen)]
    priors = [
        np.zeros(len(rows)) if p.prior is None else p.prior[p.group[rows]]
        for p, rows in zip(parts, chosen)
    ]
    ids = [p.graph_id.encode() for p in parts]
    return {
        'op': np.concatenate([p.op for p in parts]).astype(np.uint8),
        'feats': np.concatenate([p.feats for p in parts]),
        'edges': np.concatenate(shifted_edges).astype(np.int32),
        'config_ops': np.concatenate(shifted_ops).astype(np.int32),
        'codes': np.concatenate(codes),
        'vectors': np.concatenate(tables),
        'node_start': arrays.find_starts(nodes.sum(1)),
        'edge_start': arrays.find_starts(edges.sum(1)),
        'config_start': arrays.find_starts(configurable.sum(1)),
        'node_sizes': nodes,
        'edge_sizes': edges,
        'config_sizes': configurable,
        'segments': segments.astype(np.int32),
        'runtimes': np.stack(runtimes).astype(np.float32).reshape(configs.shape),
        'prior': np.stack(priors).astype(np.float32).reshape(configs.shape),
        'graph_ids': np.array(ids, object).reshape(numbers.shape),
    }


def draw_segments(
    rng: np.random.Generator, sizes: np.ndarray, keep_nodes: int
) -> np.ndarray:
    """Draws the segment of each program that a step passes gradients through.

    A program is cut every `keep_nodes` nodes; all its segments are equally likely.

    Args:
        sizes: int [programs], nodes of each, at least 1.
        keep_nodes: most nodes of a segment; negative for no limit.

    Returns:
        int64 [programs, 2], first node and end.
    """
    most = sizes if keep_nodes < 0 else keep_nodes
    # -(-a // b) is a / b rounded up: the number of segments, the last one shorter.
    first = rng.integers(0, -(-sizes // most)) * most
    return np.stack([first, np.minimum(first + most, sizes)], axis=1)


def _count_items(
    parts: Sequence[ScaledProgram], attribute: str, numbers: np.ndarray
) -> np.ndarray:
    """Returns the lengths of an array of programs, in the shape of `numbers`."""
    sizes = [len(getattr(part, attribute)) for part in parts]
    return np.array(sizes, np.int32).reshape(numbers.shape)
