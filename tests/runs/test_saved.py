"""What a training leaves behind: both parts or none, and read without trust."""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import uuid

import numpy as np
import pytest
import tensorflow as tf

from baselines.core import files
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import saved
from baselines.runs import weights
from baselines.training import checkpoints
from tests.helpers import disks
from tests.helpers import refusals

_INFO = {
    'args': {'model': 'Tiny', 'model_kwargs_json': '{}', 'configs': 10},
    'train_curve': {'epoch': [0], 'val_opa': [None]},
}


class _Tiny(tf.keras.Model):
    """Two variables: [3, width] and [width]."""

    def __init__(self, width=2):
        super().__init__()
        self.dense = tf.keras.layers.Dense(width)

    def call(self, x):
        return self.dense(x)


def _model(width=2, start=0.0):
    model = _Tiny(width)
    model(tf.zeros([1, 3]))
    for i, variable in enumerate(model.variables):
        values = np.arange(np.prod(variable.shape)) + 10 * i + start
        variable.assign(values.reshape(variable.shape))
    return model


def _tree(folder):
    """Relative path -> content of every file, hidden ones as well."""
    folder = pathlib.Path(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob('*')
        if path.is_file()
    }


def _message(error_type, function, *args):
    return refusals.read_message(lambda: function(*args), error_type)


def _load_message(run):
    """Why a run cannot be loaded."""
    return _message(ValueError, finding.load, str(run[0]))


def _weights_message(run, model=None):
    """Why the weights of a run cannot be read."""
    loaded = finding.load(str(run[0]))
    return _message(ValueError, weights.read_weights, loaded, model or _model())


def _without_digest(info):
    return {key: value for key, value in info.items() if key != 'digest'}


@pytest.fixture(name='model_dir', scope='module')
def _saved(tmp_path_factory):
    """A saved run; copied by those who change it."""
    folder = str(tmp_path_factory.mktemp('out'))
    return saved.save_run(folder, 'abc', _INFO, _model()).model_dir


@pytest.fixture(name='run')
def _run(model_dir, tmp_path):
    """A copy of the saved run: (model directory, run file), both paths."""
    subprocess.run(
        ['cp', '-r', f'{os.path.dirname(model_dir)}/.', str(tmp_path)], check=True
    )
    return tmp_path / 'model_abc', tmp_path / 'run_abc.jsonz'


def test_a_run_is_a_pair(model_dir):
    out_dir, name = os.path.split(model_dir)
    assert name == 'model_abc'
    assert sorted(os.listdir(out_dir)) == ['model_abc', 'run_abc.jsonz']
    with gzip.open(os.path.join(out_dir, 'run_abc.jsonz')) as stream:
        assert _without_digest(json.loads(stream.read())) == _INFO
    assert run_files.run_file(model_dir) == os.path.join(out_dir, 'run_abc.jsonz')
    # Others may read it, as they may what `mkdir` makes.
    assert os.stat(model_dir).st_mode & 0o777 == 0o755
    # A Keras SavedModel, as the course's script loads it.
    loaded, x = tf.keras.models.load_model(model_dir), tf.ones([1, 3])
    np.testing.assert_array_equal(loaded(x), _model()(x))


def test_load_and_read_weights(model_dir, monkeypatch):
    monkeypatch.setenv('HOME', os.path.dirname(model_dir))
    run = finding.load('~/model_abc/')
    assert run.model_dir == model_dir
    assert _without_digest(run.info) == _INFO and run.args == _INFO['args']
    model = _model(start=100)
    weights.read_weights(run, model)
    for ours, stored in zip(model.variables, _model().variables):
        np.testing.assert_array_equal(ours, stored)


def test_a_run_is_never_overwritten(run):
    before = _tree(run[0].parent)
    with pytest.raises(FileExistsError):
        saved.save_run(str(run[0].parent), 'abc', {**_INFO, 'new': 1}, _model(5))
    assert _tree(run[0].parent) == before
    assert len(os.listdir(run[0].parent)) == 2


def test_nan_never_goes_into_json(tmp_path):
    info = {'a': [float('nan')]}
    message = _message(ValueError, saved.save_run, str(tmp_path), 'x', info, _model())
    assert 'JSON' in message and os.listdir(tmp_path) == []


@pytest.mark.parametrize('room, part', [(10_000, ''), (500_000, '/run_x.jsonz')])
def test_no_room_leaves_nothing(tmp_path, room, part):
    noise = np.random.default_rng(0).bytes(1_000_000).hex()
    info = {**_INFO, 'noise': noise}
    with disks.room(room):
        message = _message(OSError, saved.save_run, str(tmp_path), 'x', info, _model())
    assert f'{tmp_path}{part}' in message
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    'failing, name, error',
    [
        (_Tiny, 'save', PermissionError(13, 'No')),
        (gzip.GzipFile, 'write', PermissionError(13, 'No')),
        (os, 'rename', KeyboardInterrupt),
    ],
)
def test_interrupted_while_saving_leaves_nothing(
    tmp_path, monkeypatch, failing, name, error
):
    model = _model()

    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr(failing, name, interrupted)
    with pytest.raises((KeyboardInterrupt, OSError)):
        saved.save_run(str(tmp_path), 'x', _INFO, model)
    assert os.listdir(tmp_path) == []


