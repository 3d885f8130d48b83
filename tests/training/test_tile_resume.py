"""Interrupted trainings go on as if nothing had happened."""

import contextlib
import os
import re
import shutil
import signal
import socket

import numpy as np
import pytest
import tensorflow as tf

from baselines.core import exits
from baselines.core import text
from baselines.evaluation import submission
from baselines.runs import saved
from baselines.training import checkpoints
from baselines.training import run_training
from baselines.training import task_data
from tests.helpers import finished_runs
from tests.helpers import refusals
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tests.helpers import tiny_models

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp('tile')
    tile_records.write_splits(root / 'data', 6)
    return root


def _stopped(monkeypatch, root, epochs_done, **changes):
    """Trains until the state after so many epochs has been kept."""
    finished_runs.stop_after(
        monkeypatch, epochs_done, lambda: tile_runs.train(root, **changes)
    )


_FOUR = dict(tile_runs.TINY, epochs=4, batch=2, lr=0.1, clip_norm=1.0)


@pytest.fixture(name='whole', scope='module')
def _whole(root, weights_alone, tmp_path_factory):
    """(model directory, what was printed) of a training after one that was stopped."""
    changes = dict(_FOUR, out_dir=str(tmp_path_factory.mktemp('whole')))
    with pytest.MonkeyPatch.context() as patch:
        _stopped(patch, root, 1, **changes)
    return tile_runs.train(root, **changes)


def test_same_seed_and_resumed_runs_are_the_same(root, whole, tmp_path, monkeypatch):
    changes = dict(_FOUR, out_dir=str(tmp_path))
    _stopped(monkeypatch, root, 2, **changes)
    kept = os.listdir(tmp_path)
    assert len(kept) == 1 and re.fullmatch(r'unfinished_[0-9a-f]{16}\.npz', kept[0])
    fewer = refusals.read_message(
        lambda: tile_runs.train(root, **{**changes, 'epochs': 1}, resume=True)
    )
    assert '--epochs' in fewer and kept[0] in fewer
    # Other settings are another run, and do not touch it.  This one is not
    # validated, and so keeps its last epoch.
    other, printed = tile_runs.train(
        root, **{**changes, 'seed': 1}, resume=True, validate_batches=0
    )
    assert 'note: --resume: ' in printed
    assert kept[0] in os.listdir(tmp_path)
    curve = finished_runs.read_curve(other)
    assert curve['val_loss'] == curve['val_opa'] == [None] * 4
    resumed, printed = tile_runs.train(root, **changes, resume=True)
    assert 'resuming after epoch 2\n' in printed
    assert '  3/4 ' in printed and '  2/4 ' not in printed
    assert not list(tmp_path.glob('unfinished_*'))
    whole, printed = whole
    assert 'note: ' in printed
    assert '  1/4 ' in printed
    curve = finished_runs.read_curve(whole)
    assert finished_runs.read_curve(resumed) == curve
    assert curve['epoch'] == [0, 1, 2, 3]
    weights = finished_runs.read_weights(whole)
    assert finished_runs.read_weights(resumed) == weights and len(weights) == 3
    assert finished_runs.read_weights(other) != weights
    # Two runs in one folder: each has its pair, and its own CSV.
    for kind in ('model_*', 'run_*.jsonz', 'results_*.csv'):
        assert len(list(tmp_path.glob(kind))) == 2


def test_a_finished_run_trains_on(root, whole, tmp_path):
    """2 + 2 epochs are 4, bit for bit."""
    whole, _ = whole
    train = lambda epochs, **changes: tile_runs.train(
        root, **{**_FOUR, 'epochs': epochs, 'out_dir': str(tmp_path), **changes}
    )
    half, _ = train(2)
    weights = finished_runs.read_weights(half)
    more, printed = train(4, resume=True)
    assert 'resuming after epoch 2\n' in printed
    assert finished_runs.read_curve(more) == finished_runs.read_curve(whole)
    assert finished_runs.read_weights(more) == finished_runs.read_weights(whole)
    # The old pair stays, and the longer one is found from now on.
    assert more != half and finished_runs.read_weights(half) == weights
    again, printed = train(4, resume=True)
    assert again == more and 'is finished already' in printed
    # With fewer epochs it is another run, not the longer one.
    third, _ = train(3, resume=True)
    assert finished_runs.read_curve(third)['epoch'] == [0, 1, 2]
    (more / 'training_state.npz').unlink()
    again, printed = train(5, resume=True)
    assert again == more and f'note: {more} ' in printed


