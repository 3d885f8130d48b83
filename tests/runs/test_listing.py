"""Runs told apart, and listed."""

import gzip
import json
import os
import socket

import pytest

from baselines.core import files
from baselines.runs import differences
from baselines.runs import run_files
from baselines.training import checkpoints
from tests.helpers import processes
from tests.helpers import shapes


def _run(run_hash='abcdef0123', info=None, **args):
    args = {'model': 'MLP', 'configs': 10, 'seed': 0, **args}
    return run_files.RunFile(f'/out/model_{run_hash}', {'args': args, **(info or {})})


_WIDE = dict(model_kwargs_json='{"hidden_dim": 64}', columns='estimate')
_PLACES = dict(out_dir='/b', cache_dir='/c', run_id='mine', resume=True)


@pytest.mark.parametrize(
    'runs, names',
    [
        ([_run(lr=0.5)], 'MLP'),
        # The default, of a run file that does not name the rate.
        ([_run(lr=0.01), _run(seed=1)], 'MLP lr=.01 seed 0, MLP lr=.001 seed 1'),
        # Places do not tell runs apart.
        ([_run(), _run(seed=1, **_PLACES)], 'MLP seed 0, MLP seed 1'),
        ([_run(fold='1/2'), _run(fold='2/2')], 'MLP fold 1/2, MLP fold 2/2'),
        ([_run(), _run(**_WIDE)], 'MLP columns=, MLP columns=estimate hidden_dim=64'),
        ([_run('aaaabbbbcc'), _run('ccccddddee')], 'MLP aaaabbbb, MLP ccccdddd'),
        # Models are told apart by their names.
        (
            [_run(), _run(model='GAT'), _run(model='GAT', trees=True)],
            'MLP, GAT, GAT + trees',
        ),
        # Trees ignore all that is for graph models.
        (
            [_run(model='Trees', lr=0.5), _run(model='Trees', seed=1)],
            'Trees seed 0, Trees seed 1',
        ),
        # Runs of other collections are no reason for labels.
        ([_run(), _run(model='GAT', source='xla', search='random')], 'MLP, GAT'),
    ],
)
def test_labels_say_what_differs(runs, names):
    found = ', '.join(label.name for label in differences.label_runs(runs))
    assert found == names


def test_runs_that_differ_in_seed_or_fold_are_a_group():
    runs = [_run(lr=0.01), _run(lr=0.01, seed=1), _run(fold='1/2')]
    groups = [label.group for label in differences.label_runs(runs)]
    assert groups == ['MLP lr=.01', 'MLP lr=.01', 'MLP lr=.001']


def test_runs_of_a_group_are_ordered_by_seed_and_fold():
    runs = [
        _run('a', seed=10),
        _run('b', lr=0.5, seed=2),
        _run('c', seed=2),
        _run('d', lr=0.5, seed=1),
        _run('e', seed=2, fold='1/2'),
    ]
    labels = dict(zip('abcde', differences.label_runs(runs)))
    # Groups as they were named, and 2 before 10.
    assert differences.sort_labels(labels) == ['c', 'e', 'a', 'd', 'b']


def test_settings_that_a_recipe_sets_are_said_by_its_name():
    run = _run(
        model='LateJoinResSAGE', recipe='strong', columns='tile,estimate', configs=64
    )
    found = differences.find_changes(run)
    assert found['recipe'] == 'strong'
    assert not {'columns', 'configs'} & set(found)
    assert differences.find_changes(_run(lr=0.01, seed=7, fold='1/2')) == {'lr': 0.01}