def test_check_writable_leaves_no_file(tmp_path):
    files.check_writable(str(tmp_path / 'a' / 'b'))
    assert _tree(tmp_path) == {}
    with disks.room(100):
        assert str(tmp_path) in _message(
            ValueError, files.check_writable, str(tmp_path)
        )
    assert _tree(tmp_path) == {}


def test_load_what_is_no_run(tmp_path, run):
    missing = tmp_path / 'model_none'
    message = _message(ValueError, finding.load, str(missing))
    assert "'model_none'" in message and str(tmp_path) in message
    missing.mkdir()
    message = _message(ValueError, finding.load, str(missing))
    assert f'{tmp_path}/run_none.jsonz' in message
    run[1].rename(tmp_path / 'run_other.jsonz')
    assert f'the run file {run[1]} is missing; it belongs next' in _load_message(run)


def _gzipped(text):
    # Without a time, so that every process gives the tests one name.
    return gzip.compress(text if isinstance(text, bytes) else text.encode(), mtime=0)


@pytest.mark.parametrize(
    'content',
    [
        b'text',
        *map(_gzipped, (b'\xff\xfe{}', '[' * 100_000, '[1, 2]', '{"args": ["model"]}')),
        # A number that takes minutes to read.
        _gzipped('{"args": {"model": "M"}, "n": ' + '9' * 10**6 + '}'),
    ],
    ids=len,
)
def test_load_a_damaged_run_file(run, content):
    run[1].write_bytes(content)
    message = _load_message(run)
    assert f'{run[1]}' in message and len(message) < 1_000


@pytest.mark.parametrize(
    'key, value', [('model_kwargs_json', {'num_gnns': 2}), ('configs', 0)]
)
def test_load_arguments_that_cannot_be(run, key, value):
    run[1].write_bytes(_gzipped(json.dumps({'args': {'model': 'MLP', key: value}})))
    message = _load_message(run)
    assert str(run[1]) in message and f'args.{key}' in message


@pytest.mark.parametrize(
    'name, value',
    [
        *(('member_weights', x) for x in (0.5, [0.5], [0.5, 2], ['0.5', 1])),
        *(('most_multiply_adds', x) for x in (-1, '5', True, float('nan'))),
    ],
)
def test_values_that_cannot_be(name, value):
    with pytest.raises(ValueError, match=name):
        run_files.RunFile('model_1', {'args': {'model': 'M'}, name: value})


def _lower_limits(monkeypatch, **limits):
    monkeypatch.setattr(run_files, 'LIMITS', {**run_files.LIMITS, **limits})


def test_a_run_file_that_unpacks_without_end(run, monkeypatch):
    _lower_limits(monkeypatch, size=1_000)
    run[1].write_bytes(_gzipped(json.dumps(_INFO) + ' ' * 500))
    assert finding.load(str(run[0])).info == _INFO
    run[1].write_bytes(_gzipped(json.dumps(_INFO) + ' ' * 100_000))
    message = _load_message(run)
    assert ' 1000 bytes' in message


@pytest.mark.parametrize('piece', ['{},', '"",'])
def test_a_run_file_of_too_many_values(run, piece, monkeypatch):
    _lower_limits(monkeypatch, containers=100, values=100)
    run[1].write_bytes(_gzipped('{"args": [' + 200 * piece + '0]}'))
    message = _load_message(run)
    assert f'{run[1]} ' in message and 'values' in message


def test_a_pipe_in_place_of_a_file(run):
    for path in (run[0] / 'variables/variables.index', run[1]):
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert f'{path}: not a regular file' in _load_message(run)
        path.unlink()
        path.write_bytes(content)


@pytest.mark.parametrize('width', [2, 4])
def test_weights_of_another_run(run, width):
    saved.save_run(str(run[0].parent), 'def', _INFO, _model(width, start=3))
    shutil.rmtree(run[0])
    shutil.copytree(run[0].parent / 'model_def', run[0])
    message = _weights_message(run)
    assert f'{run[1]} ' in message and f'{run[0]}' in message


def test_settings_that_were_changed(run):
    whole = finding.load(str(run[0])).info
    for change in (
        {'normalizer': {'node_max': [2.0]}},
        {'args': {**whole['args'], 'configs': 11}},
        {'pad': -1},
    ):
        run[1].write_bytes(_gzipped(json.dumps({**whole, **change})))
        assert f'{run[1]} ' in _weights_message(run)
    # Where its data were is no setting: people move them.
    moved = {**whole, 'args': {**whole['args'], 'data_root': '/elsewhere'}}
    run[1].write_bytes(_gzipped(json.dumps(moved)))
    weights.read_weights(finding.load(str(run[0])), _model())


