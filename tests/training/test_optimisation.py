"""How weights move, step by step, by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.training import optimisation as lib


def _optimiser(total_steps=1, **settings):
    return lib.Optimiser(config.Optimisation(**settings), total_steps)


def _rates(**kwargs):
    rate = _optimiser(**kwargs).rate()
    return [float(rate(step)) for step in range(kwargs['total_steps'] + 1)]


def test_constant_rate_is_a_number():
    assert _optimiser(lr=0.5, total_steps=10).rate() == 0.5


def test_cosine_falls_from_the_rate_to_zero():
    rates = _rates(lr=2.0, schedule='cosine', total_steps=4)
    wanted = [1 + math.cos(math.pi * t / 4) for t in range(5)]
    np.testing.assert_allclose(rates, wanted, atol=1e-6)


def test_warmup_climbs_before_the_cosine():
    rates = _rates(lr=2.0, schedule='cosine', warmup=0.5, total_steps=4)
    np.testing.assert_allclose(rates, [0, 1, 2, 1, 0], atol=1e-6)


def test_warmup_before_a_constant_rate():
    rates = _rates(lr=2.0, warmup=0.5, total_steps=4)
    np.testing.assert_allclose(rates, [0, 1, 2, 2, 2], atol=1e-6)


def test_decay_shrinks_matrices_only():
    settings = _optimiser(lr=0.5, weight_decay=0.1)
    matrix, bias = tf.Variable([[2.0]]), tf.Variable([2.0])
    settings.decay(settings.adam(), [matrix, bias])
    assert float(matrix[0, 0]) == pytest.approx(2 * (1 - 0.5 * 0.1))
    assert float(bias[0]) == 2.0


@pytest.mark.parametrize(
    'clip, wanted',
    [
        ('variable', [[0.6, 0.8], [1.0]]),  # each to length 1
        ('global', [[3 / 13, 4 / 13], [12 / 13]]),  # (3, 4, 12) has length 13
    ],
)
def test_clipping_alone_or_together(clip, wanted):
    optimizer = _optimiser(clip=clip, clip_norm=1.0).adam()
    variables = [tf.Variable([0.0, 0.0]), tf.Variable([0.0])]
    gradients = [tf.constant([3.0, 4.0]), tf.constant([12.0])]
    optimizer.apply_gradients(zip(gradients, variables))
    # Adam's first moment after a step is a tenth of the gradient it saw.
    for variable, seen in zip(variables, wanted):
        np.testing.assert_allclose(
            optimizer.get_slot(variable, 'm'), 0.1 * np.array(seen), rtol=1e-5
        )


@pytest.mark.parametrize('text, wanted', [('', None), ('ema:0.9', 0.9), ('ema:0', 0.0)])
def test_averaging_is_read(text, wanted):
    assert lib.parse_averaging(text) == wanted


@pytest.mark.parametrize('text', ['ema', 'mean:0.5', 'ema:1', 'ema:-0.1', 'ema:x'])
def test_other_averaging_is_refused(text):
    with pytest.raises(ValueError, match=f"--averaging should .*not '{text}'"):
        lib.parse_averaging(text)


def _follow(averaging, values):
    variable = tf.Variable([0.0])
    averager = lib.Averager([variable], averaging)
    seen = []
    for step, value in enumerate(values, 1):
        variable.assign([value])
        averager.update(tf.constant(step, tf.int64))
        averager.apply()
        seen.append(float(variable[0]))
        variable.assign([value])
    return seen, averager


def test_ema_starts_with_a_short_memory():
    seen, _ = _follow('ema:0.15', [10.0, 0.0])
    # The first step has decay 1 / 10, the second min(0.15, 2 / 11).
    np.testing.assert_allclose(seen, [9.0, 1.35], rtol=1e-6)


def test_no_averaging_changes_nothing():
    seen, averager = _follow('', [3.0, 5.0])
    assert seen == [3.0, 5.0] and averager.state() == []


def test_a_state_of_other_weights_is_refused():
    _, averager = _follow('ema:0', [1.0])
    averager.restore([np.array([7.0], np.float32)])
    assert averager.state()[0] == [7.0]
    with pytest.raises(ValueError, match='0 averages for 1 weights'):
        averager.restore([])
