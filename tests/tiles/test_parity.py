"""The published architectures give the published numbers."""

import json
from typing import Any, Mapping, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from baselines.tiles import graphs
from baselines.tiles import models
from tests.helpers import places

_GOLDENS = places.SHARED / 'parity'
_FILES = sorted(_GOLDENS.glob('tile_*.npz'))


class _Golden(NamedTuple):
    """A published model, its graphs, and what came out of them."""

    values: Mapping[str, np.ndarray]
    model: tf.keras.Model
    one: Any
    batch: Any


@pytest.fixture(
    scope='module',
    params=_FILES or [None],
    ids=lambda path: path.stem if path else 'missing',
)
def golden(request):
    if request.param is None:
        pytest.skip(f'no goldens: {_GOLDENS} is missing')
    values = np.load(request.param)
    one = _one(values)
    return _Golden(values, _model(values, one), one, _batch(values))


def _graph(kernels):
    """Merges (feats, opcode, edges, config feats) of kernels into one graph."""
    nodes = [len(kernel[0]) for kernel in kernels]
    first = np.cumsum(nodes) - nodes
    configs = np.concatenate([kernel[3] for kernel in kernels])
    packed = {
        'op': np.concatenate([k[1] for k in kernels]).astype(np.int32),
        'feats': np.concatenate([k[0] for k in kernels]),
        'edges': np.concatenate(
            [k[2] + start for k, start in zip(kernels, first)]
        ).astype(np.int32),
        'config_feats': configs,
        'runtimes': np.ones(len(configs), np.float32),
        'normalizers': np.ones(len(configs), np.float32),
        'node_start': [0],
        'edge_start': [0],
        'config_start': [0],
        'node_sizes': np.array([nodes], np.int32),
        'edge_sizes': np.array([[len(k[2]) for k in kernels]], np.int32),
        'configs_per_kernel': np.array([len(kernels[0][3])], np.int32),
        'tile_ids': np.array([['k'] * len(kernels)], object),
    }
    packed = {key: tf.convert_to_tensor(value) for key, value in packed.items()}
    return graphs.unpack(packed, 0, len(kernels))[0]


def _one(golden):
    return _graph(
        [
            [
                golden[f'one_{key}']
                for key in ('node_feat', 'node_opcode', 'edge_index', 'config_feat')
            ]
        ]
    )


def _batch(golden):
    return _graph(
        [
            [
                golden[f'batch_{key}_{j}']
                for key in ('node_feat', 'node_opcode', 'edge_index', 'config_feat')
            ]
            for j in range(3)
        ]
    )


def _model(golden, graph):
    model = getattr(models, str(golden['model']))(
        10, int(golden['num_ops']), **json.loads(str(golden['kwargs_json']))
    )
    model.forward(graph, golden['one_config_feat'].shape[0])
    weights = [
        golden[key] for key in sorted(golden) if key[0] == 'w' and key[1:].isdigit()
    ]
    assert [w.shape for w in weights] == [
        tuple(v.shape) for v in model.trainable_variables
    ]
    for variable, value in zip(model.trainable_variables, weights):
        variable.assign(value)
    return model


def _assert_close(ours, golden, relative=1e-5):
    assert ours.shape == golden.shape
    np.testing.assert_allclose(
        ours, golden, rtol=0, atol=relative * np.abs(golden).max()
    )


@pytest.mark.parametrize('training', [False, True])
def test_one_kernel_scores_as_published(golden, training):
    configs = golden.values['one_config_feat'].shape[0]
    scores = golden.model.forward(golden.one, configs, training=training)
    _assert_close(scores, golden.values['one_scores'])


def test_merged_kernels_score_as_published(golden):
    _assert_close(golden.model(golden.batch), golden.values['batch_scores'])


@pytest.mark.slow
def test_regularisation_is_as_published(golden):
    golden.model(golden.batch, training=True)
    _assert_close(tf.add_n(golden.model.losses), golden.values['batch_reg_loss'])
