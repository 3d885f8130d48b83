"""The tile scripts as a user meets them: interrupted, killed, given bad input."""

import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from baselines import config
from baselines.commands import command_line
from baselines.training import runs
import tile_records
import tiny_models

pytestmark = pytest.mark.slow

_ROOT = pathlib.Path(__file__).parents[1]
_TINY = dict(model='Tiny', models_file=tiny_models.__file__)
_BAD = 'program_1_0001.npz'


def _write_splits(folder):
    for seed, split in enumerate(('train', 'valid', 'test')):
        tile_records.write_split(folder / split, tile_records.make_records(
            4, seed=seed, is_test=split == 'test'))


@pytest.fixture(name='splits', scope='module')
def _splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp('splits')
    _write_splits(folder)
    return folder


@pytest.fixture(name='data')
def _data(splits, tmp_path):
    """A copy of the splits that may be damaged."""
    shutil.copytree(splits, tmp_path / 'data')
    return tmp_path / 'data'


# --- Interrupted and killed ------------------------------------------------


def _start(script, *flags):
    environment = {**os.environ, 'PYTHONUNBUFFERED': '1'}
    environment.pop('TF_CPP_MIN_LOG_LEVEL', None)
    return subprocess.Popen(
        [sys.executable, str(_ROOT / script), *flags], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _epochs_kept(out_dir):
    """Finished epochs in the state that is kept, 0 if there is none."""
    for path in out_dir.glob('unfinished_*.npz'):
        return len(runs.Checkpoint(str(path)).read()[1]['curve']['epoch'])
    return 0


def _end(process, out_dir, signal_number, after):
    """Ends a training once `after` epochs are kept; returns its output."""
    deadline = time.monotonic() + 120
    while _epochs_kept(out_dir) < after:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, 'no epoch in two minutes'
        time.sleep(0.05)
    process.send_signal(signal_number)
    return process.communicate(timeout=60)


def _listing(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob('*')
        if path.is_file())


def test_ctrl_c_and_kill_lose_an_epoch_at_most(splits, tmp_path):
    out_dir = tmp_path / 'out'
    flags = [
        '--model=MLP', f'--data_root={splits}', f'--out_dir={out_dir}',
        f'--cache_dir={tmp_path / "cache"}', '--early_stop=100000']

    interrupted = _start('tiles_train.py', *flags, '--epochs=100000')
    _, stderr = _end(interrupted, out_dir, signal.SIGINT, after=2)
    assert interrupted.returncode == 130
    assert stderr == '\ninterrupted\n'
    assert [name[:11] for name in _listing(out_dir)] == ['unfinished_']
    first = _epochs_kept(out_dir)

    killed = _start('tiles_train.py', *flags, '--epochs=100000', '--resume')
    stdout, stderr = _end(killed, out_dir, signal.SIGKILL, after=first + 2)
    assert killed.returncode == -signal.SIGKILL and stderr == ''
    assert f'resuming after epoch {first}\n' in stdout
    second = _epochs_kept(out_dir)
    assert second <= stdout.count('val_opa') + first <= second + 1
    kept = runs.Checkpoint(str(next(out_dir.glob('unf*')))).read()[1]['curve']

    resumed = _start(
        'tiles_train.py', *flags, f'--epochs={second + 1}', '--resume')
    stdout, stderr = resumed.communicate(timeout=120)
    assert resumed.returncode == 0 and stderr == ''
    assert f'resuming after epoch {second}\n' in stdout
    assert stdout.count('val_opa') == 1
    model_dir = next(out_dir.glob('model_*'))
    with gzip.open(runs.run_file(str(model_dir))) as stream:
        curve = json.load(stream)['train_curve']
    assert curve['epoch'] == list(range(second + 1))
    assert {name: values[:second] for name, values in curve.items()} == kept
    assert not list(out_dir.glob('unfinished_*'))

    # And from the directory alone, as quietly.
    ranking = tmp_path / 'ranking.csv'
    predicted = _start(
        'tiles_gen_predictions_csv.py', f'--dir={model_dir}/',
        f'--output={ranking}', f'--cache_dir={tmp_path / "cache"}')
    _, stderr = predicted.communicate(timeout=60)
    assert predicted.returncode == 0 and stderr == ''
    assert ranking.read_text() == next(out_dir.glob('results_*')).read_text()


# --- Bad input -------------------------------------------------------------


@pytest.fixture(name='train')
def _train(tmp_path, monkeypatch):
    """Runs a training as tiles_train.py does; returns its exit code."""
    monkeypatch.delenv('TPUGRAPHS_DEBUG', raising=False)

    def train(**changes):
        settings = dict(
            _TINY, data_root=str(tmp_path / 'data'), out_dir=str(tmp_path / 'out'),
            cache_dir=str(tmp_path / 'cache'), epochs=1)

        def work():
            checked = config.checked(config.TileConfig(**{**settings, **changes}))
            from baselines.tasks import tile_training

            tile_training.train(checked)

        return command_line.guarded(work)

    return train


def _assert_refused(code, printed, *words):
    assert code == 1
    assert printed.err.startswith('error: ') and printed.err.endswith('\n')
    assert printed.err.count('\n') == 1, printed.err
    for word in words:
        assert word in printed.err


def _outputs(tmp_path):
    """What a training has written, but for finished or locked caches."""
    return [name for name in _listing(tmp_path) if not name.startswith('data/')
            and not (name.startswith('cache/') and '.building' not in name)]


def _save(path, **arrays):
    with np.load(path, allow_pickle=False) as stored:
        old = {key: stored[key] for key in stored.files}
    new = {key: value for key, value in {**old, **arrays}.items()
           if value is not None}
    np.savez(path, **new)


def _changed(key, change):
    def damage(path):
        with np.load(path, allow_pickle=False) as stored:
            array = stored[key].copy()
        _save(path, **{key: change(array)})
    return damage


def _set(key, index, value):
    def change(array):
        array[index] = value
        return array
    return _changed(key, change)


def _keep_configs(count):
    def damage(path):
        for key in (
            'config_feat', 'config_runtime', 'config_runtime_normalizers'):
            _changed(key, lambda array: array[:count])(path)
    return damage


_DAMAGES = {
    'truncated': (
        lambda path: os.truncate(path, path.stat().st_size // 2),
        'not a complete npz file'),
    'empty': (lambda path: os.truncate(path, 0), 'not a complete npz file'),
    'text': (lambda path: path.write_text('text'), 'not a complete npz file'),
    'pickled': (
        _changed('node_feat', lambda array: array.astype(object)),
        'node_feat holds pickled Python objects'),
    'missing key': (
        lambda path: _save(path, edge_index=None),
        'the array edge_index is missing'),
    'too short': (
        _changed('node_opcode', lambda array: array[1:]), 'node_opcode has shape'),
    'too few axes': (
        _changed('config_feat', lambda array: array[0]), 'config_feat has shape'),
    'wrong width': (
        _changed('node_feat', lambda array: array[:, 1:]),
        'columns of node_feat: 139, but 140'),
    'wrong type': (
        _changed('node_opcode', lambda array: array.astype(np.float32)),
        'node_opcode holds float32'),
    'NaN': (_set('node_feat', (1, 3), np.nan), 'node_feat has 1 NaN or infinite'),
    'infinite': (
        _set('config_feat', (0, 0), np.inf), 'config_feat has 1 NaN or infinite'),
    'edge outside': (_set('edge_index', (0, 0), 99), 'edge_index has 99 in row 0'),
    'negative edge': (_set('edge_index', (0, 1), -1), 'edge_index has -1 in row 0'),
    'one configuration': (_keep_configs(1), 'config_feat has only 1 configuration'),
    'no configuration': (_keep_configs(0), 'config_feat has no configuration'),
    'zero normaliser': (
        _set('config_runtime_normalizers', 2, 0),
        'config_runtime_normalizers has 0 in row 2'),
    'negative runtime': (
        _set('config_runtime', 0, -5), 'config_runtime has -5 in row 0'),
}


@pytest.mark.parametrize('damage', sorted(_DAMAGES))
def test_one_damaged_file(train, data, tmp_path, capsys, damage):
    damaging, words = _DAMAGES[damage]
    damaging(data / 'train' / _BAD)
    _assert_refused(
        train(), capsys.readouterr(), f'{data}/train/{_BAD}: ', words,
        '--skip_bad_files')
    assert _outputs(tmp_path) == []


def test_damaged_files_are_named_and_left_out_where_that_is_wanted(
    train, data, tmp_path, capsys
):
    for split in ('train', 'test'):
        os.truncate(data / split / _BAD, 100)
    assert train(skip_bad_files=True) == 0
    printed = capsys.readouterr()
    assert [line.partition(': not ')[0] for line in printed.err.splitlines()] == [
        f'warning: left out: {data}/{split}/{_BAD}' for split in ('train', 'test')]
    assert 'training on 3 kernels' in printed.out
    ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
    assert ranking.count('\n') == 1 + 3 and 'program_1_0001' not in ranking


@pytest.mark.parametrize('split', ['train', 'valid', 'test'])
def test_missing_and_empty_splits(train, data, tmp_path, capsys, split):
    for path in (data / split).iterdir():
        path.unlink()
    _assert_refused(
        train(), capsys.readouterr(), f'{data}/{split}: there is no .npz file',
        '--data_root')
    (data / split).rmdir()
    _assert_refused(
        train(), capsys.readouterr(), f'{data}/{split}: there is no such folder')
    assert _outputs(tmp_path) == []


def test_no_data_at_all(train, tmp_path, capsys):
    _assert_refused(
        train(), capsys.readouterr(), f'{tmp_path}/data/train: there is no such',
        '--sample_data')
    assert _outputs(tmp_path) == []


def test_unusable_runtimes(train, data, tmp_path, capsys):
    _assert_refused(
        train(configs=31), capsys.readouterr(),
        f'{data}/train: nothing has --configs=31 configurations', '28')
    for path in (data / 'train').iterdir():
        _changed('config_runtime', np.zeros_like)(path)
    _assert_refused(
        train(), capsys.readouterr(), f'{data}/train: all runtimes are 0')
    assert _outputs(tmp_path) == []


def test_a_loss_that_overflows(train, data, tmp_path, capsys):
    assert data.exists()
    _assert_refused(
        train(lr=1e30, batch=1), capsys.readouterr(),
        'the loss is not finite: lower --lr')
    assert _outputs(tmp_path) == []


@pytest.mark.parametrize('changes, words', [
    ({'model': 'EarlyJoinSage', 'models_file': ''},
     ["there is no model 'EarlyJoinSage'; did you mean 'EarlyJoinSAGE'?"]),
    ({'model': 'MLP'}, ["there is no model 'MLP'", 'There are: Tiny']),
    ({'models_file': '/none.py'}, ['--models_file: there is no file /none.py']),
    ({'losses': 'ListMLE:1'},
     ["there is no loss 'ListMLE'; did you mean 'ListMLELoss'?"]),
    ({'losses': 'MSE:x'}, ['--losses', "'x'"]),
    ({'model_kwargs_json': '{"start": 1'}, ['--model_kwargs_json is not JSON']),
    ({'model_kwargs_json': '[]'}, ['--model_kwargs_json should be an object']),
    ({'model_kwargs_json': '{"strat": 1}'},
     ["--model_kwargs_json: Tiny has no option 'strat'; did you mean 'start'?"]),
    ({'test_mode': 'both'}, ['--test_mode should be one of']),
    ({'test_mode': 'metrics'}, ['--test_mode=metrics', 'data/test']),
])
def test_bad_settings(train, data, tmp_path, capsys, changes, words):
    assert data.exists()
    _assert_refused(train(**changes), capsys.readouterr(), *words)
    assert _outputs(tmp_path) == []


@pytest.mark.parametrize('model, kwargs', [
    ('MLP', {'hidden_dim': 'x'}),
    ('MLP', {'hidden_dim': -1}),
    ('MLP', {'hidden_activation': 'loud'}),
    ('MLP', {'reduction': 'max'}),
    ('EarlyJoinSAGE', {'num_gnns': 'two'}),
    ('EarlyJoinSAGE', {'op_embed_dim': None}),
    ('EarlyJoinResGCN', {'num_gnns': [1]}),
    ('EarlyJoinResGCN', {'mlp_layers': -2.5}),
])
def test_keywords_of_the_wrong_kind(train, data, tmp_path, capsys, model, kwargs):
    assert data.exists()
    code = train(
        model=model, models_file='', model_kwargs_json=json.dumps(kwargs))
    _assert_refused(
        code, capsys.readouterr(), '--model_kwargs_json', model,
        str(next(iter(kwargs))))
    assert _outputs(tmp_path) == []


# --- Where nothing can be written ------------------------------------------


@contextlib.contextmanager
def _room(size):
    """Lets no file grow beyond `size` bytes, for real: writing fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize('flag, below', [
    ('out_dir', 'file/out'), ('results_csv', 'file/x.csv'),
    ('results_csv', 'folder'), ('cache_dir', 'file/cache')])
def test_a_place_that_cannot_be_written(
    train, data, tmp_path, capsys, flag, below
):
    (data / 'file').write_text('text')
    (data / 'folder').mkdir()
    _assert_refused(
        train(**{flag: str(data / below)}), capsys.readouterr(), f'--{flag}',
        str(data / below.partition('/')[0]))
    assert _outputs(tmp_path) == []
    assert (data / 'file').read_text() == 'text'


def test_a_full_disk(train, data, tmp_path, capsys):
    assert data.exists()
    with _room(10_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/cache', '--cache_dir')
    assert _outputs(tmp_path) == []
    with _room(100):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'--out_dir {tmp_path}/out cannot')
    assert _outputs(tmp_path) == []
    # Data packed, but no room for the state after an epoch.
    assert train(configs=1_000) == 1
    capsys.readouterr()
    with _room(5_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/unfinished_')
    assert _outputs(tmp_path) == []
    # Room for that, but not for the model: when there is, --resume goes on.
    with _room(25_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/')
    assert [name[:15] for name in _outputs(tmp_path)] == ['out/unfinished_']
    assert train(resume=True) == 0
    assert 'resuming after epoch 1' in capsys.readouterr().out
