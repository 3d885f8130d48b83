"""ResModel gives the published numbers in each of its modes."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.layout import graphs
from baselines.layout import models
from baselines.training import losses
from tests.helpers import goldens
from tests.helpers import layout_programs


@pytest.fixture(scope='module', **goldens.parameters('layout'))
def golden(request):
    """(values, the published model, its graph, the labels)."""
    values = goldens.read(request.param)
    graph, labels = _graph(values)
    num_configs, configs = int(values['num_configs']), values['scores'].shape[1]
    model = goldens.make_model(values, models, num_configs, graph, configs)
    return values, model, graph, labels


def _program(golden, j):
    feats = golden[f'node_config_feat_{j}']
    flat = feats.reshape(-1, feats.shape[-1])
    vectors, codes = np.unique(flat, axis=0, return_inverse=True)
    return graphs.ScaledProgram(
        graph_id=f'golden {j}',
        op=golden[f'node_opcode_{j}'].astype(np.int32),
        feats=golden[f'node_feat_{j}'],
        edges=golden[f'edge_index_{j}'].astype(np.int32),
        config_ops=golden[f'node_config_ids_{j}'].astype(np.int32),
        vectors=vectors,
        codes=codes.reshape(feats.shape[:2]),
        group=np.arange(len(feats)),
        runtimes=golden[f'config_runtime_{j}'],
    )


def _graph(golden):
    """Merges the golden's programs; returns the graph and the labels."""
    batch, configs = golden['scores'].shape
    segments = [
        [golden[f'segment_{end}_{j}'] for end in ('start', 'end')] for j in range(batch)
    ]
    programs = [_program(golden, j) for j in range(batch)]
    return layout_programs.merge(programs, range(configs), np.array([segments]))


def test_graph_is_the_published_one(golden):
    values, _, graph, labels = golden
    goldens.assert_close(labels, values['labels'])
    selected = [values[f'selected_{j}'] for j in range(len(values['scores']))]
    expected = np.concatenate(selected)
    np.testing.assert_array_equal(graph.node_sets['op']['selected'], expected)


def test_scores_are_the_published_ones(golden):
    values, model, graph, _ = golden
    goldens.assert_close(model(graph), values['scores'])
    configs = values['scores'].shape[1]
    whole = model.forward(graph, configs, dropout='fullgraph', backprop=False)
    goldens.assert_close(whole, values.get('fullgraph_scores', values['scores']))


@pytest.mark.slow
def test_loss_and_gradients_are_the_published_ones(golden):
    values, model, graph, labels = golden
    loss_of = losses.CombinedLoss('ListMLELoss', 1.0)

    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(graph, training=True))
        penalty = tf.add_n(model.losses)
        objective = loss + penalty
    gradients = tape.gradient(objective, model.trainable_variables)
    goldens.assert_close(loss, values['loss'])
    goldens.assert_close(penalty, values['reg_loss'])
    for ours, published in zip(gradients, goldens.list_weights(values, 'g')):
        goldens.assert_close(tf.convert_to_tensor(ours), published, 5e-4)
