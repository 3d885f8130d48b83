"""The training loop: the step by hand, when it stops, and going on again."""

import contextlib
import copy
import re

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.layout.zoo import neighbourhood
from baselines.training import loop
from baselines.training import losses
from baselines.training import optimisation
from baselines.training import progress
from baselines.training import steps as steps_lib
from baselines.training import validation

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


def _trainer(model, loss=_sum_of_scores, width=3, dtype=tf.float32, averaging=''):
    shape = [None, None, None] + ([width] if width else [])
    return steps_lib.Steps(
        model,
        loss,
        optimisation.Optimiser(config.Optimisation(_RATE, _CLIP, averaging=averaging)),
        unpack=lambda packed, step: (packed['x'][step], packed['y'][step]),
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
    trainer = _trainer(model)
    # Gradients are the columns' sums: (3, 4) has norm 5 and is clipped;
    # 0.0005 of b is below the limit and is not, whatever w has.
    trainer.run_chunk(_packed([[[[3.0, 4.0, 0.0005]]], [[[-1.0, 0.0, 0.0002]]]]), 2)
    wanted = _adam([1, 1], [_clipped([3, 4]), _clipped([-1, 0])])
    np.testing.assert_allclose(model.w, wanted, rtol=1e-6)
    np.testing.assert_allclose(model.b, _adam(1, [0.0005, 0.0002]), rtol=1e-6)
    # The first step moves w by nearly the rate; unclipped, it would entirely.
    assert 1 - _adam([1], [_clipped([3, 4])])[0] == pytest.approx(
        _RATE * 0.6e-3 / (0.6e-3 + 1e-7 / np.sqrt(0.001))
    )


def test_a_table_is_clipped_by_its_dense_gradient():
    model = _Table()
    trainer = _trainer(model, width=None, dtype=tf.int32)
    trainer.run_chunk(_packed(np.array([[[0, 0, 1]]], np.int32)), 1)
    # Row 0 was looked up twice: (2, 1, 0) of norm sqrt 5, not three ones.
    wanted = _adam([1, 1, 1], [_clipped([2, 1, 0])])
    np.testing.assert_allclose(model.trainable_variables[0][:, 0], wanted, rtol=1e-6)


def test_penalties_are_trained_on_but_not_reported():
    model = _Linear(penalty=0.5)
    loss, _, _ = _trainer(model).run_chunk(_packed([[[[0.0, 0.0, 0.0]]]]), 1)
    assert loss == 0
    np.testing.assert_allclose(model.w, _adam([1, 1], [_clipped([1, 1])]), rtol=1e-6)


def test_a_chunk_sums_losses_and_pairs_over_its_steps():
    trainer = _trainer(
        _Linear(),
        lambda labels, scores: tf.reduce_sum(labels) + 0.0 * tf.reduce_sum(scores),
    )
    x = np.zeros((2, 2, 2, 3))
    x[:, :, 0, 0] = 1  # the first of each pair has the higher score
    y = [[[2, 1], [1, 2]], [[5, 3], [4, 4]]]
    assert trainer.run_chunk(_packed(x, y), 2) == (22.0, 2.0, 3.0)
    assert trainer.run_chunk(_packed(x, y), 1) == (6.0, 1.0, 2.0)


@pytest.mark.parametrize(
    'labels, scores, wanted',
    [
        ([[1, 2, 2]], [[0, 1, 0]], (1, 2)),  # equal labels are no pair
        ([[1, 2], [2, 1]], [[1, 2], [1, 2]], (1, 2)),  # lists do not mix
        ([[3, 2, 1]], [[3, 2, 1]], (3, 3)),
        ([[1, 1]], [[1, 2]], (0, 0)),
    ],
)
def test_ordered_pairs_by_hand(labels, scores, wanted):
    found = steps_lib.count_ordered_pairs(
        np.array(labels, np.float32), np.array(scores, np.float32)
    )
    assert tuple(float(x) for x in found) == wanted


def test_a_loss_that_is_not_finite():
    trainer = _trainer(_Linear(), losses.CombinedLoss('MSE'))
    with pytest.raises(ValueError, match='^the loss is not finite: lower --lr'):
        trainer.run_chunk(_packed(np.ones((1, 1, 2, 3)), [[[1, np.inf]]]), 1)


def test_state_holds_all_that_a_step_changes():
    steps = _packed(np.random.default_rng(0).normal(size=(4, 2, 3, 3)))
    last = {key: value[2:] for key, value in steps.items()}
    trainer = _trainer(_Linear())
    trainer.run_chunk(steps, 2)
    kept = trainer.state()
    trainer.run_chunk(last, 2)
    other = _trainer(_Linear())
    other.restore(kept)
    other.run_chunk(last, 2)
    for a, b in zip(trainer.state(), other.state()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('averaging', ['', 'ema:0.5'])
def test_weights_come_back_after_an_error(averaging):
    model = _Linear()
    trainer = _trainer(model, averaging=averaging)
    trainer.run_chunk(_packed(np.ones((3, 1, 2, 3))), 3)
    before = model.get_weights()
    averages = trainer.state()[-2:] if averaging else before
    assert (before[0] != averages[0]).any() == bool(averaging)
    with pytest.raises(KeyError):
        with trainer.averaged():
            for weight, average in zip(model.get_weights(), averages):
                np.testing.assert_array_equal(weight, average)
            raise KeyError
    for weight, kept in zip(model.get_weights(), before):
        np.testing.assert_array_equal(weight, kept)


class _FakeTrainer:
    """Its model's only weight is the number of chunks seen."""

    def __init__(self):
        self.model = self
        self.weights = [0]
        self.sums = [(1.0, 1.0, 2.0)]

    def get_weights(self):
        return list(self.weights)

    def set_weights(self, weights):
        self.weights = list(weights)

    def averaged(self):
        return contextlib.nullcontext()

    def state(self):
        return []

    def run_chunk(self, packed, steps):
        del packed, steps
        self.weights[0] += 1
        return self.sums[(self.weights[0] - 1) % len(self.sums)]


def _fit(opas, trainer=None, state=None, **kwargs):
    """Runs `fit` where validation finds `opas`, one per epoch."""
    trainer = trainer or _FakeTrainer()
    found = iter(opas)
    settings = dict(
        epochs=100,
        early_stop=100,
        steps_per_epoch=1,
        chunks=lambda epoch: iter([loop.Chunk({}, 1)]),
        validate=lambda: validation.Validation(0.25, next(found)),
        say=lambda line: None,
    )
    state = loop.fit(trainer, state or loop.State(), **{**settings, **kwargs})
    return trainer, state


@pytest.mark.parametrize(
    'early_stop, opas, epochs_run, best',
    [
        (3, [0.5, 0.6, 0.55, 0.6, 0.59], 5, 1),  # as good is not better
        (1, [0.5, 0.4], 2, 0),
        (1, [0.1, 0.2, 0.3, 0.3], 4, 2),
        (2, [0.5, 0.4, 0.6, 0.5, 0.5], 5, 2),  # better just in time
        (1, [0.0, 0.0], 2, 0),  # even the worst is better than nothing
    ],
)
def test_stops_after_so_many_epochs_without_a_better_one(
    early_stop, opas, epochs_run, best
):
    # An epoch more would ask for an OPA that is not there.
    trainer, state = _fit(opas, early_stop=early_stop)
    assert state.epochs_done == epochs_run
    assert (state.best_epoch, state.best_score) == (best, opas[best])
    assert state.curve['val_opa'] == opas
    # Epoch 0 leaves weight 1.
    assert trainer.weights == [best + 1] == state.best_weights


def test_patience_counts_steps_where_epochs_are_short():
    # 5 steps at 2 an epoch: 3 epochs, more than --early_stop says.
    said = []
    trainer, state = _fit(
        [0.5, 0.4, 0.4, 0.4],
        early_stop=1,
        patience_steps=5,
        steps_per_epoch=2,
        say=said.append,
    )
    assert state.epochs_done == 4 and trainer.weights == [1]
    assert said[-1] == (
        'stopped early: best was epoch 1 (val OPA .500), none better in 3 epochs'
    )
    # Long epochs: --early_stop alone.
    _, state = _fit([0.5, 0.4], early_stop=1, patience_steps=5, steps_per_epoch=9)
    assert state.epochs_done == 2


def test_stops_after_the_last_epoch_with_the_best_weights():
    trainer, state = _fit([0.7, 0.5, 0.6], epochs=3)
    assert state.epochs_done == 3 and trainer.weights == [1]


def test_known_weights_are_kept_unless_an_epoch_is_better():
    said = []
    trainer, state = _fit([0.5, 0.4, 0.5], epochs=2, is_known=True, say=said.append)
    assert state.epochs_done == 2 and state.curve['val_opa'] == [0.4, 0.5]
    assert trainer.weights == [0] and (state.best_epoch, state.best_score) == (-1, 0.5)
    assert said[-1] == 'best: the start (val OPA .500)'
    trainer, state = _fit([0.5, 0.6], epochs=1, is_known=True)
    assert trainer.weights == [1] and state.best_epoch == 0
    _, state = _fit([0.5, 0.4], early_stop=1, is_known=True)
    assert state.epochs_done == 1
    trainer, _ = _fit([None] * 3, epochs=2, is_known=True)
    assert trainer.weights == [2]


def test_without_validation_the_last_epoch_is_the_best():
    trainer, state = _fit([None] * 4, epochs=4, early_stop=1)
    assert trainer.weights == [4]
    assert state.best_epoch == 3 and state.curve['val_opa'] == [None] * 4


def test_curves():
    trainer = _FakeTrainer()
    # Two chunks in an epoch: (loss sum, right, pairs) over 3 and 1 steps.
    trainer.sums = [(6.0, 1.0, 4.0), (2.0, 2.0, 2.0)]
    lines = []
    _, state = _fit(
        [0.5, 0.25],
        trainer,
        epochs=2,
        steps_per_epoch=4,
        say=lines.append,
        chunks=lambda epoch: iter([loop.Chunk({}, 3), loop.Chunk({}, 1)]),
    )
    seconds = [state.curve.pop(f'{part}_seconds') for part in ('train', 'val')]
    assert np.shape(seconds) == (2, 2) and np.min(seconds) >= 0
    assert state.curve == {
        'epoch': [0, 1],
        'train_loss': [2.0, 2.0],
        'train_opa': [0.5, 0.5],
        'val_loss': [0.25, 0.25],
        'val_opa': [0.5, 0.25],
    }
    assert lines[0] == (
        'epoch     loss  train OPA  val loss  val OPA     time * best so far'
    )
    assert re.fullmatch(
        r'  1/2   2\.0000     0\.5000    0\.2500   0\.5000    0\.\d s \*', lines[1]
    )
    assert '*' not in lines[2]
    assert lines[3:] == ['best: epoch 1 (val OPA .500)']


def test_a_table_with_tau_has_eighty_columns():
    lines = []
    shown = progress.Progress(lines.append, 1000, 10, 0)
    found = validation.Validation(98.4567, None, -0.0312)
    shown.epoch(999, 1234.5678, 0.5, found, False, 1234.5)
    assert lines == [
        '    epoch     loss  train OPA  val loss  val OPA  val tau     time '
        '* best so far',
        '1000/1000  1234.57     0.5000   98.4567        -  -0.0312  1234.5 s',
    ]
    assert len(lines[0]) == 80


@pytest.mark.parametrize(
    'score, measure, patience, line',
    [
        (
            0.8614,
            'OPA',
            20,
            'stopped early: best was epoch 31 (val OPA .861), none better in 20 epochs',
        ),
        (
            -0.03,
            'tau',
            1,
            'stopped early: best was epoch 31 (val tau -.030), none better in 1 epoch',
        ),
        (1.0, 'OPA', 0, 'best: epoch 31 (val OPA 1.000)'),
        (-np.inf, 'OPA', 0, 'best: epoch 31'),
    ],
)
def test_the_line_after_the_table(score, measure, patience, line):
    assert progress.closing(30, score, measure, patience) == line


def test_labels_without_a_pair_have_no_opa():
    trainer = _FakeTrainer()
    trainer.sums = [(1.0, 0.0, 0.0)]
    _, state = _fit([None], trainer, epochs=1)
    assert state.curve['train_opa'] == [None]


def test_after_epoch_sees_each_finished_epoch():
    seen = []
    _fit(
        [0.5, 0.6],
        epochs=2,
        after_epoch=lambda state: seen.append(
            (state.epochs_done, state.best_epoch, list(state.best_weights))
        ),
    )
    assert seen == [(1, 0, [1]), (2, 1, [2])]


def test_epochs_are_numbered_on_after_a_resume():
    asked = []

    def chunks(epoch):
        asked.append(epoch)
        return iter([loop.Chunk({}, 1)])

    _, state = _fit([0.5, 0.4], epochs=2, chunks=chunks)
    _fit([0.3, 0.2], state=state, early_stop=3, chunks=chunks)
    assert asked == [0, 1, 2, 3]  # stopped: 3 after the best, epoch 0
    trainer, _ = _fit([], state=state, early_stop=3)
    assert trainer.weights == [1]


class _Ranker(tf.keras.Model):
    """A hidden layer with random weights; big enough to have an opinion."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(8, 'relu', kernel_regularizer='l2')
        self.dropped = neighbourhood.Dropout(dropout)
        self.head = tf.keras.layers.Dense(1)
        self(tf.zeros([1, 1, 3]))

    def call(self, x, training=False):
        return self.head(self.dropped(self.hidden(x), training=training))[..., 0]


def _train(seed, epochs=5, resume=None, stop_after=None, dropout=0.0, digits=7):
    """Trains a ranker; returns (trainer, state, what was kept at the stop)."""
    tf.keras.utils.set_random_seed(seed)
    trainer = _trainer(_Ranker(dropout), losses.CombinedLoss('ListMLELoss:1,MSE:0.02'))
    state, kept = loop.State(), []
    if resume:
        trainer.restore(resume[0])
        state = resume[1]

    def chunks(epoch):
        rng = np.random.default_rng([seed, epoch])
        for _ in range(2):
            x = rng.normal(size=(3, 2, 5, 3))
            yield loop.Chunk(_packed(x, x.sum(-1).round(digits)), 3)

    def validate():
        x = np.random.default_rng(9).normal(size=(2, 5, 3)).astype(np.float32)
        correct, total = steps_lib.count_ordered_pairs(x.sum(-1), trainer.model(x))
        return validation.Validation(None, float(correct / total))

    def after_epoch(state):
        if state.epochs_done == stop_after:
            kept.extend([trainer.state(), copy.deepcopy(state)])
            raise KeyboardInterrupt

    try:
        loop.fit(
            trainer,
            state,
            epochs=epochs,
            early_stop=9,
            steps_per_epoch=6,
            chunks=chunks,
            validate=validate,
            after_epoch=after_epoch,
            say=lambda line: None,
        )
    except KeyboardInterrupt:
        pass
    return trainer, state, kept


def _same(one, other):
    learned = [
        {name: v for name, v in state.curve.items() if not name.endswith('_seconds')}
        for _, state, *_ in (one, other)
    ]
    return learned[0] == learned[1] and all(
        np.array_equal(a, b) for a, b in zip(one[0].state(), other[0].state())
    )


@pytest.fixture(name='whole', scope='module')
def _whole():
    return _train(seed=1)


def test_seeds(whole):
    assert _same(whole, _train(seed=1))
    assert not _same(whole, _train(seed=2))


@pytest.mark.slow
@pytest.mark.parametrize('stop_after', [1, 3])
def test_a_resumed_run_is_the_uninterrupted_one(whole, stop_after):
    stopped = _train(seed=1, stop_after=stop_after)
    assert stopped[1].epochs_done == stop_after
    # Another seed for what is thrown away, as a new process would have.
    tf.keras.utils.set_random_seed(77)
    assert _same(whole, _train(seed=1, resume=stopped[2]))


@pytest.mark.slow
def test_a_resumed_run_draws_ties_and_dropout_as_the_uninterrupted_one():
    drawn = {'digits': 0, 'dropout': 0.5}
    whole = _train(seed=1, epochs=3, **drawn)
    stopped = _train(seed=1, stop_after=1, **drawn)
    tf.keras.utils.set_random_seed(77)
    assert _same(whole, _train(seed=1, epochs=3, resume=stopped[2], **drawn))
