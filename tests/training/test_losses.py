"""Losses: the published numbers, small cases by hand, and what is refused."""

import doctest
import importlib.util
import inspect
import math

import numpy as np
import pytest
import tensorflow as tf

from baselines.training import losses
from baselines.training import steps
from tests.helpers import goldens
from tests.helpers import refusals


@pytest.fixture(name='golden', scope='module')
def _golden():
    return goldens.read(goldens.LOSSES)


def _value_and_gradient(loss, labels, scores):
    scores = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = loss(tf.constant(labels), scores)
    return float(value), tape.gradient(value, scores).numpy()


def _assert_golden(golden, key, loss, suffix=''):
    labels, scores = golden[f'y_true{suffix}'], golden[f'y_pred{suffix}']
    value, gradient = _value_and_gradient(loss, labels, scores)
    wanted, slopes = golden[f'{key}{suffix}'], golden[f'{key}{suffix}_grad']
    assert value == pytest.approx(float(wanted), rel=1e-5)
    np.testing.assert_allclose(
        gradient, slopes, rtol=0, atol=1e-5 * np.abs(slopes).max()
    )


@pytest.mark.parametrize(
    'key, spec, temperature',
    [
        ('listmle_t10', 'ListMLELoss', 10),
        ('listmle_t1', 'ListMLELoss', 1),
        ('pairwise_hinge_t10', 'PairwiseHingeLoss', 10),
        ('pairwise_hinge_t1', 'PairwiseHingeLoss', 1),
        ('mse', 'MSE', 10),
    ],
)
def test_each_loss_is_as_published(golden, key, spec, temperature):
    loss = losses.CombinedLoss(spec, temperature)
    _assert_golden(golden, key, loss)
    # ListMLE breaks ties at random, so that it has no golden for them.
    if f'{key}_ties' in golden:
        _assert_golden(golden, key, loss, '_ties')
    for name in [name for name in golden if name.endswith('_spec')]:
        combined = losses.CombinedLoss(str(golden[name]))
        _assert_golden(golden, name[: -len('_spec')], combined)


@pytest.mark.parametrize('suffix', ['', '_ties'])
def test_ordered_pairs_are_as_published(golden, suffix):
    labels, scores = golden[f'y_true{suffix}'], golden[f'y_pred{suffix}']
    correct, total = steps.count_ordered_pairs(labels, scores)
    assert float(correct / total) == pytest.approx(float(golden[f'opa{suffix}']))
    for i, wanted in enumerate(golden[f'opa{suffix}_per_list']):
        correct, total = steps.count_ordered_pairs(labels[i : i + 1], scores[i : i + 1])
        # A list whose labels are all equal has no pairs; it is published as 0.
        assert float(tf.math.divide_no_nan(correct, total)) == pytest.approx(
            float(wanted)
        )


def _loss(spec, labels, scores, **kwargs):
    loss = losses.CombinedLoss(spec, **kwargs)
    return float(loss(np.array(labels, np.float32), np.array(scores, np.float32)))


@pytest.mark.parametrize('spec', [n for n in losses.LOSSES if n != 'MSE'])
def test_every_loss_has_a_finite_gradient_that_helps(spec):
    labels = np.array([[1, 2, 3, 3], [5, 5, 5, 5]], np.float32)
    value, gradient = _value_and_gradient(
        losses.CombinedLoss(spec),
        labels,
        np.array([[0.3, 0.2, 0.1, 0.0]] * 2, np.float32),
    )
    assert np.isfinite(value) and np.isfinite(gradient).all()
    assert gradient[0, 0] > 0 > gradient[0, 2]  # the fast one goes down


def test_weights_are_shares():
    labels, scores = [[3, 1]], [[0, 0]]  # hinge 0.5, MSE 5
    for spec in (
        'PairwiseHingeLoss:3,MSE:1',
        ' PairwiseHingeLoss:6 , MSE:2',
        'MSE,PairwiseHingeLoss:3',
    ):
        assert _loss(spec, labels, scores) == pytest.approx(0.75 * 0.5 + 0.25 * 5)
    assert _loss('MSE:1e-9', labels, scores) == pytest.approx(5)


