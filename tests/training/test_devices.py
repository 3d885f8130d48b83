"""Shares of a batch, and TF_CONFIG."""

import json
import signal
import types

import numpy as np
import pytest
import tensorflow as tf

from baselines.training import devices
from tests.helpers import refusals


def _devices(replicas, local, rank):
    """As of a strategy of that many replicas."""
    strategy = types.SimpleNamespace(
        num_replicas_in_sync=replicas,
        extended=types.SimpleNamespace(worker_devices=['cpu'] * local),
    )
    return devices.Devices(strategy, rank)


def test_a_process_takes_the_shares_of_its_replicas():
    batches = np.arange(16).reshape(2, 8)  # two steps of eight graphs
    drawn = batches[..., np.newaxis] * 10 + np.arange(3)
    some, configs = _devices(4, 2, rank=1).take_share(batches, drawn)
    # Replicas 2 and 3 of the first step, then of the second.
    assert some.tolist() == [[4, 5], [6, 7], [12, 13], [14, 15]]
    assert configs.shape == (4, 2, 3) and configs[0, 1].tolist() == [50, 51, 52]
    assert _devices(4, 2, rank=0).is_chief and not _devices(4, 2, rank=1).is_chief


def test_one_device_takes_all():
    alone = devices.open_devices('')
    batches = np.arange(6).reshape(2, 3)
    [same] = alone.take_share(batches)
    assert same.tolist() == batches.tolist() and alone.is_chief
    assert int(alone.find_row(tf.constant(1))) == 1
    assert alone.broadcast_values([1.0, float('nan')])[0] == 1.0


def test_a_batch_has_to_be_divided():
    with pytest.raises(ValueError, match='--batch .* 4 .* 10'):
        _devices(4, 2, 0).divide_batch(10)


def test_what_ends_with_another_worker_is_one_line():
    alone = devices.open_devices('')
    with pytest.raises(ValueError, match='--resume'):
        with alone.wait_for_workers():
            raise tf.errors.UnavailableError(None, None, 'Connection reset')
    with pytest.raises(tf.errors.InvalidArgumentError):
        with alone.wait_for_workers():
            raise tf.errors.InvalidArgumentError(None, None, 'a defect')


def _config(workers=('a:1', 'b:2'), kind='worker', index=0, **others):
    cluster = {'worker': list(workers), **others}
    return json.dumps({'cluster': cluster, 'task': {'type': kind, 'index': index}})


@pytest.mark.parametrize(
    'text, word',
    [
        ('{', "'{'"),
        ('{"cluster": {}}', 'TF_CONFIG'),
        (_config(('a', 'b:2')), 'TF_CONFIG'),
        (_config(index=2), '2'),
        (_config(kind='chief'), 'worker'),
        (_config(ps=['c:3']), 'worker'),
        (_config(('a:1', 'a:1')), 'a:1'),
        (_config(('a:1', 'b:0')), 'b:0'),
    ],
)
def test_tf_config_that_cannot_be_used(monkeypatch, text, word):
    monkeypatch.setenv('TF_CONFIG', text)
    open_devices = lambda: devices.open_devices('workers')
    refusals.assert_refused(open_devices, 'TF_CONFIG', word)


def test_ctrl_c_ends_the_process_while_tensorflow_waits():
    before = signal.getsignal(signal.SIGINT)
    with devices.end_on_interrupt():
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == before