@pytest.mark.parametrize('flag', [{'averaging': 'ema:0.9'}, {'schedule': 'cosine'}])
def test_more_epochs_than_every_step_was_shaped_by(root, tmp_path, flag):
    changes = dict(tile_runs.TINY, out_dir=str(tmp_path), **flag)
    short, _ = tile_runs.train(root, **changes, epochs=1)
    words = [f'--{name}={value}' for name, value in flag.items()]
    with pytest.raises(exits.UsageError) as refused:
        tile_runs.train(root, **changes, epochs=2, resume=True)
    assert all(
        word in str(refused.value) for word in [*words, str(short), '--epochs=1']
    )

    def refuse():
        raise refused.value

    assert exits.run_guarded(refuse) == 2
    again, printed = tile_runs.train(root, **changes, epochs=1, resume=True)
    assert again == short and 'is finished already' in printed


def test_a_models_file_that_has_changed(root, tmp_path, monkeypatch, capsys):
    own = tmp_path / 'own.py'
    shutil.copy(tiny_models.__file__, own)
    changes = dict(model='Tiny', models_file=str(own), out_dir=str(tmp_path / 'out'))
    _stopped(monkeypatch, root, 1, **changes)
    content = own.read_bytes()
    own.write_bytes(content.replace(b'+ self.b', b'- self.b'))
    [state] = (tmp_path / 'out').glob('unfinished_*.npz')
    copy = tmp_path / 'out' / f'{state.stem}_own.py'
    train = lambda: tile_runs.train(root, **changes, resume=True)
    refusals.assert_refused(train, f'--resume: {own} ', str(copy))
    assert copy.read_bytes() == content
    shutil.copy(copy, own)
    model_dir, _ = train()
    assert (model_dir / 'code' / 'own.py').read_bytes() == content
    [entry] = finished_runs.read_info(model_dir)['code']['files']
    assert (entry['path'], entry['copy']) == (str(own), 'code/own.py')


def test_resuming_from_what_does_not_fit(root, tmp_path, monkeypatch):
    changes = dict(tile_runs.TINY, epochs=2, out_dir=str(tmp_path), resume=True)
    _stopped(monkeypatch, root, 1, **changes)
    path = next(tmp_path.glob('unfinished_*'))
    whole = path.read_bytes()
    for damage in (
        lambda: path.write_bytes(whole[:1000]),
        lambda: checkpoints.write_state_file(str(path), {'now_0000': np.zeros(3)}, {}),
    ):
        damage()
        message = refusals.read_message(lambda: tile_runs.train(root, **changes))
        assert str(path) in message
        assert os.listdir(tmp_path) == [path.name]


def test_resuming_after_the_last_epoch(root, tmp_path, monkeypatch, weights_alone):
    # Ctrl-C as the state of the last epoch takes its name: only the end is left to
    # do, with a whole SavedModel of a model that has not been trained since.
    monkeypatch.setattr(saved, 'save_model', weights_alone)
    changes = dict(tile_runs.TINY, epochs=1, out_dir=str(tmp_path))
    error = RuntimeError()  # what was interrupted fails once more
    error.__context__ = KeyboardInterrupt()
    train = lambda: tile_runs.train(root, **changes)
    said = finished_runs.stop_after(monkeypatch, 1, train, error, KeyboardInterrupt)
    assert str(said) == 'kept 1 epoch'
    model_dir, printed = tile_runs.train(root, **changes, resume=True)
    assert 'resuming after epoch 1\n' in printed and 'val loss' not in printed
    assert finished_runs.read_info(model_dir)['train_curve']['epoch'] == [0]
    tf.keras.models.load_model(str(model_dir), compile=False)


