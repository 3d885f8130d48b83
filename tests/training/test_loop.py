"""The training loop: when it stops, what it keeps, and going on again."""

import contextlib
import re
import types

import numpy as np
import pytest

from baselines import config
from baselines.training import loop
from baselines.training import progress
from baselines.training import steps as steps_lib


class _FakeSteps:
    """Its model's only weight is the number of chunks seen."""

    def __init__(self):
        self.model = self
        self.weights = [0]
        self.sums = [(1.0, 1.0, 2.0)]

    def get_weights(self):
        return list(self.weights)

    def set_weights(self, weights):
        self.weights = list(weights)

    def use_averages(self):
        return contextlib.nullcontext()

    def get_state(self):
        return []

    def run_chunk(self, packed, steps):
        del packed, steps
        self.weights[0] += 1
        return self.sums[(self.weights[0] - 1) % len(self.sums)]


class _Data:
    """Steps of numbered epochs, in chunks."""

    def __init__(self, chunks=(1,), patience_steps=0, steps_per_epoch=1):
        self.patience_steps, self.steps_per_epoch = patience_steps, steps_per_epoch
        self.asked = []
        self._chunks = chunks

    def draw_steps(self, epoch):
        self.asked.append(epoch)
        return ([np.zeros((steps, 1))] for steps in self._chunks)

    def pack(self, *drawn):
        return {}


class _Trainer(loop.Trainer):
    """Takes given steps, and measures with a given function."""

    def __init__(self, steps, measure, settings, validate_first=False):
        super().__init__(
            steps.model, None, settings, None, validate_first=validate_first
        )
        self._steps, self._measure = steps, measure

    def compile_steps(self, data):
        return self._steps

    def make_validator(self, data):
        return types.SimpleNamespace(measure=self._measure, ignores_configs=False)


def _fit(
    opas,
    steps=None,
    state=None,
    data=None,
    validate_first=False,
    after_epoch=lambda state: None,
    **settings,
):
    """Trains where validation finds `opas`, one per epoch."""
    steps, opas = steps or _FakeSteps(), iter(opas)
    trainer = _Trainer(
        steps,
        lambda: progress.Validation(0.25, next(opas)),
        config.TileConfig(**{'epochs': 100, 'early_stop': 100, **settings}),
        validate_first,
    )
    return steps, trainer.fit(data or _Data(), state, after_epoch)


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
    steps, state = _fit(opas, early_stop=early_stop)
    assert state.epochs_done == epochs_run
    assert (state.best_epoch, state.best_score) == (best, opas[best])
    assert state.curve['val_opa'] == opas
    # Epoch 0 leaves weight 1.
    assert steps.weights == [best + 1] == state.best_weights


def test_patience_counts_steps_where_epochs_are_short(capsys):
    # 5 steps at 2 an epoch: 3 epochs, more than --early_stop says.
    data = _Data(patience_steps=5, steps_per_epoch=2)
    steps, state = _fit([0.5, 0.4, 0.4, 0.4], early_stop=1, data=data)
    assert state.epochs_done == 4 and steps.weights == [1]
    last = capsys.readouterr().out.splitlines()[-1]
    assert 'epoch 1 (val OPA .500)' in last and ' 3 epochs' in last
    # Long epochs: --early_stop alone.
    data = _Data(patience_steps=5, steps_per_epoch=9)
    _, state = _fit([0.5, 0.4], early_stop=1, data=data)
    assert state.epochs_done == 2


def test_known_weights_are_kept_unless_an_epoch_is_better(capsys):
    steps, state = _fit([0.5, 0.4, 0.5], epochs=2, validate_first=True)
    assert state.epochs_done == 2 and state.curve['val_opa'] == [0.4, 0.5]
    assert steps.weights == [0] and (state.best_epoch, state.best_score) == (-1, 0.5)
    assert 'the start (val OPA .500)' in capsys.readouterr().out.splitlines()[-1]
    steps, state = _fit([0.5, 0.6], epochs=1, validate_first=True)
    assert steps.weights == [1] and state.best_epoch == 0
    _, state = _fit([0.5, 0.4], early_stop=1, validate_first=True)
    assert state.epochs_done == 1
    # Without validation the last epoch is the best; without pairs there is no OPA.
    unpaired, seen = _FakeSteps(), []
    unpaired.sums = [(1.0, 0.0, 0.0)]
    after = lambda state: seen.append((state.epochs_done, *state.best_weights))
    settings = dict(epochs=2, early_stop=1, validate_first=True)
    _, state = _fit([None] * 3, unpaired, after_epoch=after, **settings)
    assert unpaired.weights == [2] and state.best_epoch == 1
    assert state.curve['train_opa'] == state.curve['val_opa'] == [None] * 2
    assert seen == [(1, 1), (2, 2)]


