"""The normaliser: the published rule, its JSON, and the golden numbers."""

import json

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from baselines.data.tile import store as store_lib
from baselines.features import normalizer
from tests.helpers import places
from tests.helpers import tile_records

_SHARED = places.SHARED


def _store(tmp_path, node_feats, config_feats, opcodes=((0, 0), (0,))):
    """A store of kernels with these features, in this order."""
    rng = np.random.default_rng(0)
    records = [
        tile_records.make_record(
            rng,
            f'k{i}',
            nodes=len(nodes),
            configs=len(configs),
            node_feat=np.array(nodes, np.float32),
            config_feat=np.array(configs, np.float32),
            node_opcode=np.array(opcodes[i], np.int32),
        )
        for i, (nodes, configs) in enumerate(zip(node_feats, config_feats))
    ]
    tile_records.write_split(tmp_path / 'train', records)
    return store_lib.TileStore.open(str(tmp_path / 'train'), str(tmp_path / 'cache'))


@pytest.fixture(name='store')
def _two_kernels(tmp_path):
    return _store(
        tmp_path,
        node_feats=[[[1, 5, 2], [3, 5, 2]], [[2, 5, 10]]],
        config_feats=[[[0, 7], [4, 7]], [[2, 8], [-4, 7], [0, 7]]],
        opcodes=[[3, 63], [7]],
    )


def test_fit_to_all_kernels(store):
    fitted = normalizer.Normalizer.fit(store)
    assert fitted.used['node'].tolist() == [True, False, True]
    assert fitted.ranges['node'][0].tolist() == [1, 5, 2]
    assert fitted.ranges['node'][1].tolist() == [3, 5, 10]
    assert fitted.used['config'].tolist() == [True, True]
    assert fitted.ranges['config'][0].tolist() == [-4, 7]
    assert fitted.ranges['config'][1].tolist() == [4, 8]
    assert (fitted.num_node_features, fitted.num_config_features) == (2, 2)
    expected = [[0, 0], [1, 0], [0.5, 1]]
    np.testing.assert_array_equal(fitted.nodes(store.node_feat), expected)
    np.testing.assert_array_equal(
        fitted.configs(store.config_feat),
        [[0.5, 0], [1, 0], [0.75, 1], [0, 0], [0.5, 0]],
    )


def test_fit_to_some_kernels_leaves_the_range_elsewhere(store):
    fitted = normalizer.Normalizer.fit(store, graphs=[0])
    assert fitted.used['node'].tolist() == [True, False, False]
    assert fitted.used['config'].tolist() == [True, False]
    expected = [[0], [1], [0.5], [-1], [0]]
    np.testing.assert_array_equal(fitted.configs(store.config_feat), expected)


def test_what_comes_out(store):
    fitted = normalizer.Normalizer.fit(store)
    raw = np.zeros((4, 6, 3), np.float64)
    before = raw.copy()
    scaled = fitted.nodes(raw)
    assert scaled.shape == (4, 6, 2) and scaled.dtype == np.float32
    assert scaled.flags.c_contiguous
    assert type(fitted.nodes(store.node_feat)) is np.ndarray
    np.testing.assert_array_equal(raw, before)
    assert fitted.nodes(np.zeros((0, 3), np.float32)).shape == (0, 2)
    with pytest.raises(ValueError, match='node_feat has 5 .* 3'):
        fitted.nodes(np.zeros((2, 5)))


@given(
    values=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 8), st.integers(1, 6)),
        elements=st.floats(-1e6, 1e6, width=32),
    )
)
def test_any_matrix_is_scaled_to_the_unit_range_and_survives_json(values):
    class Summaries:
        source = 'here'
        node_min = values.min(axis=0, keepdims=True)
        node_max = values.max(axis=0, keepdims=True)
        config_min, config_max = node_min, node_max

    fitted = normalizer.Normalizer.fit(Summaries)
    scaled = fitted.nodes(values)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert (scaled.min(axis=0) == 0).all() and (scaled.max(axis=0) == 1).all()
    loaded = normalizer.Normalizer.from_json(json.loads(json.dumps(fitted.to_json())))
    arrays = lambda one: [*one.used.values(), *one.ranges['node']]
    for found, expected in zip(arrays(loaded), arrays(fitted), strict=True):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    assert loaded.configs(values).tobytes() == scaled.tobytes()


