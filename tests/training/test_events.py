"""Event files for TensorBoard, read back."""

from baselines.training import events
from baselines.training import loop
from tests.helpers import tensorboard


def _state(epochs):
    curve = {name: [0.5 * i for i in range(epochs)] for name in loop.CURVES}
    curve['val_loss'] = [None, 0.25, 0.125][:epochs]
    return loop.State(curve)


def test_scalars_and_hparams_are_read_back(tmp_path):
    folder = tmp_path / 'tensorboard' / 'abc'
    interrupted = events.Events(str(folder))
    interrupted.after_epoch(_state(1))
    resumed = events.Events(str(folder))
    resumed.after_epoch(_state(2))
    resumed.after_epoch(_state(3))
    settings = {'lr': 0.5, 'batch': 4, 'model': 'MLP', 'estimate': True}
    resumed.finish('abc', settings, {'val': {'1': 0.5}, 'test': None})
    scalars, hparams = tensorboard.read(folder)
    assert hparams == settings
    assert scalars['loss/train'] == [(1, 0.0), (2, 0.5), (3, 1.0)]  # each once
    assert scalars['loss/valid'] == [(2, 0.25), (3, 0.125)]  # the first is unknown
    assert scalars['final/val/1'] == [(3, 0.5)]
    assert set(scalars) == {
        *('loss/train', 'loss/valid', 'opa/train', 'opa/valid', 'final/val/1'),
        *('seconds/train', 'seconds/valid'),
    }
