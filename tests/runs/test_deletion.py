"""Runs are deleted whole, and nothing else is."""

import gzip
import io
import json

import pytest

from baselines.core import files
from baselines.runs import deletion
from baselines.runs import finding
from baselines.runs import run_files
from tests.helpers import processes

_STARTED = {'aaaa1111': 17, 'bbbb2222': 18}


@pytest.fixture(name='folder')
def _folder(tmp_path):
    """Two runs, with their CSVs, next to a file of the user's."""
    folder = tmp_path / 'out'
    for run_hash, started in _STARTED.items():
        (folder / f'model_{run_hash}' / 'variables').mkdir(parents=True)
        (folder / f'model_{run_hash}' / 'variables' / 'variables.index').touch()
        args = {'model': 'MLP', 'results_csv': str(tmp_path / 'mine.csv')}
        info = {'args': args, 'started': started, 'training_key': f'k{started}'}
        packed = gzip.compress(json.dumps(info).encode())
        (folder / f'run_{run_hash}.jsonz').write_bytes(packed)
        (folder / f'results_{started}.csv').touch()
    (tmp_path / 'mine.csv').touch()
    return folder


_FIRST = [
    'model_aaaa1111/variables/variables.index',
    'results_17.csv',
    'run_aaaa1111.jsonz',
]


def _without_first(before):
    return [name for name in before if name not in _FIRST]


def test_a_run_goes_with_its_files_and_nothing_else(folder, capsys):
    before = processes.listing(folder)
    words = ('--out_dir', folder, '--delete', 'aaaa1', '--yes')
    assert processes.command('runs', *words) == 0
    assert {*_FIRST} <= {*before} and processes.listing(folder) == _without_first(
        before
    )
    assert not (folder / 'model_aaaa1111').exists()
    assert (folder.parent / 'mine.csv').exists()  # the user named it
    printed = capsys.readouterr().out
    assert printed.startswith(f'deleted 1 run: {folder}/model_aaaa1111, ')


@pytest.mark.parametrize('answer, is_deleted', [('y\n', True), ('\n', False)])
def test_a_terminal_is_asked(folder, capsys, monkeypatch, answer, is_deleted):
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, 'isatty', lambda: True)
    monkeypatch.setattr('sys.stdin', terminal)
    assert processes.command('runs', folder / 'model_aaaa1111', '--delete') == 0
    printed = capsys.readouterr().out
    assert f'{folder}/results_17.csv\n' in printed and 'delete 1 run? [y/N]' in printed
    assert (folder / 'model_aaaa1111').exists() != is_deleted
    assert ('nothing was deleted' in printed) != is_deleted


def test_links_are_removed_and_not_followed(folder, tmp_path):
    other = tmp_path / 'other'
    other.mkdir()
    (other / 'model_aaaa1111').symlink_to(folder / 'model_aaaa1111')
    (other / 'run_aaaa1111.jsonz').symlink_to(folder / 'run_aaaa1111.jsonz')
    kept = folder / 'model_bbbb2222'
    (kept / 'variables' / 'link').symlink_to(folder / 'model_aaaa1111')
    before = processes.listing(folder / 'model_aaaa1111')
    deletion.delete(str(other / 'model_aaaa1111'))
    deletion.delete(str(kept))
    assert not [*other.iterdir()] and not kept.exists()
    assert processes.listing(folder / 'model_aaaa1111') == before
    assert (folder / 'run_aaaa1111.jsonz').exists()


def test_a_run_of_a_training_that_is_running_stays(folder):
    with files.locked(run_files.lock_file(str(folder), 'k17'), 'taken'):
        with pytest.raises(ValueError, match='^--delete: process .* trains with the'):
            deletion.delete(str(folder / 'model_aaaa1111'))
        deletion.delete(str(folder / 'model_bbbb2222'))
    deletion.delete(str(folder / 'model_aaaa1111'))
    assert processes.listing(folder) == []


def test_the_run_that_ships_stays():
    [shipped] = finding.find(finding.PRETRAINED)
    with pytest.raises(ValueError, match='pretrained is a part of the package'):
        deletion.paths_of(shipped)


def test_a_folder_of_the_user_with_such_a_name_stays(folder, capsys):
    thesis = folder / 'model_thesis' / 'thesis.tex'
    thesis.parent.mkdir()
    thesis.touch()
    for words in (('--delete', '--yes'), ('--note', 'mine')):
        assert processes.command('runs', thesis.parent, *words) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert f'--delete: {folder}/model_thesis is no run' in first
    assert 'run_thesis.jsonz' in second
    assert [*thesis.parent.iterdir()] == [thesis]


@pytest.mark.parametrize('words', [('--json',), ('--note', 'x')])
def test_deletion_is_alone(folder, capsys, words):
    run = folder / 'model_aaaa1111'
    assert processes.command('runs', run, '--delete', '--yes', *words) == 1
    assert run.exists()
    printed = capsys.readouterr()
    assert not printed.out and 'leave out --json and --note' in printed.err


def test_a_damaged_run_is_deleted_without_its_csv(folder):
    (folder / 'run_aaaa1111.jsonz').write_bytes(b'')
    deletion.delete(str(folder / 'model_aaaa1111'))
    assert (folder / 'results_17.csv').exists()
    assert not (folder / 'run_aaaa1111.jsonz').exists()


def test_no_other_file_is_reached_by_what_a_run_file_says(folder):
    """A run file may be someone else's: `started` is a number, or names nothing."""
    info = {'args': {'model': 'MLP'}, 'started': '/../../mine', 'training_key': '../x'}
    packed = gzip.compress(json.dumps(info).encode())
    (folder / 'run_aaaa1111.jsonz').write_bytes(packed)
    assert deletion.paths_of(str(folder / 'model_aaaa1111')) == [
        str(folder / 'model_aaaa1111'),
        str(folder / 'run_aaaa1111.jsonz'),
    ]
