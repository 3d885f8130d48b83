"""One training on several devices and processes learns what one device learns."""

import json
import socket

import numpy as np
import pytest

from tests.faults import calls
from tests.helpers import finished_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = pytest.mark.slow

# A model whose scores of a kernel do not depend on the others of its batch.
_SETTINGS = dict(
    model='MLP',
    batch=4,
    epochs=4,
    early_stop=100000,
    weight_decay=0.1,
    averaging='ema:0.5',
)


@pytest.fixture(scope='module')
def alone(tmp_path_factory, weights_alone):
    """Where the data are, and the curve of one device."""
    root = tmp_path_factory.mktemp('strategy')
    tile_records.write_splits(root / 'data', 12)
    model_dir, _ = tile_runs.train(root, **_SETTINGS)
    return root, finished_runs.read_curve(model_dir)


def _words(root, out_dir, **settings):
    """The command line of a training."""
    folders = dict(data_root=root / 'data', cache_dir=root / 'cache', out_dir=out_dir)
    flags = {**_SETTINGS, **folders, **settings}
    return ['tiles_train.py', *(f'--{name}={flags[name]}' for name in flags)]


def _assert_alike(curve, expected):
    """Sums of replicas are added in another order than those of one device."""
    for name in expected:
        # 12 steps, in which Adam divides by gradients that are next to nothing; and
        # a pair of nearly equal scores may change sides.
        limits = {'atol': 2e-3} if name.endswith('opa') else {'rtol': 1e-4}
        np.testing.assert_allclose(curve[name], expected[name], **limits)


def test_two_workers_learn_as_one_until_one_is_killed(alone, tmp_path):
    root, expected = alone
    words = _words(root, tmp_path / 'out', strategy='workers', epochs=100000)
    probes = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    addresses = [f'127.0.0.1:{probe.getsockname()[1]}' for probe in probes]
    for probe in probes:
        probe.close()
    tasks = [{'type': 'worker', 'index': rank} for rank in range(2)]
    chief, other = (
        calls.Call(
            tmp_path,
            words,
            *(calls.set_variable, 'TF_CONFIG'),
            json.dumps({'cluster': {'worker': addresses}, 'task': task}),
        )
        for task in tasks
    )
    processes.wait_for_epochs(chief, tmp_path / 'out', _SETTINGS['epochs'])
    other.process.kill()
    other.done()
    code, _, error = chief.done()
    assert code == 1 and error.count('\n') == 1
    assert error.startswith('error: --strategy=workers: ') and '--resume' in error
    # What is kept, for --resume, is as if one device had been alone.
    curve = processes.read_kept_curve(tmp_path / 'out')
    first = {name: values[: _SETTINGS['epochs']] for name, values in curve.items()}
    _assert_alike(first, expected)


def test_two_mirrored_devices_learn_as_one(alone, tmp_path):
    root, expected = alone
    words = _words(root, tmp_path / 'out', strategy='mirrored')
    done = calls.run(tmp_path, words, calls.two_devices)
    assert done.code == 0, done
    [model_dir] = (tmp_path / 'out').glob('model_*')
    _assert_alike(finished_runs.read_curve(model_dir), expected)