@pytest.mark.parametrize(
    'spec, words',
    [
        ('ListMLE', ["'ListMLE'", "'ListMLELoss'?"]),
        ('MSE:1,', ["''"]),
        ('MSE:1,MSE:2', ["'MSE'", 'twice']),
        ('MSE:x', ["'MSE'", "'x'"]),
        ('MSE:0', ["'0'"]),
        ('none.py:gap:1', ['none.py']),
        ('mine.py:gip:1', ["'gip'", "'gap'?"]),
        ('broken.py:gap', ['broken.py', 'ZeroDivisionError']),
    ],
)
def test_bad_specs(tmp_path, monkeypatch, spec, words):
    (tmp_path / 'mine.py').write_text(_OWN)
    (tmp_path / 'broken.py').write_text('1 / 0')
    monkeypatch.chdir(tmp_path)
    refusals.assert_refused(lambda: losses.CombinedLoss(spec), *words)


def test_without_tensorflow_ranking_there_are_no_losses_of_it(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    make = lambda: losses.CombinedLoss('tfr.SoftmaxLoss')
    refusals.assert_refused(make, 'pip install tensorflow-ranking')
    assert 'tfr.<class>' not in refusals.read_message(
        lambda: losses.CombinedLoss('Foo')
    )


def test_list_mle_of_scores_far_apart():
    # Two configurations: log(exp(s_0) + exp(s_1)) - s_0 with label 0 larger.
    # Far apart it is s_1 - s_0 where the order is wrong, 0 where it is right.
    labels = tf.constant([[2.0, 1.0], [2.0, 1.0]])
    scores = tf.Variable([[-500.0, 500.0], [500.0, -500.0]])
    with tf.GradientTape() as tape:
        loss = losses.list_mle(labels, scores)
    np.testing.assert_allclose(loss, (1000.0 + 0.0) / 2)
    expected = [[-0.5, 0.5], [0.0, 0.0]]
    np.testing.assert_allclose(tape.gradient(loss, scores), expected, atol=1e-5)


@pytest.fixture(name='ranking', scope='module')
def _ranking():
    return pytest.importorskip(
        'tensorflow_ranking', reason='TensorFlow Ranking needs TensorFlow < 2.16'
    )


def test_a_loss_without_a_golden_is_as_in_tensorflow_ranking(ranking):
    rng = np.random.default_rng(0)
    labels = rng.permuted(np.arange(1.0, 33)[None].repeat(4, 0), axis=1)
    labels = np.ceil(labels / 8).astype(np.float32)
    scores = rng.normal(0, 5, (4, 32)).astype(np.float32)
    published = ranking.keras.losses.PairwiseLogisticLoss(temperature=10.0)
    ours = losses.CombinedLoss('PairwiseLogisticLoss', 10.0)
    value, gradient = _value_and_gradient(ours, labels, scores)
    wanted, slopes = _value_and_gradient(published, labels, scores)
    # Both are sums of 32 terms, each rounded to 2^-24.
    rounding = 32 * 2**-24
    assert value == pytest.approx(wanted, rel=rounding)
    atol = rounding * np.abs(slopes).max()
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=atol)


def test_losses_of_tensorflow_ranking_by_name(ranking):
    labels, scores = [[3.0, 6.0]], [[math.log(2), 0.0]]
    # Relevance 1 and 1/2; probabilities of -scores 1/3 and 2/3.
    softmax = -(math.log(1 / 3) + 0.5 * math.log(2 / 3))
    wanted = pytest.approx(softmax, rel=1e-5)
    assert _loss('tfr.SoftmaxLoss', labels, scores, temperature=1) == wanted
    assert _loss('SoftmaxLoss', labels, scores, temperature=1) == wanted
    hot = np.multiply(scores, 10)
    assert _loss('tfr.SoftmaxLoss:2', labels, hot, temperature=10) == wanted
    # log(e + 1) - 1, fastest first; and the mean of two losses.
    first = _loss('tfr.ListMLELoss', labels, [[0, 10]])
    assert first == pytest.approx(math.log(math.e + 1) - 1)
    both = _loss('tfr.ListMLELoss:1,MSE:1', labels, [[0, 10]])
    assert both == pytest.approx((first + (9 + 16) / 2) / 2)
    for name, word in (('SoftMaxLos', "'SoftmaxLoss'?"), ('_RankingLoss', '')):
        make = lambda name=name: losses.CombinedLoss(f'tfr.{name}')
        refusals.assert_refused(make, repr(name), word)


