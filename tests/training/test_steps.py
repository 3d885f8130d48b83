"""Optimiser steps by hand: Adam, its clipping, rate, decay and averages."""

import math

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.core import settings as settings_lib
from baselines.tiles.zoo import kernels
from baselines.training import losses
from baselines.training import steps as steps_lib

_CLIP, _RATE = 1e-3, 0.01


class _Linear(tf.keras.Model):
    """scores[list, item] = w . x[..., :2] + b x[..., 2]."""

    def __init__(self, penalty=0.0):
        super().__init__()
        self.w = self.add_weight('w', [2], initializer='ones')
        self.b = self.add_weight('b', [], initializer='ones')
        self._penalty = penalty

    def call(self, x, training=False):
        if self._penalty:
            self.add_loss(self._penalty * tf.reduce_sum(self.w**2))
        return tf.linalg.matvec(x[..., :2], self.w) + self.b * x[..., 2]


class _Table(tf.keras.Model):
    """scores = the entries of a table."""

    def __init__(self):
        super().__init__()
        self.table = tf.keras.layers.Embedding(3, 1, 'ones')
        self.table.build(None)

    def call(self, x, training=False):
        return self.table(x)[..., 0]


def _sum_of_scores(labels, scores):
    return tf.reduce_sum(scores) + 0.0 * tf.reduce_sum(labels)


def _steps(model, loss=_sum_of_scores, width=3, dtype=tf.float32, **settings):
    shape = [None, None, None] + ([width] if width else [])
    return steps_lib.Steps(
        model,
        loss,
        config.Optimisation(**{'lr': _RATE, 'clip_norm': _CLIP, **settings}),
        unpack=lambda packed, step: (packed['x'][step], packed['y'][step], 0.0),
        signature={
            'x': tf.TensorSpec(shape, dtype),
            'y': tf.TensorSpec([None, None, None], tf.float32),
        },
    )


def _packed(x, y=None):
    """Packs steps [steps, lists, items, ...]; labels are 0 unless given."""
    x = np.asarray(x)
    if x.dtype.kind == 'f':
        x = x.astype(np.float32)
    y = np.zeros(x.shape[:3]) if y is None else np.asarray(y)
    return {'x': x, 'y': y.astype(np.float32)}


def _clipped(gradient):
    gradient = np.asarray(gradient, np.float64)
    return gradient * min(1.0, _CLIP / np.linalg.norm(gradient))


def _adam(start, gradients):
    """Adam as in its paper, with epsilon added before the bias correction."""
    value, first, second = np.asarray(start, np.float64), 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = _RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        value = value - rate * first / (np.sqrt(second) + 1e-7)
    return value


def test_steps_are_adam_with_each_tensor_clipped_alone():
    model = _Linear()
    steps = _steps(model)
    # Gradients are the columns' sums: (3, 4) has norm 5 and is clipped;
    # 0.0005 of b is below the limit and is not, whatever w has.
    steps.run_chunk(_packed([[[[3.0, 4.0, 0.0005]]], [[[-1.0, 0.0, 0.0002]]]]), 2)
    wanted = _adam([1, 1], [_clipped([3, 4]), _clipped([-1, 0])])
    np.testing.assert_allclose(model.w, wanted, rtol=1e-6)
    np.testing.assert_allclose(model.b, _adam(1, [0.0005, 0.0002]), rtol=1e-6)


def test_a_table_is_clipped_by_its_dense_gradient():
    model = _Table()
    steps = _steps(model, width=None, dtype=tf.int32)
    steps.run_chunk(_packed(np.array([[[0, 0, 1]]], np.int32)), 1)
    # Row 0 was looked up twice: (2, 1, 0) of norm sqrt 5, not three ones.
    wanted = _adam([1, 1, 1], [_clipped([2, 1, 0])])
    np.testing.assert_allclose(model.trainable_variables[0][:, 0], wanted, rtol=1e-6)


def test_penalties_are_trained_on_but_not_reported():
    model = _Linear(penalty=0.5)
    loss, _, _ = _steps(model).run_chunk(_packed([[[[0.0, 0.0, 0.0]]]]), 1)
    assert loss == 0
    np.testing.assert_allclose(model.w, _adam([1, 1], [_clipped([1, 1])]), rtol=1e-6)


def test_a_chunk_sums_losses_and_pairs_over_its_steps():
    steps = _steps(_Linear(), lambda y, s: tf.reduce_sum(y) + 0.0 * tf.reduce_sum(s))
    x = np.zeros((2, 2, 2, 3))
    x[:, :, 0, 0] = 1  # the first of each pair has the higher score
    y = [[[2, 1], [1, 2]], [[5, 3], [4, 4]]]
    assert steps.run_chunk(_packed(x, y), 2) == (22.0, 2.0, 3.0)
    assert steps.run_chunk(_packed(x, y), 1) == (6.0, 1.0, 2.0)
    y[0][1][1] = np.inf
    with pytest.raises(ValueError, match='--lr'):
        steps.run_chunk(_packed(x, y), 1)


