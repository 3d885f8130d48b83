"""Packed batches against graphs assembled one by one."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from baselines.data.tile import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.tiles import graphs as graphs_lib
from tests.helpers import tile_graphs
from tests.helpers import tile_records

_NUM_KERNELS = 6


@dataclasses.dataclass(frozen=True)
class Split:
    """A split as packed graphs, and its kernels scaled by hand."""

    graphs: graphs_lib.TileGraphs
    kernels: list


@pytest.fixture(scope='module', name='split')
def _split():
    rng = np.random.default_rng(0)
    width = dict(node_features=6, config_features=4)
    records = tile_records.make_records(_NUM_KERNELS - 2, **width)
    no_edges = np.zeros((0, 2), np.int32)
    edges = rng.integers(0, 40, (70, 2)).astype(np.int32)
    for name, nodes, configs, edge_index in (
        ('single_node', 1, 2, no_edges),
        ('wide', 40, 3, edges),
    ):
        sizes = dict(nodes=nodes, configs=configs, edge_index=edge_index)
        records.append(tile_records.make_record(rng, name, **sizes, **width))
    for record in records:
        record.node_feat[:, 2] = 5  # constant: the normaliser drops it
    store = store_lib.TileStore.from_records('here', records)
    normalizer = normalizer_lib.Normalizer.fit(store)
    return Split(graphs_lib.TileGraphs(store, normalizer), _by_hand(records))


def _by_hand(records):
    """Scales features: (x - min) / (max - min), constant columns dropped."""

    def scaling(field):
        every = np.concatenate([getattr(record, field) for record in records])
        low, high = every.min(0), every.max(0)
        kept = low != high
        return lambda rows: (rows - low)[:, kept] / (high - low)[kept]

    nodes, configs = scaling('node_feat'), scaling('config_feat')
    return [tile_graphs.Kernel.of(record, nodes, configs) for record in records]


def _names(graph):
    """The features of each set, and the node sets that edges join."""
    nodes = {name: set(part.features) for name, part in graph.node_sets.items()}
    edges = {
        name: (set(part.features), part.adjacency.source_name)
        for name, part in graph.edge_sets.items()
    }
    targets = {n: part.adjacency.target_name for n, part in graph.edge_sets.items()}
    return nodes, edges, targets


def _assert_same_graph(ours, expected):
    """All contents and dtypes of two GraphTensors are equal."""
    assert _names(ours) == _names(expected)
    tensors = (tf.nest.flatten(g, expand_composites=True) for g in (ours, expected))
    for found, wanted in zip(*tensors, strict=True):
        _assert_equal(found, wanted)


def _assert_equal(ours, expected):
    assert ours.dtype == expected.dtype
    if ours.dtype == tf.float32:
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-7)
    else:
        np.testing.assert_array_equal(ours, expected)


def _tensors(packed):
    return {key: tf.convert_to_tensor(value) for key, value in packed.items()}


def _draw(rng, split, kernels, configs):
    counts = split.graphs.store.config_counts
    return np.stack([rng.permutation(counts[k])[:configs] for k in kernels])


def _expected(split, kernels, configs):
    chosen = [split.kernels[k].choose(c) for k, c in zip(kernels, configs)]
    labels = [kernel.runtimes / kernel.normalizers for kernel in chosen]
    return tile_graphs.by_hand(chosen), np.stack(labels)


# What training sees ----------------------------------------------------------


@pytest.mark.parametrize('batch, static_configs', [(1, True), (3, False)])
def test_pack_are_the_kernels_one_by_one(split, batch, static_configs):
    rng = np.random.default_rng(batch)
    items = np.stack([rng.permutation(_NUM_KERNELS)[:batch] for _ in range(5)])
    configs = _draw(rng, split, items.reshape(-1), 2).reshape(5, batch, 2)
    packed = _tensors(split.graphs.pack(items, configs))
    for item in range(5):
        graph, labels = graphs_lib.unpack(
            packed, item, batch, 2 if static_configs else None
        )
        expected, expected_labels = _expected(split, items[item], configs[item])
        _assert_same_graph(graph, expected)
        np.testing.assert_allclose(labels, expected_labels, rtol=1e-6)


def test_compiled_unpacking_has_one_trace_and_a_static_batch(split):
    batch, traces = 3, []
    one = np.zeros([1, 1], np.int64)
    example = split.graphs.pack(one, one[..., np.newaxis])

    @tf.function(input_signature=graphs_lib.make_signature((example, np.int32(0))))
    def unpack(packed, item):
        graph, labels = graphs_lib.unpack(packed, item, batch, configs=2)
        traces.append(graph.spec)
        assert labels.shape == [batch, 2]
        for nodes in graph.node_sets.values():
            assert nodes.sizes.shape == [batch]
        for edges in graph.edge_sets.values():
            assert edges.sizes.shape == [batch]
        assert graph.node_sets['op']['feats'].shape[-1] == 5
        assert graph.node_sets['config']['feats'].shape[-1] == 4
        return graph, labels

    rng = np.random.default_rng(7)
    for items in (1, 4):
        kernels = rng.integers(0, _NUM_KERNELS, (items, batch))
        configs = _draw(rng, split, kernels.reshape(-1), 2)
        configs = configs.reshape(items, batch, 2)
        packed = split.graphs.pack(kernels, configs)
        graph, labels = unpack(packed, items - 1)
        expected, expected_labels = _expected(split, kernels[-1], configs[-1])
        _assert_same_graph(graph, expected)
        np.testing.assert_allclose(labels, expected_labels, rtol=1e-6)
    assert len(traces) == 1


# What scoring sees -----------------------------------------------------------

_CHOICES = st.lists(st.integers(0, _NUM_KERNELS - 1), min_size=1, max_size=5).map(
    np.array
)


@hypothesis.given(kernels=_CHOICES, cells=st.one_of(st.none(), st.integers(1, 200)))
def test_slices_hold_every_configuration_in_order(split, kernels, cells):
    packed = split.graphs.pack_all(kernels, cells)
    expected = np.concatenate([split.kernels[k].configs for k in kernels])
    np.testing.assert_allclose(packed['config_feats'], expected, rtol=1e-6)
    counts = packed['configs_per_kernel']
    np.testing.assert_array_equal(packed['config_start'], np.cumsum(counts) - counts)
    # Items come kernel after kernel, each with the kernel's own nodes.
    item = 0
    for kernel in kernels:
        nodes = len(split.kernels[kernel].op)
        left, sizes = len(split.kernels[kernel].configs), []
        while left:
            assert packed['node_sizes'][item] == [nodes]
            assert packed['tile_ids'][item] == [split.kernels[kernel].tile_id.encode()]
            sizes.append(counts[item])
            left -= counts[item]
            item += 1
        assert left == 0
        assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1
        if cells is None:
            assert len(sizes) == 1
        elif nodes <= cells:
            assert nodes * max(sizes) <= cells
        else:
            assert max(sizes) == 1
    assert item == len(counts)


def test_chosen_items_hold_the_chosen_configurations(split):
    kernels = np.array([2, 5, 2])
    configs = [np.array([4, 1, 9]), np.array([2]), np.array([0, 0])]
    packed = _tensors(split.graphs.pack_chosen(kernels, configs))
    for item, (k, chosen) in enumerate(zip(kernels, configs)):
        graph, labels = graphs_lib.unpack(packed, item, batch=1)
        expected, expected_labels = _expected(split, [k], [chosen])
        _assert_same_graph(graph, expected)
        np.testing.assert_allclose(labels, expected_labels, rtol=1e-6)


def test_example_graph_fits_the_normaliser():
    normalizer = normalizer_lib.Normalizer(
        used={'node': np.array([True, False, True]), 'config': np.array([True])},
        ranges={
            'node': (np.zeros(3, np.float32), np.array([1, 0, 1], np.float32)),
            'config': (np.zeros(1, np.float32), np.ones(1, np.float32)),
        },
    )
    graph = graphs_lib.make_example_graph(normalizer)
    nodes, configs = np.zeros((2, 2)), np.zeros((2, 1))
    rest = (np.array([[1, 0]]), configs, np.ones(2), np.ones(2), 'example')
    kernel = tile_graphs.Kernel(np.zeros(2), nodes, *rest)
    _assert_same_graph(graph, tile_graphs.by_hand([kernel]))
