"""Bad input to a training: one line that names it, and nothing half-written."""

import json
import os
import shutil

import numpy as np
import pytest

from baselines import config
from baselines.commands import command_line
from baselines.data import records
import disks
import tile_records
import tiny_models

pytestmark = pytest.mark.slow

_TINY = dict(model='Tiny', models_file=tiny_models.__file__)
_BAD = 'program_1_0001.npz'


@pytest.fixture(name='splits', scope='module')
def _splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp('splits')
    tile_records.write_splits(folder)
    return folder


@pytest.fixture(name='data')
def _data(splits, tmp_path):
    """A copy of the splits that may be damaged."""
    shutil.copytree(splits, tmp_path / 'data')
    return tmp_path / 'data'


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
    names = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob('*')
        if path.is_file())
    return [name for name in names if not name.startswith('data/')
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
    with disks.room(10_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/cache', '--cache_dir')
    assert _outputs(tmp_path) == []
    with disks.room(100):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'--out_dir {tmp_path}/out cannot')
    assert _outputs(tmp_path) == []
    # Data packed, but no room for the state after an epoch.
    assert train(configs=1_000) == 1
    capsys.readouterr()
    with disks.room(5_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/unfinished_')
    assert _outputs(tmp_path) == []
    # Room for that, but not for the model: when there is, --resume goes on.
    with disks.room(25_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/')
    assert [name[:15] for name in _outputs(tmp_path)] == ['out/unfinished_']
    assert train(resume=True) == 0
    assert 'resuming after epoch 1' in capsys.readouterr().out


def test_a_kernel_that_finds_no_room(tmp_path, capsys):
    # pytest turns what a garbage collector complains about into a failure.
    record = tile_records.make_record(
        np.random.default_rng(0), 'k', nodes=60, configs=300)
    path = tmp_path / 'k.npz'
    with disks.room(3_000):
        code = command_line.guarded(lambda: records.write_tile(str(path), record))
    _assert_refused(code, capsys.readouterr(), str(path))
    assert _outputs(tmp_path) == []
