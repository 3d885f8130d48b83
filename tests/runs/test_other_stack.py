"""A run trained with one TensorFlow ranks the same with another.

TPUGRAPHS_OTHER_PYTHON is the Python of an environment with the other one, such as
.venv312/bin/python; `.ci/run` sets it where it has two.
"""

import os
import subprocess
import sys

import pytest

from tests.helpers import finished_runs
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tile_records

_OTHER = os.environ.get('TPUGRAPHS_OTHER_PYTHON', '')

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _OTHER, reason='TPUGRAPHS_OTHER_PYTHON names no Python to compare with'
    ),
]


def _run(python, *arguments):
    # Each Python chooses its own Keras.
    environment = {k: v for k, v in os.environ.items() if k != 'TF_USE_LEGACY_KERAS'}
    done = subprocess.run(
        [python, *map(str, arguments)],
        cwd=places.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _version(python):
    code = 'import baselines, tensorflow as tf; print(tf.__version__)'
    return _run(python, '-c', code)


@pytest.fixture(name='data', scope='module')
def _data(tmp_path_factory):
    root = tmp_path_factory.mktemp('two_stacks')
    tile_records.write_splits(root / 'tile', 10)
    layout_runs.write_splits(root / 'layout' / 'xla' / 'random')
    return root


_TRAININGS = {
    'tile': ('tiles_train.py', '--model=EarlyJoinSAGE', '--epochs=2', '--batch=5'),
    'layout': ('layout_train.py', '--model=ResModel', '--epochs=1', '--batch=2'),
}


@pytest.mark.parametrize('trained_by', ['this', 'other'])
@pytest.mark.parametrize('kind', _TRAININGS)
def test_the_ranking_is_the_same(data, tmp_path, kind, trained_by):
    this, other = sys.executable, _OTHER
    if _version(this) == _version(other):
        pytest.skip('both are the same TensorFlow')
    _run(
        this if trained_by == 'this' else other,
        *_TRAININGS[kind],
        f'--data_root={data / kind}',
        f'--cache_dir={tmp_path / "cache"}',
        f'--out_dir={tmp_path / "out"}',
    )
    [model_dir] = (tmp_path / 'out').glob('model_*')
    ours, theirs = (
        _ranking(python, model_dir, data / kind, tmp_path / f'{number}.csv')
        for number, python in enumerate([this, other])
    )
    assert len(ours) == {'tile': 10, 'layout': 4}[kind]  # of valid
    assert ours == theirs


def _ranking(python, model_dir, data, output):
    _run(
        python,
        *('-m', 'tpugraphs', 'predict', f'--dir={model_dir}'),
        *(f'--data_root={data}', f'--cache_dir={output}.cache'),
        *('--split=valid', f'--output={output}'),
    )
    return finished_runs.read_ranking(output)
