"""The normaliser of layout splits."""

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.features import normalizer
from tests.helpers import layout_files


def test_rows_are_configurations_and_nodes():
    features = np.full((3, 2, 18), -1, np.float32)
    features[2, 1, 0] = 3
    features[:, :, 5] = 2
    first = layout_files.make_program(
        np.random.default_rng(0),
        'a',
        nodes=2,
        configurable=2,
        configs=3,
        node_feat=np.array([[1, 5, 2], [3, 5, 2]], np.float32),
        node_opcode=np.array([3, 9]),
        node_config_feat=features,
    )
    features = features[:2] * 0
    features[1, 0, 17] = 5
    second = layout_files.make_program(
        np.random.default_rng(0),
        'b',
        nodes=2,
        configurable=2,
        configs=2,
        node_feat=np.array([[0, 5, 2], [3, 5, 4]], np.float32),
        node_opcode=np.array([63, 9]),
        node_config_feat=features,
    )
    store = layout_store.LayoutStore.of_records('here', [first, second])
    fitted = normalizer.Normalizer.fit(store)
    assert fitted.node_used.tolist() == [True, False, True]
    assert fitted.node_min.tolist() == [0, 5, 2]
    assert fitted.config_used.all()
    assert fitted.config_min.tolist() == [-1] * 5 + [0] + [-1] * 12
    assert fitted.config_max.tolist() == [3, 0, 0, 0, 0, 2] + [0] * 11 + [5]
    assert fitted.config_min.dtype == fitted.config_max.dtype == np.float32
    assert normalizer.num_ops(store.max_opcode) == 64

    alone = normalizer.Normalizer.fit(store, graphs=[0])
    assert np.flatnonzero(alone.config_used).tolist() == [0]
    assert normalizer.num_ops(store.max_opcode[:1]) == 10
    scaled = alone.configs(store.record(0).node_config_feat)
    assert scaled.shape == (3, 2, 1) and scaled.dtype == np.float32
    assert scaled.ravel().tolist() == [0, 0, 0, 0, 0, 1]
