"""Bad input to a training: one line that names it, and nothing half-written.

What is wrong inside a file is tested by `tests/data/test_records.py`.
"""

import functools
import json
import os
import shutil
import types

import numpy as np
import pytest

from baselines import command_line
from baselines import config
from tests.helpers import disks
from tests.helpers import layout_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = pytest.mark.slow


# What differs between the trainings of the two tasks.
_KINDS = {
    'tile': types.SimpleNamespace(
        runs=tile_runs,
        write=tile_records.write_splits,
        splits='data',
        bad='program_1_0001.npz',  # in every split
        kept='training on 3 kernels',
        ranked=3,
        overflow=1e30,  # a learning rate at which losses are not finite
    ),
    'layout': types.SimpleNamespace(
        runs=layout_runs,
        write=layout_runs.write_splits,
        splits='data/xla/random',
        bad='program_1.npz',
        kept='training on 5 programs',
        ranked=1,
        overflow=1e38,
    ),
}
_of_tiles = pytest.mark.parametrize('kind', ['tile'], indirect=True, scope='module')
_of_layouts = pytest.mark.parametrize('kind', ['layout'], indirect=True, scope='module')


def _assert_refused(code, printed, *words):
    """Checks for exit code 1 and one line on stderr that has all the words."""
    assert code == 1
    assert printed.err.startswith('error: ') and printed.err.endswith('\n')
    assert printed.err.count('\n') == 1, printed.err
    for word in words:
        assert word in printed.err


def _outputs(folder):
    """Returns what a training wrote, but for finished or locked caches."""
    names = processes.listing(folder)
    kept = ('data/', 'cache/')
    return [n for n in names if n.startswith('cache/.') or not n.startswith(kept)]


def _hide_runtimes(path):
    """Makes all runtimes of a file 0, as in a published test file."""
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **{**arrays, 'config_runtime': 0 * arrays['config_runtime']})


@pytest.fixture(name='kind', scope='module', params=_KINDS)
def _kind(request):
    return _KINDS[request.param]


