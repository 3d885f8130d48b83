"""Layers and options of the tile models in the zoo."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.tiles.zoo import config_attention
from baselines.tiles.zoo import kernels
from baselines.tiles.zoo import late_join
from tests.helpers import tile_graphs


def test_ramps_by_hand():
    """Of 4 bins in [0, 1], 0.6 fills two, and the third by 0.4; -1 none, 2 all."""
    x = tf.constant([[0.6, -1.0], [1.0, 2.0]])
    expected = [[1, 1, 0.4, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]]
    np.testing.assert_allclose(late_join.fill_bins(x, 4), expected, atol=1e-6)


def test_log_features_by_hand():
    """log(1 + x / s) / log(1 + 1 / s): 1 stays 1, and for s = 1/3, 1 is log 4."""
    x = tf.constant([[1.0, 0.0, 1 / 3]])
    found = kernels.log_features(x, [1 / 3])
    np.testing.assert_allclose(found, [[1, 0, 1 / 3, 1, 0, 0.5]], atol=1e-6)


def test_comparison_of_configurations_by_its_formula():
    layer = config_attention.AcrossConfigs(1, None)
    x = tf.constant([[[1.0, 3.0], [5.0, 3.0], [0.0, 2.0]]])  # one graph, 3 configs
    layer(x)
    layer._log_temperature.assign(np.log(2.0))
    layer._compare.set_weights([np.array([[1.0], [0], [2], [0]]), np.array([0.5])])
    # Rows are standardised to -1 and 1: the first channel is -1, 1, -1.
    z = np.array([-1.0, 1.0, -1.0])
    shares = np.exp(z / 2) / np.exp(z / 2).sum()
    added = z + 2 * z * shares * 3 + 0.5
    np.testing.assert_allclose(layer(x)[0], x[0] + added[:, None], atol=1e-4)


def test_gates_scale_the_channels_of_messages():
    kernel = tile_graphs.random_kernel(np.random.default_rng(0), 4, configs=2)
    batch = kernels.KernelBatch(tile_graphs.by_hand([kernel]), 2)
    layer = config_attention.GatedMessages(8)
    x = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    found = layer(x, batch).numpy()
    plain = kernels.Messages.call(layer, tf.constant(x), batch).numpy()
    first, second = (dense.get_weights() for dense in layer._gate.layers)
    hidden = np.maximum(plain.mean(0) @ first[0] + first[1], 0)
    gate = 1 / (1 + np.exp(-(hidden @ second[0] + second[1])))
    np.testing.assert_allclose(found, plain * gate, atol=1e-5)


@pytest.mark.parametrize(
    'name, value', [('bins', -1), ('dropout', 1.0), ('log_scales', (0.0,))]
)
def test_options_of_the_late_join_that_make_no_sense(name, value):
    with pytest.raises(ValueError, match=name):
        late_join.LateJoinResSAGE(2, 10, **{name: value})


def test_dropout_is_the_same_for_the_same_values_alone():
    x = tf.ones([1000])
    assert kernels.dropout(x, 0.25, False) is x
    first, again, other = (kernels.dropout(y, 0.25, True) for y in (x, x, x + 1))
    np.testing.assert_array_equal(first, again)
    assert ((first == 0) != (other == 0)).numpy().any()
    # Kept values are divided by 3/4; of 1000, 750 are kept, with a deviation of 14.
    kept = first.numpy()[first != 0]
    np.testing.assert_allclose(kept, 4 / 3, rtol=1e-6)
    assert 680 < len(kept) < 820