def test_a_range_beyond_float32(tmp_path):
    store = _store(tmp_path, [[[0, -3e38], [0, 3e38]]], [[[0], [1]]])
    with pytest.raises(ValueError, match='column 1 of node_feat'):
        normalizer.Normalizer.fit(store)


@pytest.mark.parametrize(
    'name, value',
    [
        ('node_min', None),
        ('node_min', [10**400, 0, 0]),
        ('node_max', [3, 5, 1e39]),
        ('node_min', [0, 9, 0]),
    ],
)
def test_bad_json(store, name, value):
    described = {**normalizer.Normalizer.fit(store).to_json(), name: value}
    with pytest.raises(ValueError, match=f'^normalizer: .*{name}'):
        normalizer.Normalizer.from_json(described)
    for described in (None, [], {}, 'text'):
        with pytest.raises(ValueError, match='^normalizer: '):
            normalizer.Normalizer.from_json(described)


def test_num_ops(store):
    opcodes = store.max_opcode
    assert normalizer.count_ops(opcodes) == 64
    assert normalizer.count_ops(opcodes[1:]) == 8
    assert normalizer.count_ops(opcodes[1:], opcodes[:1]) == 64
    for nothing in ((), (opcodes[:0],)):
        with pytest.raises(ValueError, match='no kernel'):
            normalizer.count_ops(*nothing)


@pytest.mark.skipif(not _SHARED.is_dir(), reason=f'{_SHARED} is not there')
@pytest.mark.parametrize(
    'prefix, kind, folder, configs, min_configs',
    [
        ('tile_all', store_lib.TileStore, 'tile/xla', 'config_feat', 0),
        ('tile_min10', store_lib.TileStore, 'tile/xla', 'config_feat', 10),
        (
            'layout',
            layout_store.LayoutStore,
            'layout/xla/random',
            'node_config_feat',
            0,
        ),
    ],
)
def test_golden(tmp_path, prefix, kind, folder, configs, min_configs):
    golden = np.load(_SHARED / 'parity/dataset_norm.npz')
    stores = {
        split: kind.open(str(_SHARED / 'npz' / folder / split), str(tmp_path))
        for split in ('train', 'valid', 'test')
    }
    kept = {split: np.arange(len(store)) for split, store in stores.items()}
    kept['train'] = np.flatnonzero(stores['train'].config_counts >= min_configs)
    fitted = normalizer.Normalizer.fit(stores['train'], kept['train'])
    for ours, theirs in (('node', 'node_feat'), ('config', configs)):
        found = fitted.used[ours], *fitted.ranges[ours]
        for name, column in zip(('used', 'min', 'max'), found, strict=True):
            expected = golden[f'{prefix}_{theirs}_{name}']
            np.testing.assert_array_equal(column, expected)
    opcodes = [stores[split].max_opcode[kept[split]] for split in stores]
    assert normalizer.count_ops(*opcodes) == golden[f'{prefix}_num_ops']
    for split, theirs in zip(stores, ('train', 'validation', 'test')):
        records = [stores[split].record(i) for i in kept[split]]
        for name, scale in (('node_feat', fitted.nodes), (configs, fitted.configs)):
            rows = [scale(getattr(record, name)) for record in records]
            sums = [r.reshape(-1, r.shape[-1]).sum(axis=0, dtype=float) for r in rows]
            expected = golden[f'{prefix}_{theirs}_{name}_colsum']
            np.testing.assert_allclose(np.sum(sums, axis=0), expected, rtol=1e-6)
