"""One training on several devices and processes learns what one device learns."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from baselines.training import checkpoints
from tests.helpers import finished_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tile_runs

# A model whose scores of a kernel do not depend on the others of its batch.
_SETTINGS = dict(
    model='MLP',
    batch=4,
    epochs=4,
    early_stop=100000,
    weight_decay=0.1,
    averaging='ema:0.5',
)
# The first replica of two virtual devices of this machine.
_MIRRORED = (
    'import sys, tensorflow as tf;'
    'cpu = tf.config.list_physical_devices("CPU")[0];'
    'two = [tf.config.LogicalDeviceConfiguration()] * 2;'
    'tf.config.set_logical_device_configuration(cpu, two);'
    'import json; from baselines import config;'
    'from baselines.training import run_training;'
    'from baselines.runs import saved; saved.save_model = lambda *unused: None;'
    'run_training.train(config.TileConfig(**json.loads(sys.argv[1])))'
)


@pytest.fixture(scope='module')
def alone(tmp_path_factory, weights_alone):
    """Where the data are, and the curve of one device."""
    root = tmp_path_factory.mktemp('strategy')
    tile_records.write_splits(root / 'data', 12)
    model_dir, _ = tile_runs.train(root, **_SETTINGS)
    return root, finished_runs.curve_of(model_dir)


def _assert_alike(curve, expected):
    """Sums of replicas are added in another order than those of one device."""
    for name in expected:
        # 12 steps, in which Adam divides by gradients that are next to nothing; and
        # a pair of nearly equal scores may change sides.
        limits = {'atol': 2e-3} if name.endswith('opa') else {'rtol': 1e-4}
        np.testing.assert_allclose(curve[name], expected[name], **limits)


@pytest.mark.slow
def test_two_workers_learn_as_one_until_one_is_killed(alone, tmp_path):
    root, expected = alone
    folders = dict(
        data_root=root / 'data', cache_dir=root / 'cache', out_dir=tmp_path / 'out'
    )
    flags = {**_SETTINGS, **folders, 'strategy': 'workers', 'epochs': 100000}
    chief, other = _start_workers(flags)
    while len(_curve_kept(tmp_path / 'out')['epoch']) < _SETTINGS['epochs']:
        assert chief.poll() is None, chief.communicate()
        time.sleep(0.1)
    other.send_signal(signal.SIGKILL)
    other.communicate()
    _, error = chief.communicate(timeout=120)
    assert chief.returncode == 1
    assert error == (
        'error: --strategy=workers: another worker has ended; start all of them '
        'again with --resume\n'
    )
    # What is kept, for --resume, is as if one device had been alone.
    curve = _curve_kept(tmp_path / 'out')
    first = {name: values[: _SETTINGS['epochs']] for name, values in curve.items()}
    _assert_alike(first, expected)


def _start_workers(flags):
    """Starts two workers of a training on this machine; the first is the chief."""
    probes = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    addresses = [f'127.0.0.1:{probe.getsockname()[1]}' for probe in probes]
    for probe in probes:
        probe.close()
    words = [f'--{name}={value}' for name, value in flags.items()]
    started = []
    for rank in range(2):
        task = {'type': 'worker', 'index': rank}
        cluster = json.dumps({'cluster': {'worker': addresses}, 'task': task})
        # Quiet as by default, whatever the tests are.
        environment = {'TF_CONFIG': cluster, 'TF_CPP_MIN_LOG_LEVEL': '3'}
        started.append(
            subprocess.Popen(
                [sys.executable, 'tiles_train.py', *words],
                cwd=places.ROOT,
                env={**os.environ, **environment},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return started


def _curve_kept(out):
    """The curve in the state of an unfinished training."""
    for state in out.glob('unfinished_*.npz'):
        return checkpoints.read(str(state))[1]['curve']
    return {'epoch': []}


@pytest.mark.slow
def test_two_mirrored_devices_learn_as_one(alone, tmp_path):
    root, expected = alone
    settings = {
        **_SETTINGS,
        'data_root': str(root / 'data'),
        'cache_dir': str(root / 'cache'),
        'out_dir': str(tmp_path),
        'strategy': 'mirrored',
    }
    done = subprocess.run(
        [sys.executable, '-c', _MIRRORED, json.dumps(settings)],
        cwd=places.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [model_dir] = tmp_path.glob('model_*')
    _assert_alike(finished_runs.curve_of(model_dir), expected)
