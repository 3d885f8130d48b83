"""Names of runs, and what becomes of them."""

import gzip
import json
import os

import pytest

from baselines.runs import finding
from tests.helpers.refusals import assert_refused


def make_run(folder, run_hash, age=0, info=(), **args):
    """A model directory and its run file; the larger `age`, the older."""
    model_dir = folder / f'model_{run_hash}'
    model_dir.mkdir(parents=True)
    path = folder / f'run_{run_hash}.jsonz'
    with gzip.open(path, 'wt') as stream:
        json.dump({'args': {'model': 'MLP', **args}, **dict(info)}, stream)
    os.utime(path, (1e9 - age, 1e9 - age))
    return str(model_dir)


@pytest.fixture(name='home')
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(name='runs')
def _runs(home):
    """Two tile runs and a layout run where trainings write, the second the newest."""
    tiles, layouts = home / 'out/tpugraphs_tiles', home / 'out/tpugraphs_layout'
    return [
        make_run(tiles, 'abcd0000', age=3, run_id='wide'),
        make_run(tiles, 'abcd1111', age=1, run_id='wide'),
        make_run(layouts, '12345678', age=2, run_id='deep 1'),
    ]


def _assert_not_found(name, *words):
    assert_refused(lambda: finding.find(name), *words)


@pytest.mark.parametrize(
    'name, expected',
    [
        ('latest', [1]),
        ('abcd1', [1]),
        ('model_abcd1', [1]),
        ('model_abcd0000', [0]),
        ('1234', [2]),
        ('wide', [0, 1]),
        ('deep 1', [2]),
        ('MLP', [0, 2, 1]),
        ('~/out/tpugraphs_layout/latest', [2]),
        ('out/tpugraphs_layout/', [2]),
        ('out/tpugraphs_tiles/run_abcd0000.jsonz', [0]),
        ('out/tpugraphs_tiles/model_abcd0000/', [0]),
    ],
)
def test_names(runs, name, expected):
    assert finding.find(name) == [runs[i] for i in expected]


def test_the_latest_of_a_task_is_not_the_latest_of_all(home, capsys):
    tile = make_run(home / 'out/tpugraphs_tiles', 'abcd1111', age=2)
    layout = make_run(
        home / 'out/tpugraphs_layout', '12345678', source='xla', search='random'
    )
    assert finding.find('latest') == finding.find('latest', 'layout') == [layout]
    assert capsys.readouterr().err == ''
    assert finding.find('latest', 'tile') == [tile]
    said = capsys.readouterr().err
    assert 'model_12345678' in said and 'model_abcd1111' in said
    # Other names are of a run, whatever it is of.
    assert finding.find('1234', 'tile') == [layout]
    find = lambda: finding.find('out/tpugraphs_tiles/latest', 'layout')
    assert_refused(find, f'--sample_data --out_dir={home}/out/tpugraphs_tiles')


@pytest.mark.parametrize(
    'name, wanted',
    [
        ('latest', 'out/latest'),
        ('pretrained', 'pretrained'),
        ('estimate', 'estimate'),
        ('other/latest', 'other/latest'),
        ('~/other/latest', '~/other/latest'),
    ],
)
def test_a_name_without_a_folder_is_looked_up_in_one(name, wanted):
    assert finding.prefix_folder('out', name) == wanted
    assert finding.prefix_folder('', name) == name


def test_one_run_is_wanted(runs):
    assert finding.find_one('latest') == runs[1]
    names = 'model_abcd1111 (MLP, 2001-09-09 ', 'model_abcd0000 (MLP, '
    assert_refused(lambda: finding.find_one('wide'), "'wide' names 2 runs", *names)


def test_runs_that_are_named_repeatedly_are_there_once(runs, home, capsys):
    (home / 'link').symlink_to(home / 'out/tpugraphs_tiles')
    names = ['abcd1', 'wide', 'link/model_abcd1111']
    assert finding.find_all(names) == [runs[1], runs[0]]
    said = capsys.readouterr().err
    assert said.startswith(f'note: {runs[1]} ') and ', '.join(names) in said


def test_half_runs_and_other_folders_are_no_runs(home):
    whole = make_run(home / 'out', '1111')
    (home / 'out/model_2222').mkdir()
    make_run(home / 'out', '3333')
    os.rmdir(home / 'out/model_3333')
    (home / 'out/models').mkdir()
    assert finding.find('out/MLP') == [whole]


def test_the_latest_finished_last_whenever_its_file_was_written(home):
    finished = [{'finished': f'2026-01-0{day}T00:00:00+00:00'} for day in (1, 2)]
    make_run(home / 'out', '1111', age=0, info=finished[0])  # as `cp -r` leaves it
    late = make_run(home / 'out', '2222', age=9, info=finished[1])
    assert finding.find('out/latest') == [late]


@pytest.mark.parametrize(
    'info',
    [
        {'train_curve': {'val_opa': ['0.5']}},
        {'seconds': 10**399},
        {'val_score': {'measure': 'top-5', 'value': 0.5}},
        {'val_score': {'measure': 'OPA', 'value': '0.5'}},
    ],
)
def test_a_damaged_run_is_named_and_left_out(home, capsys, info):
    whole = make_run(home / 'out', '1111', age=9)
    make_run(home / 'out', '2222', info=info)
    for name in ('out/latest', 'out/MLP'):
        assert finding.find(name) == [whole]
        assert f'{home}/out/run_2222.jsonz ' in capsys.readouterr().err
    # Asked for by its hash, it is what there is.
    assert finding.find('out/2222') == [str(home / 'out/model_2222')]


def test_a_date_that_no_calendar_has_is_that_of_the_file(home):
    far = '9999-12-31T23:59:59-23:00'
    make_run(home / 'out', '1111', age=9, info={'finished': far})
    young = make_run(home / 'out', '2222')
    assert finding.find('out/latest') == [young]


def test_a_folder_of_several_runs_is_ambiguous(runs, home):
    folder = home / 'out/tpugraphs_tiles'
    _assert_not_found(str(folder), f"'{folder}' names 2 runs", f"'{folder}/latest'")


def test_an_unknown_name_says_which_there_are(runs, home):
    words = f'{home}/out/tpugraphs_tiles', "'none'", 'model_abcd1111 (MLP, '
    _assert_not_found('none', '--dir', *words)
    # Three characters are too few for a hash prefix.
    _assert_not_found('abc', "'abc'")


def test_a_renamed_model_directory_says_its_name(home):
    os.rename(make_run(home, '1234abcd'), home / 'mine')
    make_run(home, '5678')
    (home / 'mine/trees.txt').touch()
    wanted = 'model_1234abcd', 'run_1234abcd.jsonz'
    _assert_not_found('mine', f'{home}/mine', *wanted)
    os.remove(home / 'run_1234abcd.jsonz')
    _assert_not_found('mine', f'{home}/mine', 'model_<hash>')


def test_where_there_is_no_run_it_says_how_to_train(home):
    (home / 'empty').mkdir()
    for name in ('latest', 'wide'):
        folder = f'{home}/out/tpugraphs_tiles'
        _assert_not_found(name, folder, 'tpugraphs train tile --sample_data')
    for name in ('empty', 'empty/latest', 'none/latest'):
        folder = f'{home}/{name.partition("/")[0]}'
        _assert_not_found(name, f'train tile --sample_data --out_dir={folder}')
    _assert_not_found('none/model_1', '--dir', f'{home}/none/model_1')
