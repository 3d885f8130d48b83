"""The published architectures give the published numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from baselines.tiles import models
from tests.helpers import goldens
from tests.helpers import tile_graphs


class _Golden(NamedTuple):
    """A published model, its graphs, and what came out of them."""

    values: Mapping[str, np.ndarray]
    model: tf.keras.Model
    one: Any
    batch: Any


@pytest.fixture(scope='module', **goldens.parameters('tile'))
def golden(request):
    values = goldens.read(request.param)
    one = _graph(values, 'one_{}')
    batch = _graph(values, *(f'batch_{{}}_{number}' for number in range(3)))
    configs = len(values['one_config_feat'])
    return _Golden(values, goldens.model(values, models, 10, one, configs), one, batch)


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
    configs = len(golden.values['one_config_feat'])
    scores = golden.model.forward(golden.one, configs, training=training)
    goldens.assert_close(scores, golden.values['one_scores'])


def test_merged_kernels_score_as_published(golden):
    goldens.assert_close(golden.model(golden.batch), golden.values['batch_scores'])


@pytest.mark.slow
def test_regularisation_is_as_published(golden):
    golden.model(golden.batch, training=True)
    penalty = tf.add_n(golden.model.losses)
    goldens.assert_close(penalty, golden.values['batch_reg_loss'])