@pytest.fixture(name='splits', scope='module')
def _splits(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp('splits')
    kind.write(folder)
    return folder


@pytest.fixture(name='data')
def _data(kind, splits, tmp_path):
    """A copy of the splits that may be damaged."""
    shutil.copytree(splits, tmp_path / kind.splits)
    return tmp_path / kind.splits


@pytest.fixture(name='train')
def _train(kind, tmp_path):
    """Runs a training as the script does; returns its exit code.

    What trains to the end is quick with `TINY`; what does not, without.
    """

    def train(**changes):
        def work():
            settings = kind.runs.settings(tmp_path, **{'epochs': 1, **changes})
            from baselines.training import jobs

            jobs.train(config.checked(settings))

        return command_line.guarded(work)

    return train


@pytest.fixture(name='refused')
def _refused(train, tmp_path, capsys):
    """Trains; checks for one line with all the words, and for no output."""

    def call(*words, **changes):
        _assert_refused(train(**changes), capsys.readouterr(), *words)
        assert _outputs(tmp_path) == []

    return call


def test_damaged_files_are_named_and_left_out_where_that_is_wanted(
    kind, train, refused, data, tmp_path, capsys
):
    for split in ('train', 'test'):
        os.truncate(data / split / kind.bad, 100)
    damaged = f'{data}/train/{kind.bad}: not a complete npz file'
    refused(damaged, '--skip_bad_files')
    assert train(skip_bad_files=True, **kind.runs.TINY) == 0
    printed = capsys.readouterr()
    assert [line.partition(': not ')[0] for line in printed.err.splitlines()] == [
        f'warning: left out: {data}/{split}/{kind.bad}' for split in ('train', 'test')
    ]
    assert kind.kept in printed.out
    ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
    assert ranking.count('\n') == 1 + kind.ranked
    assert kind.bad[: -len('.npz')] not in ranking


@_of_layouts
def test_no_data_of_this_collection(refused, data, tmp_path):
    assert data.exists()
    there = f'{tmp_path}/data/nlp/default/train: there is no such folder'
    what_to_do = ('--data_root', 'tpugraphs download --collection', '--sample_data')
    refused(there, *what_to_do, source='nlp', search='default')
    # A folder of splits, of another collection than the flags choose.
    folder = tmp_path / 'data' / 'xla' / 'random'
    assert (folder / 'train').is_dir()
    refused(
        f'{folder}/xla/default/train: there is no such folder; {folder} is of '
        'layout:xla:random: pass --source=xla --search=random',
        search='default',
        data_root=str(folder),
    )


@_of_layouts
def test_splits_of_different_width(refused, data):
    shutil.rmtree(data)
    layout_runs.write_splits(data, node_features=141)
    refused(
        f'{data}/valid: node_feat has 141 columns, but 140 in what is in {data}/train'
    )


def test_unusable_runtimes(kind, refused, data):
    most, wanted = (28, 31) if kind.runs is tile_runs else (39, 41)
    few = f'{data}/train: nothing has --configs={wanted} configurations'
    refused(few, str(most) if kind.runs is tile_runs else '', configs=wanted)
    if kind.runs is layout_runs:
        _hide_runtimes(data / 'train' / kind.bad)
        refused('program_1: skewed sampling needs runtimes', **kind.runs.TINY)
    _hide_runtimes(data / 'valid' / kind.bad)
    name = kind.bad[: -len('.npz')]
    refused(f'{data}/valid: {name} has a runtime of 0', 'leave its file out')
    for path in (data / 'train').iterdir():
        _hide_runtimes(path)
    refused(f'{data}/train: all runtimes are 0')


@_of_tiles
def test_a_validation_split_without_runtimes_is_noted(train, data, capsys):
    for path in (data / 'valid').iterdir():
        _hide_runtimes(path)
    assert train(**tile_runs.TINY) == 0
    noted = capsys.readouterr().err
    assert noted == f'note: {data}/valid: all runtimes are 0; there is no validation\n'


def test_a_collection_of_too_few_to_divide(
    kind, train, refused, data, tmp_path, capsys
):
    for split in ('valid', 'test'):
        shutil.rmtree(data / split)
    refused(f'{data}/valid: there is no such folder; its parent has only train')
    (tmp_path / 'data/measured.json').write_text('{}')  # as `collect` writes it
    assert train(**kind.runs.TINY) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(f'note: {data}/train: ')
    assert printed.err.count('\n') == 1 and 'nothing is validated' in printed.err
    assert 'validating on' not in printed.out and 'val:' not in printed.out
    ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
    assert ranking.count('\n') == 1 + len([*(data / 'train').iterdir()])


def test_a_loss_that_overflows(kind, refused, data):
    assert data.exists()
    changes = dict(kind.runs.TINY, lr=kind.overflow, batch=1)
    refused('the loss is not finite: lower --lr', **changes)


@_of_tiles
@pytest.mark.parametrize(
    'flag, below',
    [
        ('out_dir', 'file/out'),
        ('results_csv', 'file/x.csv'),
        ('results_csv', 'folder'),
        ('cache_dir', 'file/cache'),
    ],
)
def test_a_place_that_cannot_be_written(refused, data, flag, below):
    (data / 'file').write_text('text')
    (data / 'folder').mkdir()
    place = str(data / below.partition('/')[0])
    refused(f'--{flag}', place, **{flag: str(data / below)})
    assert (data / 'file').read_text() == 'text'


_SETTINGS = [
    (
        'tile',
        {**tile_runs.TINY, 'model': 'ML'},
        ["there is no model 'ML'; did you mean 'MLP'?", ', Tiny'],
    ),
    (
        'tile',
        {**tile_runs.TINY, 'model_kwargs_json': '{"strat": 1}'},
        ["--model_kwargs_json: Tiny has no option 'strat'; did you mean 'start'?"],
    ),
    (
        'tile',
        {'test_mode': 'metrics'},
        ['--test_mode=metrics: all runtimes in', 'use --test_mode=predictions'],
    ),
    (
        'layout',
        {'model': 'EarlyJoinSAGE'},
        [
            "there is no layout model 'EarlyJoinSAGE'",
            'There are: ChebNet, ChebSAGE, GAT',
        ],
    ),
]


@pytest.mark.parametrize(
    'kind, changes, words', _SETTINGS, indirect=['kind'], scope='module'
)
def test_bad_settings(refused, data, changes, words):
    assert data.exists()
    refused(*words, **changes)


@pytest.mark.parametrize(
    'kind, model, kwargs',
    [
        ('tile', 'MLP', {'hidden_dim': 'x'}),
        ('tile', 'MLP', {'reduction': 'max'}),
        ('tile', 'EarlyJoinSAGE', {'op_embed_dim': None}),
        ('tile', 'EarlyJoinResGCN', {'mlp_layers': -2.5}),
        ('tile', 'ChebSAGE', {'order': 0}),
        ('tile', 'AttentionSAGE', {'heads': 5}),
        ('tile', 'ConfigAttentionSAGE', {'log_scales': [0.1, 0]}),
        ('layout', 'ResModel', {'num_gnns': -1}),
    ],
    indirect=['kind'],
    scope='module',
)
def test_keywords_of_the_wrong_kind(refused, data, model, kwargs):
    assert data.exists()
    words = ('--model_kwargs_json', model, next(iter(kwargs)))
    refused(*words, model=model, model_kwargs_json=json.dumps(kwargs))


@_of_tiles
def test_a_full_disk(kind, train, data, tmp_path, capsys):
    assert data.exists()
    train = functools.partial(train, **kind.runs.TINY)
    with disks.room(10_000):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'{tmp_path}/cache', '--cache_dir')
    assert _outputs(tmp_path) == []
    with disks.room(100):
        code = train()
    _assert_refused(code, capsys.readouterr(), f'--out_dir {tmp_path}/out cannot')
    assert _outputs(tmp_path) == []
    # Data packed, but no space for the state after an epoch.
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


def test_a_record_that_finds_no_room(tmp_path, capsys):
    # pytest turns what a garbage collector complains about into a failure.
    record = tile_records.make_record(
        np.random.default_rng(0), 'k', nodes=60, configs=300
    )
    path = tmp_path / 'k.npz'
    with disks.room(3_000):
        code = command_line.guarded(lambda: record.write(str(path)))
    _assert_refused(code, capsys.readouterr(), str(path))
    assert _outputs(tmp_path) == []
