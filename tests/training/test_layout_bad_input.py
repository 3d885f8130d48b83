"""Bad input to a layout training: one line that names it, nothing half-written."""

import json
import shutil

import numpy as np
import pytest

from baselines import command_line
from baselines import config
from tests.helpers import bad_input
from tests.helpers import damages
from tests.helpers import layout_runs

pytestmark = pytest.mark.slow

_BAD = 'program_1.npz'
_SPLIT = 'data/xla/random'


@pytest.fixture(name='splits', scope='module')
def _splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp('splits')
    layout_runs.write_splits(folder)
    return folder


@pytest.fixture(name='data')
def _data(splits, tmp_path):
    """A copy of the splits that may be damaged."""
    shutil.copytree(splits, tmp_path / _SPLIT)
    return tmp_path / _SPLIT


@pytest.fixture(name='train')
def _train(tmp_path):
    """Runs a training as layout_train.py does; returns its exit code."""

    def train(**changes):
        def work():
            settings = layout_runs.settings(
                tmp_path, **{**layout_runs.TINY, 'epochs': 1, **changes}
            )
            from baselines.training import jobs

            jobs.train(config.checked(settings))

        return command_line.guarded(work)

    return train


def _keep_configs(count):
    def damage(path):
        for key in ('node_config_feat', 'config_runtime'):
            damages.changed(key, lambda array: array[:count])(path)

    return damage


def _no_configurable_node(path):
    damages.changed('node_config_ids', lambda array: array[:0])(path)
    damages.changed('node_config_feat', lambda array: array[:, :0])(path)


_ALLOWED = 'allowed are whole numbers from -1 to 127'
_DAMAGES = {
    **damages.COMMON,
    'configurable node outside': (
        damages.entry('node_config_ids', 1, 12),
        'node_config_ids has 12 in row 1',
    ),
    'negative configurable node': (
        damages.entry('node_config_ids', 1, -1),
        'node_config_ids has -1 in row 1',
    ),
    'configurable node twice': (
        damages.changed('node_config_ids', lambda array: array[[0, 1, 2, 0]]),
        'a node is configured once',
    ),
    'no configurable node': (
        _no_configurable_node,
        'node_config_ids is empty: without a configurable',
    ),
    'value above': (
        damages.entry('node_config_feat', (3, 2, 5), 128),
        f'node_config_feat has 128.0 in configuration 3, configurable node 2, '
        f'column 5; {_ALLOWED}',
    ),
    'value below': (damages.entry('node_config_feat', (0, 0, 0), -2), _ALLOWED),
    'fraction': (damages.entry('node_config_feat', (0, 0, 0), 0.5), _ALLOWED),
    'NaN value': (damages.entry('node_config_feat', (0, 0, 0), np.nan), _ALLOWED),
    'one configuration': (_keep_configs(1), 'config_runtime has only 1 configuration'),
    'no configuration': (_keep_configs(0), 'config_runtime has no configuration'),
    'fewer runtimes': (
        damages.changed('config_runtime', lambda array: array[1:]),
        'node_config_feat has shape (40, 4, 18), expected (39, 4, 18)',
    ),
    'fewer columns': (
        damages.changed('node_config_feat', lambda array: array[..., 1:]),
        'node_config_feat has shape (40, 4, 17), expected (40, 4, 18)',
    ),
    'pickled configurations': (
        damages.changed('node_config_feat', lambda array: array.astype(object)),
        'node_config_feat holds pickled Python objects',
    ),
    'a runtime of 0': (
        damages.entry('config_runtime', 4, 0),
        'config_runtime is 0 for 1 of 40 configurations',
    ),
    'splits that end early': (
        damages.entry('node_splits', (0, 2), 11),
        'node_splits is [0, 6, 11]',
    ),
}


@pytest.mark.parametrize('damage', sorted(_DAMAGES))
def test_one_damaged_file(refused, data, damage):
    damaging, words = _DAMAGES[damage]
    damaging(data / 'train' / _BAD)
    refused(f'{data}/train/{_BAD}: ', words, '--skip_bad_files')


class TestLayouts(bad_input.Suite):
    bad, kept, ranked, overflow = _BAD, 'training on 5 programs', 1, 1e38


def test_no_data_of_this_collection(refused, data, tmp_path):
    for changes, folder in (
        ({'source': 'nlp'}, 'nlp/random'),
        ({'search': 'default'}, 'xla/default'),
    ):
        refused(
            f'{tmp_path}/data/{folder}/train: there is no such',
            '--sample_data',
            **changes,
        )
    assert data.exists() and damages.outputs(tmp_path) == []


def test_splits_of_different_width(refused, data):
    shutil.rmtree(data)
    layout_runs.write_splits(data, node_features=141)
    refused(
        f'{data}/valid: node_feat has 141 columns, but 140 in what is in {data}/train'
    )


def test_runtimes_that_are_not_published(refused, data):
    damages.changed('config_runtime', np.zeros_like)(data / 'train' / _BAD)
    refused('program_1: skewed sampling needs runtimes')
    for path in (data / 'train').iterdir():
        damages.changed('config_runtime', np.zeros_like)(path)
    refused(f'{data}/train: all runtimes are 0')


@pytest.mark.parametrize(
    'changes, words',
    [
        (
            {'model': 'ResModle', 'models_file': ''},
            ["there is no layout model 'ResModle'; did you mean 'ResModel'?"],
        ),
        ({'model': 'Resm'}, ["there is no layout model 'Resm'", ', Tiny']),
        (
            {'model': 'EarlyJoinSAGE', 'models_file': ''},
            [
                "there is no layout model 'EarlyJoinSAGE'",
                'There are: ChebNet, GAT, GCN',
            ],
        ),
        ({'test_mode': 'metrics'}, ['--test_mode=metrics', f'{_SPLIT}/test']),
        ({'source': 'tpu'}, ["--source should be one of xla, nlp, not 'tpu'"]),
        ({'search': 'genetic'}, ['--search should be one of random, default']),
        ({'sampling': 'fast'}, ['--sampling should be one of skewed, uniform']),
        ({'memory_budget': 1}, ['--memory_budget should be at least 16, not 1']),
        ({'keep_nodes': 0}, ['--keep_nodes should be at least 1, or -1, not 0']),
        ({'max_configs': 1}, ['--max_configs should be at least 2, or -1, not 1']),
        (
            {'configs': 41},
            [f'{_SPLIT}/train: nothing has --configs=41 configurations to draw'],
        ),
    ],
)
def test_bad_settings(refused, data, changes, words):
    assert data.exists()
    refused(*words, **changes)


@pytest.mark.parametrize(
    'kwargs',
    [
        {'hidden_dim': 'x'},
        {'hidden_dim': 0},
        {'num_gnns': 'two'},
        {'num_gnns': -1},
        {'mlp_layers': 0},
        {'mlp_layers': 1.5},
        {'op_embed_dim': None},
        {'hidden_activation': 'loud'},
        {'dropout': 'none'},
        {'adj_normalization': 'row'},
    ],
)
def test_keywords_of_the_wrong_kind(train, data, tmp_path, capsys, kwargs):
    assert data.exists()
    code = train(model='ResModel', models_file='', model_kwargs_json=json.dumps(kwargs))
    damages.assert_refused(
        code, capsys.readouterr(), '--model_kwargs_json', 'ResModel', next(iter(kwargs))
    )
    assert damages.outputs(tmp_path) == []