@pytest.mark.parametrize(
    'labels, scores',
    [
        ([[1, 2, 2]], [[0, 1, 0]]),  # equal labels are no pair
        ([[1, 2], [2, 1]], [[1, 2], [1, 2]]),  # lists do not mix
    ],
)
def test_ordered_pairs_by_hand(labels, scores):
    pairs = [np.array(values, np.float32) for values in (labels, scores)]
    assert [float(x) for x in steps_lib.count_ordered_pairs(*pairs)] == [1, 2]


class _Ranker(tf.keras.Model):
    """A hidden layer with random weights, and dropout."""

    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(8, 'relu', kernel_regularizer='l2')
        self.head = tf.keras.layers.Dense(1)
        self(tf.zeros([1, 1, 3]))

    def call(self, x, training=False):
        return self.head(kernels.dropout(self.hidden(x), 0.5, training))[..., 0]


@pytest.mark.slow
def test_from_a_state_all_goes_on_as_it_would_have():
    """Also what is drawn at random: dropout, and the order of equal labels."""
    x = np.random.default_rng(0).normal(size=(4, 2, 5, 3))
    packed = _packed(x, x.sum(-1).round())
    last = {key: value[2:] for key, value in packed.items()}
    states = []
    for seed in (1, 77):  # of a new process
        tf.keras.utils.set_random_seed(seed)
        steps = _steps(_Ranker(), losses.CombinedLoss('ListMLELoss'))
        if not states:
            steps.run_chunk(packed, 2)
            kept = steps.get_state()
        steps.restore_state(kept)
        steps.run_chunk(last, 2)
        states.append(steps.get_state())
    for one, other in zip(*states):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize('averaging', ['', 'ema:0.15'])
def test_weights_come_back_after_an_error(averaging):
    model = _Linear()
    steps = _steps(model, averaging=averaging)
    start = model.b.numpy()
    seen = []
    for _ in range(2):
        steps.run_chunk(_packed(np.ones((1, 1, 2, 3))), 1)
        seen.append(float(model.b))
    before = model.get_weights()
    # The first step has decay 1 / 10, the second min(0.15, 2 / 11).
    mean = 0.15 * (0.1 * start + 0.9 * seen[0]) + 0.85 * seen[1]
    with pytest.raises(KeyError):
        with steps.use_averages():
            wanted = mean if averaging else seen[1]
            assert float(model.b) == pytest.approx(wanted, rel=1e-6)
            raise KeyError
    for weight, kept in zip(model.get_weights(), before):
        np.testing.assert_array_equal(weight, kept)
    with pytest.raises(ValueError, match='averages for'):
        steps.restore_state([*steps.get_state(), np.ones(3)])


def test_decay_shrinks_matrices_only():
    model = _Table()
    model.bias = tf.Variable([1.0, 1.0, 1.0])
    steps = _steps(
        model,
        lambda labels, scores: 0.0 * tf.reduce_sum(scores + model.bias),
        width=None,
        dtype=tf.int32,
        weight_decay=0.1,
    )
    steps.run_chunk(_packed(np.array([[[0, 1, 2]]], np.int32)), 1)
    np.testing.assert_allclose(model.table.embeddings[:, 0], 1 - _RATE * 0.1)
    np.testing.assert_array_equal(model.bias, 1)


def _rates(**settings):
    rate = steps_lib.make_learning_rate(config.Optimisation(lr=2.0, **settings), 4)
    return [float(rate(step)) for step in range(5)]


def test_learning_rates():
    assert steps_lib.make_learning_rate(config.Optimisation(lr=0.5), 10) == 0.5
    cosine = [1 + math.cos(math.pi * t / 4) for t in range(5)]
    np.testing.assert_allclose(_rates(schedule='cosine'), cosine, atol=1e-6)
    both = _rates(schedule='cosine', warmup=0.5)
    np.testing.assert_allclose(both, [0, 1, 2, 1, 0], atol=1e-6)
    np.testing.assert_allclose(_rates(warmup=0.5), [0, 1, 2, 2, 2], atol=1e-6)


@pytest.mark.parametrize(
    'clip, wanted',
    [
        ('variable', [[0.6, 0.8], [1.0]]),  # each to length 1
        ('global', [[3 / 13, 4 / 13], [12 / 13]]),  # (3, 4, 12) has length 13
    ],
)
def test_clipping_alone_or_together(clip, wanted):
    settings = config.Optimisation(clip=clip, clip_norm=1.0)
    optimizer = steps_lib.make_adam(settings, 1)
    variables = [tf.Variable([0.0, 0.0]), tf.Variable([0.0])]
    gradients = [tf.constant([3.0, 4.0]), tf.constant([12.0])]
    optimizer.apply_gradients(zip(gradients, variables))
    # Adam's first moment after a step is a tenth of the gradient it saw.
    for variable, seen in zip(variables, wanted):
        np.testing.assert_allclose(
            optimizer.get_slot(variable, 'm'), 0.1 * np.array(seen), rtol=1e-5
        )


@pytest.mark.parametrize('text', ['ema', 'mean:0.5', 'ema:1', 'ema:x'])
def test_other_averaging_is_refused(text):
    with pytest.raises(ValueError, match=f"--averaging .*'{text}'"):
        settings_lib.parse_averaging(text)