def test_runs_without_digest_or_of_another_tensorflow_load_with_a_note(run, capsys):
    info = {**_INFO, 'versions': {'tensorflow': '1.4.2'}}
    run[1].write_bytes(_gzipped(json.dumps(info)))
    weights.read_weights(finding.load(str(run[0])), _model())
    notes = capsys.readouterr().err.splitlines()
    assert notes[0].startswith(f'note: {run[0]} was trained with TensorFlow 1.4.2; ')
    assert notes[1].startswith(f'note: {run[0]}: its run file has no digest')
    run[1].write_bytes(_gzipped(json.dumps({**_INFO, 'versions': ['x']})))
    weights.read_weights(finding.load(str(run[0])), _model())


def test_what_a_killed_training_left_is_removed(tmp_path):
    run_hash, end = uuid.uuid4().hex, '.abcd1234'
    ours = [
        f'.run_{run_hash}.jsonz{end}',
        f'.unfinished_0123456789abcdef.npz{end}',
        f'.results_1700000000000_xla_random.csv{end}',
        '.unfinished_0123456789abcdef.lock',
    ]
    others = ['.model_registry', '.run_this', '.unfinished_business', 'model_x']
    for name in [*ours, *others]:
        (tmp_path / name).write_text('x')
    (tmp_path / f'.model_{run_hash}{end}' / 'variables').mkdir(parents=True)
    saved.remove_leftovers(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_a_run_that_is_being_saved_is_no_leftover(tmp_path, monkeypatch):
    model = _model()
    save = model.save

    def cleaned(*args, **kwargs):
        save(*args, **kwargs)
        saved.remove_leftovers(str(tmp_path))

    monkeypatch.setattr(model, 'save', cleaned)
    new = saved.save_run(str(tmp_path), uuid.uuid4().hex, _INFO, model)
    weights.read_weights(finding.load(new.model_dir), _model())


@pytest.mark.parametrize(
    'layers, words',
    [([4], ('[3, 2]', '[3, 4]', '--models_file')), ([2, 1], (' 2 variables', ' 4'))],
)
def test_weights_of_another_model(run, layers, words):
    model = tf.keras.Sequential([tf.keras.layers.Dense(units) for units in layers])
    model(tf.zeros([1, 3]))
    message = _weights_message(run, model)
    assert message.startswith(f'{run[0]} ') and all(word in message for word in words)


def test_a_damaged_checkpoint(run):
    os.truncate(run[0] / 'variables/variables.data-00000-of-00001', 9)
    assert _weights_message(run).startswith(f'{run[0]}: ')


_ARRAYS = {'now_0000': np.arange(3.0), 'now_0001': np.array(7, np.int64)}
_STATE = {'curve': {'epoch': [0, 1]}, 'best_epoch': 1}


def test_a_state_is_read_as_it_was_written(tmp_path):
    path = str(tmp_path / 'unfinished.npz')
    assert checkpoints.read_state(path) is None
    checkpoints.write_state_file(path, {}, {})
    checkpoints.write_state_file(path, _ARRAYS, _STATE)
    arrays, described = checkpoints.read_state(path)
    assert described == _STATE and set(arrays) == set(_ARRAYS)
    for key, value in _ARRAYS.items():
        assert arrays[key].dtype == value.dtype
        np.testing.assert_array_equal(arrays[key], value)
    # It is replaced whole or not at all.
    with disks.room(2_000), pytest.raises(OSError, match='unfinished.npz'):
        checkpoints.write_state_file(path, {'big': np.zeros(10_000)}, {})
    assert checkpoints.read_state(path)[1] == _STATE
    assert os.listdir(tmp_path) == ['unfinished.npz']


def test_what_is_written_is_read_of_too_many_configurations(
    tmp_path, monkeypatch, capsys
):
    _lower_limits(monkeypatch, size=2_000)
    info = {**_INFO, 'test_predictions': {'g': list(range(1_000))}}
    run = saved.save_run(str(tmp_path), 'abc', info, _model())
    said = capsys.readouterr().out
    assert 'test_predictions' in said and ' 2000 bytes' in said
    read = finding.load(run.model_dir)
    assert read.info == run.info
    assert read.info['test_predictions'] == {}
    weights.read_weights(read, _model())


def test_other_values_are_too_many_to_be_written(tmp_path, monkeypatch):
    _lower_limits(monkeypatch, values=100)
    info = {**_INFO, 'noise': [0] * 200}
    assert _message(ValueError, saved.save_run, str(tmp_path), 'x', info, _model())
    assert os.listdir(tmp_path) == []
