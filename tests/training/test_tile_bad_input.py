"""Bad input to a training: one line that names it, and nothing half-written."""

import json
import shutil

import numpy as np
import pytest

from baselines import command_line
from baselines import config
from tests.helpers import bad_input
from tests.helpers import damages
from tests.helpers import disks
from tests.helpers import tile_records
from tests.helpers import tiny_models

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
def _train(tmp_path):
    """Runs a training as tiles_train.py does; returns its exit code."""

    def train(**changes):
        settings = dict(
            _TINY,
            data_root=str(tmp_path / 'data'),
            out_dir=str(tmp_path / 'out'),
            cache_dir=str(tmp_path / 'cache'),
            epochs=1,
        )

        def work():
            checked = config.checked(config.TileConfig(**{**settings, **changes}))
            from baselines.training import jobs

            jobs.train(checked)

        return command_line.guarded(work)

    return train


def _keep_configs(count):
    def damage(path):
        for key in ('config_feat', 'config_runtime', 'config_runtime_normalizers'):
            damages.changed(key, lambda array: array[:count])(path)

    return damage


_DAMAGES = {
    **damages.COMMON,
    'too few axes': (
        damages.changed('config_feat', lambda array: array[0]),
        'config_feat has shape',
    ),
    'infinite': (
        damages.entry('config_feat', (0, 0), np.inf),
        'config_feat has 1 NaN or infinite',
    ),
    'one configuration': (_keep_configs(1), 'config_feat has only 1 configuration'),
    'no configuration': (_keep_configs(0), 'config_feat has no configuration'),
    'zero normaliser': (
        damages.entry('config_runtime_normalizers', 2, 0),
        'config_runtime_normalizers has 0 in row 2',
    ),
}


@pytest.mark.parametrize('damage', sorted(_DAMAGES))
def test_one_damaged_file(refused, data, damage):
    damaging, words = _DAMAGES[damage]
    damaging(data / 'train' / _BAD)
    refused(f'{data}/train/{_BAD}: ', words, '--skip_bad_files')


class TestTiles(bad_input.Suite):
    bad, kept, ranked, overflow = _BAD, 'training on 3 kernels', 3, 1e30


def test_no_data_at_all(refused, tmp_path):
    refused(f'{tmp_path}/data/train: there is no such', '--sample_data')


def test_unusable_runtimes(refused, data):
    refused(f'{data}/train: nothing has --configs=31 configurations', '28', configs=31)
    for path in (data / 'train').iterdir():
        damages.changed('config_runtime', np.zeros_like)(path)
    refused(f'{data}/train: all runtimes are 0')


@pytest.mark.parametrize(
    'changes, words',
    [
        (
            {'model': 'EarlyJoinSage', 'models_file': ''},
            ["there is no model 'EarlyJoinSage'; did you mean 'EarlyJoinSAGE'?"],
        ),
        ({'model': 'ML'}, ["there is no model 'ML'; did you mean 'MLP'?", ', Tiny']),
        ({'models_file': '/none.py'}, ['--models_file: there is no file /none.py']),
        (
            {'losses': 'ListMLE:1'},
            ["there is no loss 'ListMLE'; did you mean 'ListMLELoss'?"],
        ),
        ({'losses': 'MSE:x'}, ['--losses', "'x'"]),
        ({'model_kwargs_json': '{"start": 1'}, ['--model_kwargs_json is not JSON']),
        ({'model_kwargs_json': '[]'}, ['--model_kwargs_json should be an object']),
        (
            {'model_kwargs_json': '{"strat": 1}'},
            ["--model_kwargs_json: Tiny has no option 'strat'; did you mean 'start'?"],
        ),
        (
            {'model': 'HybridSAGE', 'models_file': ''},
            ['the model HybridSAGE was removed', 'with --model=LateJoinResSAGE'],
        ),
        ({'averaging': 'ema'}, ['--averaging should be empty, ema:<decay>', "'ema'"]),
        ({'test_mode': 'both'}, ['--test_mode should be one of']),
        ({'test_mode': 'metrics'}, ['--test_mode=metrics', 'data/test']),
    ],
)
def test_bad_settings(refused, data, changes, words):
    assert data.exists()
    refused(*words, **changes)


@pytest.mark.parametrize(
    'model, kwargs',
    [
        ('MLP', {'hidden_dim': 'x'}),
        ('MLP', {'hidden_dim': -1}),
        ('MLP', {'hidden_activation': 'loud'}),
        ('MLP', {'reduction': 'max'}),
        ('EarlyJoinSAGE', {'num_gnns': 'two'}),
        ('EarlyJoinSAGE', {'op_embed_dim': None}),
        ('EarlyJoinResGCN', {'num_gnns': [1]}),
        ('EarlyJoinResGCN', {'mlp_layers': -2.5}),
        ('ChebSAGE', {'node_gnns': -1}),
        ('ChebSAGE', {'dropout': 1}),
        ('ChebSAGE', {'order': 0}),
        ('AttentionSAGE', {'heads': 5}),
        ('ConfigAttentionSAGE', {'log_scales': [0.1, 0]}),
    ],
)
def test_keywords_of_the_wrong_kind(train, data, tmp_path, capsys, model, kwargs):
    assert data.exists()
    code = train(model=model, models_file='', model_kwargs_json=json.dumps(kwargs))
    damages.assert_refused(
        code, capsys.readouterr(), '--model_kwargs_json', model, str(next(iter(kwargs)))
    )
    assert damages.outputs(tmp_path) == []


def test_a_full_disk(train, data, tmp_path, capsys):
    assert data.exists()
    with disks.room(10_000):
        code = train()
    damages.assert_refused(
        code, capsys.readouterr(), f'{tmp_path}/cache', '--cache_dir'
    )
    assert damages.outputs(tmp_path) == []
    with disks.room(100):
        code = train()
    damages.assert_refused(
        code, capsys.readouterr(), f'--out_dir {tmp_path}/out cannot'
    )
    assert damages.outputs(tmp_path) == []
    # Data packed, but no room for the state after an epoch.
    assert train(configs=1_000) == 1
    capsys.readouterr()
    with disks.room(5_000):
        code = train()
    damages.assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/unfinished_')
    assert damages.outputs(tmp_path) == []
    # Room for that, but not for the model: when there is, --resume goes on.
    with disks.room(25_000):
        code = train()
    damages.assert_refused(code, capsys.readouterr(), f'{tmp_path}/out/')
    assert [name[:15] for name in damages.outputs(tmp_path)] == ['out/unfinished_']
    assert train(resume=True) == 0
    assert 'resuming after epoch 1' in capsys.readouterr().out


def test_a_kernel_that_finds_no_room(tmp_path, capsys):
    # pytest turns what a garbage collector complains about into a failure.
    record = tile_records.make_record(
        np.random.default_rng(0), 'k', nodes=60, configs=300
    )
    path = tmp_path / 'k.npz'
    with disks.room(3_000):
        code = command_line.guarded(lambda: record.write(str(path)))
    damages.assert_refused(code, capsys.readouterr(), str(path))
    assert damages.outputs(tmp_path) == []