def _raise_from_c():
    raise TypeError('an error without a context, as TensorFlow makes it')


@pytest.mark.parametrize('lose', [lambda: None, _raise_from_c])
def test_ctrl_c_that_a_library_loses(root, tmp_path, monkeypatch, lose):
    """In the second epoch, whose state is kept where the training went on."""
    draw_steps, handler = task_data.TileData.draw_steps, signal.getsignal(signal.SIGINT)

    def draw(data, epoch):
        with contextlib.suppress(KeyboardInterrupt):
            if epoch == 1:
                signal.raise_signal(signal.SIGINT)
        if epoch == 1:
            lose()
        return draw_steps(data, epoch)

    monkeypatch.setattr(task_data.TileData, 'draw_steps', draw)
    changes = dict(tile_runs.TINY, epochs=4, out_dir=str(tmp_path))
    with pytest.raises(text.Interrupted) as caught:
        tile_runs.train(root, **changes)
    epochs = '1 epoch' if lose is _raise_from_c else '2 epochs'
    assert str(caught.value) == f'kept {epochs}'
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize('times, calls', [(1, 1), (2, 0)])
def test_ctrl_c_while_an_epoch_is_reported(root, tmp_path, times, calls):
    """The report ends first, as it may write to a database; a second one stops it."""
    ended = []

    def after_epoch(state):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        ended.append(state.epochs_done)

    changes = dict(tile_runs.TINY, epochs=4, out_dir=str(tmp_path))
    with pytest.raises(text.Interrupted) as caught:
        run_training.train(tile_runs.settings(root, **changes), after_epoch=after_epoch)
    assert str(caught.value) == 'kept 1 epoch' and len(ended) == calls


def _listing(folder):
    return sorted(path.name.split('_')[0] for path in folder.iterdir())


def test_killed_after_the_run_was_saved(root, tmp_path, monkeypatch):
    changes = dict(tile_runs.TINY, epochs=1, out_dir=str(tmp_path), resume=True)
    # As by kill -9, before the ranking, and then before the removal of the state.
    for place, name in (
        (submission, 'write_predictions'),
        (checkpoints.Unfinished, 'move_state'),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, _stop)
            with pytest.raises(_Stop):
                tile_runs.train(root, **changes)
        assert len(list(tmp_path.glob('unfinished_*'))) == 1
    [first] = tmp_path.glob('model_*')
    [state] = tmp_path.glob('unfinished_*')
    content = state.read_bytes()
    for _ in range(2):  # and where nothing is left to resume
        model_dir, printed = tile_runs.train(root, **changes)
        assert model_dir == first
        assert 'finished' in printed
        assert _listing(tmp_path) == ['model', 'results', 'run']
    # Killed between the halves of the run: it is saved again, next to the half.
    state.write_bytes(content)
    shutil.rmtree(first)
    [half] = tmp_path.glob('run_*')
    tile_runs.train(root, **changes)
    assert _listing(tmp_path) == ['model', 'results', 'run'] and half.exists()


def test_two_equal_trainings_at_once(root, tmp_path):
    changes = dict(tile_runs.TINY, epochs=1, out_dir=str(tmp_path))
    found, keep = [], checkpoints.Unfinished.write_state

    def during(self, state):
        keep(self, state)
        found.append(refusals.read_message(lambda: tile_runs.train(root, **changes)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.Unfinished, 'write_state', during)
        tile_runs.train(root, **changes)
    [message] = found
    assert f'process {os.getpid()} on {socket.gethostname()}' in message
    assert f'--out_dir {tmp_path}: ' in message and '--seed' in message
    assert _listing(tmp_path) == ['model', 'results', 'run']


class _Stop(Exception):
    """A stand-in for kill -9."""


def _stop(*unused):
    raise _Stop
