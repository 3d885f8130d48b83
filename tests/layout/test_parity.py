"""ResModel gives the published numbers in each of its modes."""

import json
from typing import Any, Mapping, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from baselines.layout import graphs
from baselines.layout import models
from baselines.training import losses
from tests.helpers import layout_programs
from tests.helpers import places

_GOLDENS = places.SHARED / 'parity'
_FILES = sorted(_GOLDENS.glob('layout_*.npz'))


class _Golden(NamedTuple):
    """A published model, its graph and labels, and what came out of them."""

    values: Mapping[str, np.ndarray]
    model: tf.keras.Model
    graph: Any
    labels: tf.Tensor


@pytest.fixture(
    scope='module',
    params=_FILES or [None],
    ids=lambda path: path.stem if path else 'missing',
)
def golden(request):
    if request.param is None:
        pytest.skip(f'no goldens: {_GOLDENS} is missing')
    values = dict(np.load(request.param))
    graph, labels = _graph(values)
    return _Golden(values, _model(values, graph), graph, labels)


def _program(golden, j):
    vectors, codes = layout_programs.encode_configs(golden[f'node_config_feat_{j}'])
    return graphs.Program(
        graph_id=f'golden {j}',
        op=golden[f'node_opcode_{j}'].astype(np.int32),
        feats=golden[f'node_feat_{j}'],
        edges=golden[f'edge_index_{j}'].astype(np.int32),
        config_ops=golden[f'node_config_ids_{j}'].astype(np.int32),
        vectors=vectors,
        codes=codes,
        group=np.arange(len(codes)),
        runtimes=golden[f'config_runtime_{j}'],
    )


def _graph(golden):
    """Merges the golden's programs; returns the graph and the labels."""
    batch, configs = golden['scores'].shape
    numbers = range(batch)
    packed = graphs.LayoutGraphs([_program(golden, j) for j in numbers]).items(
        np.arange(batch)[np.newaxis],
        np.broadcast_to(np.arange(configs), (1, batch, configs)),
        np.array(
            [
                [
                    [golden[f'segment_start_{j}'], golden[f'segment_end_{j}']]
                    for j in numbers
                ]
            ]
        ),
    )
    packed = {key: tf.convert_to_tensor(value) for key, value in packed.items()}
    return graphs.unpack(packed, 0, batch)


def _weights(golden, letter='w'):
    return [
        golden[key] for key in sorted(golden) if key[0] == letter and key[1:].isdigit()
    ]


def _model(golden, graph):
    model = getattr(models, str(golden['model']))(
        int(golden['num_configs']),
        int(golden['num_ops']),
        **json.loads(str(golden['kwargs_json'])),
    )
    model.forward(graph, golden['scores'].shape[1])
    weights = _weights(golden)
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


def test_graph_is_the_published_one(golden):
    values = golden.values
    batch = len(values['scores'])
    _assert_close(golden.labels, values['labels'])
    np.testing.assert_array_equal(
        golden.graph.node_sets['op']['selected'],
        np.concatenate([values[f'selected_{j}'] for j in range(batch)]),
    )


def test_scores_are_the_published_ones(golden):
    _assert_close(golden.model(golden.graph), golden.values['scores'])


def test_full_graph_scores_are_the_published_ones(golden):
    values = golden.values
    scores = golden.model.forward(
        golden.graph, values['scores'].shape[1], dropout='fullgraph', backprop=False
    )
    _assert_close(scores, values.get('fullgraph_scores', values['scores']))


@pytest.mark.slow
def test_loss_and_gradients_are_the_published_ones(golden):
    values, model, graph, labels = golden
    loss_of = losses.CombinedLoss('ListMLELoss', 1.0)

    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(graph, training=True))
        penalty = tf.add_n(model.losses)
        objective = loss + penalty
    gradients = tape.gradient(objective, model.trainable_variables)
    _assert_close(loss, values['loss'])
    _assert_close(penalty, values['reg_loss'])
    for ours, published in zip(gradients, _weights(values, 'g')):
        _assert_close(tf.convert_to_tensor(ours), published, 5e-4)