def test_curves(capsys):
    steps = _FakeSteps()
    # Two chunks in an epoch: (loss sum, right, pairs) over 3 and 1 steps.
    steps.sums = [(6.0, 1.0, 4.0), (2.0, 2.0, 2.0)]
    data = _Data((3, 1), steps_per_epoch=4)
    _, state = _fit([0.5, 0.25], steps, epochs=2, data=data)
    lines = capsys.readouterr().out.splitlines()
    seconds = [state.curve.pop(f'{part}_seconds') for part in ('train', 'val')]
    assert np.shape(seconds) == (2, 2) and np.min(seconds) >= 0
    assert state.curve == {
        'epoch': [0, 1],
        'train_loss': [2.0, 2.0],
        'train_opa': [0.5, 0.5],
        'val_loss': [0.25, 0.25],
        'val_opa': [0.5, 0.25],
    }
    assert re.split(' {2,}', lines[1])[:4] == ['epoch', 'loss', 'train OPA', 'val loss']
    figures = ['1/2', '2.0000', '0.5000', '0.2500', '0.5000']
    assert lines[2].split()[:5] == figures and lines[2].endswith('*')
    assert '*' not in lines[3] and 'epoch 1 (val OPA .500)' in lines[4]


def _curve(*seconds, **changes):
    """Makes the curve of epochs with these seconds of training, and 1 of validation."""
    rows = [(e, 1234.5678, 0.5, 98.4567, None, s, 1) for e, s in enumerate(seconds)]
    return {**dict(zip(progress.CURVES, zip(*rows))), **changes}


def test_a_row_of_eighty_columns_has_the_latest_end():
    lines = []
    shown = progress.Progress(lines.append, 1000, 20)
    # The last five take 6 s on average, and of 1,000 epochs 993 are left: 99.3 min.
    shown.show_epoch(_curve(99, 99, 3, 4, 5, 6, 7, val_tau=[-0.0312]), True)
    assert lines[-1] == (
        '   7/1000  1234.57     0.5000   98.4567        -  -0.0312    8.0 s  99 min *'
    )
    assert '20 epochs' in lines[0] and max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    'seconds, left', [(99, '99 s'), (100, '2 min'), (5900, '98 min'), (5990, '1.66 h')]
)
def test_the_last_of_two_epochs_is_expected_to_take_as_long(seconds, left):
    lines = []
    progress.Progress(lines.append, 2, 2).show_epoch(_curve(seconds - 1), False)
    assert re.search(r' s +(\S+ \w+)$', lines[-1])[1] == left


@pytest.mark.parametrize('is_terminal', [True, False])
def test_a_terminal_has_a_row_in_two_seconds(monkeypatch, is_terminal):
    monkeypatch.setattr(progress.sys.stdout, 'isatty', lambda: is_terminal)
    lines = []
    with progress.Progress(lines.append, 100, 100) as shown:
        for epoch in range(100):
            shown.show_epoch(_curve(0.25, epoch=[epoch], val_seconds=[0.0]), False)
    # Every eighth epoch, and the last one.
    numbers = [*range(1, 101, 8), 100] if is_terminal else range(1, 101)
    assert [line.split('/')[0].strip() for line in lines[2:]] == [*map(str, numbers)]


@pytest.mark.parametrize('train_loss, named', [(9.0, '5.6e+22'), (1.9e31, '1.9e+31')])
def test_a_huge_loss_gets_a_note(train_loss, named):
    """Of validation, unless the training itself has one: the data are not at fault."""
    lines = []
    shown = progress.Progress(lines.append, 3, 3)
    for epoch, loss in enumerate((5.6e22, 4e21, 2.0)):
        row = (epoch, train_loss, 0.5, loss, 0.5, 1.0, 1.0)
        shown.show_epoch({n: [x] for n, x in zip(progress.CURVES, row)}, False)
    losses = [line.split()[3] for line in lines if '/3' in line]
    assert losses == ['-', '-', '2.0000']
    [noted] = [line for line in lines if 'note' in line]
    assert named in noted


def test_epochs_are_numbered_on_after_a_resume():
    data = _Data()
    _, state = _fit([0.5, 0.4], epochs=2, data=data)
    _fit([0.3, 0.2], state=state, early_stop=3, data=data)
    assert data.asked == [0, 1, 2, 3]  # stopped: 3 after the best, epoch 0
    steps, _ = _fit([], state=state, early_stop=3)
    assert steps.weights == [1]


def test_a_graph_without_finite_scores_is_named():
    """Of the graphs of the steps, with the weights from before them."""

    class Diverging(_FakeSteps):
        def run_chunk(self, packed, steps):
            super().run_chunk(packed, steps)
            raise steps_lib.LossError('the loss is not finite')

    def scores(graphs, numbers):
        asked.append((numbers.tolist(), steps.weights))
        if 4 in numbers:
            raise ValueError('e: a score')
        yield np.zeros(3)

    data = _Data()
    data.draw_steps = lambda epoch: [[np.array([[1, 4, 1, 5]])]]
    data.graphs = {'train': None}
    data.stores = {'train': types.SimpleNamespace(node_offsets=3 * np.arange(7))}
    steps, asked = Diverging(), []
    trainer = _Trainer(steps, None, config.TileConfig())
    trainer.scorer = types.SimpleNamespace(scores=scores)
    with pytest.raises(ValueError, match='finite: .* 3 nodes: e: a score'):
        trainer.fit(data)
    assert asked == [([1], [0]), ([4], [0])]
    data.draw_steps = lambda epoch: [[np.array([[1, 5]])]]
    with pytest.raises(steps_lib.LossError, match='not finite$'):
        trainer.fit(data)
