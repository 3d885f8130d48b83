"""Models and losses of users that do not work: one line, before data are read."""

import sys

import pytest
import tensorflow as tf

from baselines import config
from baselines.training import losses
from baselines.training import own_code
from baselines.training import run_training
from tests.helpers import refusals
from tests.helpers import tiny_layout_models
from tests.helpers import tiny_models


class Base(tf.keras.Model):
    """A linear model whose parts the others spoil."""

    def __init__(self, num_configs, num_ops):
        super().__init__()
        self._num_configs = num_configs
        self.dense = tf.keras.layers.Dense(1)

    def call(self, graph, training=False):
        return self.forward(graph, self._num_configs)

    def forward(self, graph, num_configs):
        scores = self.dense(graph.node_sets['config']['feats'])
        return tf.reshape(scores, [-1, num_configs])


class Flat(Base):
    def forward(self, graph, num_configs):
        return self.dense(graph.node_sets['config']['feats'])


class Constant(Base):
    def forward(self, graph, num_configs):
        return super().forward(graph, self._num_configs)


class Cut(Base):
    def forward(self, graph, num_configs):
        return tf.stop_gradient(super().forward(graph, num_configs))


class Listed(Base):
    def forward(self, graph, num_configs):
        return [super().forward(graph, num_configs)]


class Demanding(Base):
    def __init__(self, num_configs, num_ops, width):
        super().__init__(num_configs, num_ops)


class Lazy(Base):
    def forward(self, graph, num_configs):
        scores = super().forward(graph, num_configs)
        return tf.keras.layers.Dense(num_configs)(scores)


class Leaving(Base):
    def forward(self, graph, num_configs):
        sys.exit(0)


class Renamed(Base):
    def __init__(self, n_configs, n_ops):
        super().__init__(n_configs, n_ops)


def _place(method, line):
    return f'{__file__}, line {method.__code__.co_firstlineno + line}'


def _constant(labels, scores):
    return tf.reduce_mean(labels)


def _nan(labels, scores):
    return tf.reduce_mean(tf.math.log(-tf.abs(scores) - 1.0))


def _text(labels, scores):
    return 'low'


def _table(labels, scores):
    return (labels - scores) ** 2


def _typo(labels, scores):
    return tf.reduce_mena(labels - scores)


def _squares(labels, scores):
    return tf.reduce_mean((labels - scores) ** 2, axis=1)


def _settings(**changes):
    """Those of a training whose data are not there."""
    fields = {'data_root': '/none', 'cache_dir': '/none', 'out_dir': '/none'}
    return config.TileConfig(**{**fields, 'batch': 10, 'configs': 10, **changes})


@pytest.mark.parametrize(
    'model, message',
    [
        (Flat, 'float32 (3, 10)'),
        (Constant, 'forward must score'),
        (Lazy, f'({_place(Lazy.forward, 2)})'),
        (Cut, 'variable dense'),
        (Listed, 'not list'),
        (Leaving, f'SystemExit: 0 ({_place(Leaving.forward, 1)}'),
        (Demanding, "'width'"),
    ],
)
def test_models_that_do_not_work(model, message):
    settings = _settings(model=model.__name__)
    train = lambda: run_training.train(settings, models=[model])
    refusals.assert_refused(train, message)


@pytest.mark.parametrize(
    'loss, message',
    [
        (_constant, 'depend on the scores'),
        (_nan, 'nan'),
        (_text, 'raised '),
        (_table, '[4, 10]'),
        (_typo, f'({__file__}, line {_typo.__code__.co_firstlineno + 1}; '),
    ],
)
def test_losses_that_do_not_work(loss, message):
    settings, own = _settings(losses=f'MSE:1,{loss.__name__}:2'), {loss.__name__: loss}
    train = lambda: run_training.train(settings, own_losses=own)
    refusals.assert_refused(train, f'--losses: {loss.__name__}(', message)


@pytest.mark.parametrize(
    'kind, module',
    [(config.TileConfig, tiny_models), (config.LayoutConfig, tiny_layout_models)],
)
def test_what_works_is_let_through(kind, module):
    own_code.check_loss('_squares', _squares)

    loss = losses.CombinedLoss('MSE:1,mine:1', own={'mine': _squares})
    assert list(loss.own) == ['mine']
    own_code.check_model(kind(batch=64, configs=7), module.Tiny, loss)


def test_a_constructor_that_only_a_training_can_call(capsys):
    loss = losses.CombinedLoss('MSE:1')
    for model, noted in ((Renamed, "'num_configs'"), (Base, '')):
        own_code.check_model(_settings(), model, loss)
        printed = capsys.readouterr().err
        assert noted in printed and bool(printed) == bool(noted)
