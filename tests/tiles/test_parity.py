"""The published architectures give the published numbers."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.tiles import models
from tests.helpers import goldens
from tests.helpers import tile_graphs


@pytest.fixture(scope='module', **goldens.parameters('tile'))
def golden(request):
    """(values, the published model, its graph of one kernel, its batch)."""
    values = goldens.read(request.param)
    one = _graph(values, 'one_{}')
    batch = _graph(values, *(f'batch_{{}}_{number}' for number in range(3)))
    configs = len(values['one_config_feat'])
    return values, goldens.make_model(values, models, 10, one, configs), one, batch


def _graph(values, *names):
    kernels = []
    for name in names:
        configs = values[name.format('config_feat')]
        kernels.append(
            tile_graphs.Kernel(
                op=values[name.format('node_opcode')],
                feats=values[name.format('node_feat')],
                edges=values[name.format('edge_index')],
                configs=configs,
                runtimes=np.ones(len(configs)),
                normalizers=np.ones(len(configs)),
                tile_id=name,
            )
        )
    return tile_graphs.by_hand(kernels)


@pytest.mark.parametrize('training', [False, True])
def test_one_kernel_scores_as_published(golden, training):
    values, model, one, _ = golden
    scores = model.forward(one, len(values['one_config_feat']), training=training)
    goldens.assert_close(scores, values['one_scores'])


def test_merged_kernels_score_as_published(golden):
    values, model, _, batch = golden
    goldens.assert_close(model(batch), values['batch_scores'])


@pytest.mark.slow
def test_regularisation_is_as_published(golden):
    values, model, _, batch = golden
    model(batch, training=True)
    goldens.assert_close(tf.add_n(model.losses), values['batch_reg_loss'])