def test_the_order_of_ties_depends_on_the_scores_alone():
    """All labels are equal; adding a constant to scores changes no loss, but orders."""
    labels, scores = tf.ones([1, 20]), tf.range(20.0)[tf.newaxis]
    first, again, moved = (
        float(losses.list_mle(labels, given))
        for given in (scores, scores, scores + 0.25)
    )
    assert first == again
    assert abs(moved - first) > 1e-2


def test_pairs_weighted_by_the_difference_of_log_runtimes():
    # Runtimes e^2, e, 1: pairs of weight 1, 2 and 1, scores 1, 0, 0 in units of log(3).
    labels, scores = [[math.e**2, math.e, 1]], [[math.log(3), 0, 0]]
    right, undecided = math.log(4 / 3), math.log(2)
    wanted = (1 * right + 2 * right + 1 * undecided) / 4
    value = _loss('PairwiseRuntimeLoss', labels, scores, temperature=1)
    assert value == pytest.approx(wanted, rel=1e-5)
    # Whatever the unit of time, and per list: another without a pair counts 0.
    two = [[7 * label for label in labels[0]], [5, 5, 5.04]]
    value = _loss('PairwiseRuntimeLoss', two, 2 * scores, temperature=1)
    assert value == pytest.approx(wanted / 2, rel=1e-5)


def test_pairs_closer_than_the_noise_do_not_count():
    labels, scores = [[1.02, 1.0]], [[0.0, 0.0]]
    for noise, wanted in ((0.01, math.log(2)), (0.03, 0)):
        value = _loss('PairwiseRuntimeLoss', labels, scores, noise=noise)
        assert value == pytest.approx(wanted)


_OWN = '''
import tensorflow as tf

def gap(labels, scores):
    """One loss for each list."""
    return tf.reduce_max(scores, axis=1) - tf.reduce_min(labels, axis=1)

number = 3
'''


def test_a_loss_of_the_users(tmp_path, monkeypatch):
    (tmp_path / 'mine.py').write_text(_OWN)
    monkeypatch.chdir(tmp_path)
    labels, scores = [[3.0, 1.0], [2.0, 2.0]], [[4.0, 0.0], [1.0, 5.0]]
    # Lists 4 - 1 and 5 - 2; squares 1 + 1 and 1 + 9, a mean of 3.
    for spec, expected in (
        ('mine.py:gap', 3),
        (f'{tmp_path}/mine.py:gap:2', 3),
        ('mine.py:gap:3,MSE:1', 3),
        ('MSE', 3),
    ):
        assert float(losses.CombinedLoss(spec)(labels, scores)) == expected
    twice = losses.CombinedLoss('twice:1', own={'twice': lambda labels, scores: 2.0})
    assert float(twice(labels, scores)) == 2


def test_examples():
    found = doctest.testmod(losses, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0 and found.attempted >= 9
    with_example = {
        test.name.rpartition('.')[2]
        for test in doctest.DocTestFinder().find(losses)
        if test.examples
    }
    takes = {
        name: [*inspect.signature(function).parameters][:2]
        for name, function in vars(losses).items()
        if inspect.isfunction(function) and not name.startswith('_')
    }
    ours = {name for name, first in takes.items() if first == ['labels', 'scores']}
    assert len(ours) == len(losses.LOSSES) and ours <= with_example