@pytest.fixture(name='folder')
def _folder(tmp_path):
    files = {
        'aaaabbbbcc': {
            'args': {'model': 'MLP', 'configs': 10, 'seed': 3, 'lr': 0.01},
            'train_curve': {'epoch': [0, 1], 'val_opa': [0.7, 0.65]},
            'finished': '2024-05-06T07:08:09+00:00',
            'seconds': 90.0,
            'command': 'python tiles_train.py --lr=.01',
        },
        # As the published code writes it.
        'ccccddddee': {
            'args': {'model': 'ResModel', 'source': 'nlp', 'search': 'default'},
            'train_curve': {'epoch': [0], 'val_opa': [0.8]},
        },
    }
    for run_hash, info in files.items():
        (tmp_path / f'model_{run_hash}').mkdir()
        with gzip.open(tmp_path / f'run_{run_hash}.jsonz', 'wt') as stream:
            json.dump(info, stream)
    return tmp_path


def test_the_table(folder, capsys, monkeypatch):
    monkeypatch.setenv('TZ', 'UTC')
    assert processes.command('runs', '--out_dir', folder, '--sort', 'score') == 0
    above, _, *lines = capsys.readouterr().out.splitlines()
    assert above == f'{folder}/'
    assert lines[0].split('  ')[0] == 'when'
    layout = 'ResModel layout:nlp:default - - OPA 0.800 - model_ccccdddd'
    assert lines[2].split()[2:] == layout.split()
    tile = 'MLP tile:xla 3 lr=.01 OPA 0.700 1.5 model_aaaabbbb'
    assert lines[3].split()[2:] == tile.split()


def test_runs_of_several_folders_say_which(folder, tmp_path, capsys):
    other = tmp_path / 'other'
    other.mkdir()
    for name in ('model_ccccddddee', 'run_ccccddddee.jsonz'):
        (folder / name).rename(other / name)
    words = ('runs', '--out_dir', folder, other, folder, '--sort', 'model')
    assert processes.command(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [f'{folder}/model_aaaabbbb', f'{other}/model_ccccdddd']
    assert [line.split()[-1] for line in lines[2:]] == names


def test_the_same_as_json(folder, capsys):
    assert processes.command('runs', '--out_dir', folder, '--json') == 0
    first, _ = shapes.check_shape('runs', capsys.readouterr().out)
    assert first['path'] == f'{folder}/model_aaaabbbbcc'
    assert first['differs'] == {'lr': 0.01}
    assert first['command'] == 'python tiles_train.py --lr=.01'
    assert (first['score'], first['measure'], first['minutes']) == (0.7, 'OPA', 1.5)


@pytest.mark.parametrize(
    'command, continuing',
    [
        ('python tiles_train.py', 'python tiles_train.py --resume'),
        ('tpugraphs.train(lr=1)', 'tpugraphs.train(lr=1, resume=True)'),
        ('', '--resume'),
    ],
)
def test_an_interrupted_training_is_listed(tmp_path, capsys, command, continuing):
    described = {'curve': {'epoch': [0, 1]}, 'command': command}
    checkpoints.write_state_file(str(tmp_path / 'unfinished_0123.npz'), {}, described)
    assert processes.command('runs', '--out_dir', tmp_path) == 0
    line, errors = capsys.readouterr()
    assert f'2 epochs in {tmp_path}; ' in line and continuing in line and not errors
    assert processes.command('runs', '--out_dir', tmp_path, '--json') == 0
    assert capsys.readouterr() == ('[]\n', line)


def test_a_running_training_is_not_called_interrupted(folder, capsys):
    lock = run_files.lock_file(str(folder), '0123')
    (folder / 'unfinished_0123.npz').touch()
    assert processes.command('runs', '--out_dir', folder) == 0
    assert f'{folder}/unfinished_0123.npz: ' in capsys.readouterr().out
    with files.hold_lock(lock, 'taken'):
        assert processes.command('runs', '--out_dir', folder) == 0
    process = f'process {os.getpid()} on {socket.gethostname()}'
    assert f'{folder}: {process}' in capsys.readouterr().out


def test_no_runs(tmp_path, capsys):
    assert processes.command('runs', '--out_dir', tmp_path, '--json') == 0
    assert capsys.readouterr() == ('[]\n', '')
    assert processes.command('runs', '--out_dir', tmp_path) == 1
    assert f'{tmp_path}' in capsys.readouterr().err
