"""Copies of the user's own code in a run directory, and notes of other code."""

import hashlib
import json
import os

import pytest

from baselines.runs import code_files
from baselines.runs import run_files
from tests.helpers import refusals
import tpugraphs


@pytest.fixture(name='saved')
def _saved(tmp_path):
    """(run of a models.py and two losses files of one name, path of the models.py)."""
    model_dir = tmp_path / 'model_0'
    (tmp_path / 'other').mkdir()
    model_dir.mkdir()
    paths = [tmp_path / 'm.py', tmp_path / 'l.py', tmp_path / 'other' / 'l.py']
    for number, path in enumerate(paths):
        path.write_text(f'x = {number}\n')
    losses = f'{paths[1]}:f:1,MSE:0.02,{paths[2]}:f'
    code = code_files.read(str(paths[0]), losses)
    code_files.save(code, str(model_dir))
    info = {
        'args': {'model': 'M', 'models_file': str(paths[0])},
        'code': code_files.describe_code(code),
    }
    run = run_files.RunFile(str(model_dir), json.loads(json.dumps(info)))
    return run, str(paths[0])


def test_what_is_kept(saved):
    run, path = saved
    copies = run.info['code']['files']
    names = ['code/m.py', 'code/l.py', 'code/2_l.py']
    assert [one['copy'] for one in copies] == names
    for number, one in enumerate(copies):
        content = open(os.path.join(run.model_dir, one['copy']), 'rb').read()
        assert content == b'x = %d\n' % number
        assert one['sha256'] == hashlib.sha256(content).hexdigest()
    assert copies[0]['path'] == path and copies[0]['flag'] == 'models_file'
    assert run.info['code']['package'] == tpugraphs.__version__


def test_classes_and_files_that_are_missing_are_not_kept(tmp_path):
    assert code_files.read([int], 'MSE:1') == []
    assert code_files.read(str(tmp_path / 'none.py'), '') == []
    assert code_files.read('', '') == []


def test_notes_of_another_file(saved, tmp_path, capsys):
    run, path = saved
    copy = os.path.join(run.model_dir, 'code/m.py')

    def note(models_file):
        code_files.note_difference(run, models_file)
        return capsys.readouterr().err.strip()

    def refused(place):
        message = refusals.read_message(lambda: note(''))
        assert f'--models_file={place}' in message
        assert str(run.model_dir) in message and capsys.readouterr().err == ''

    assert note(path) == note(copy) == note([int]) == ''
    refused(path)
    with open(path, 'a') as stream:
        stream.write('y = 1\n')
    refused(copy)
    said = note(path)
    assert f'--models_file={copy}' in said


def test_notes_of_an_edited_models_py(tmp_path, monkeypatch, capsys):
    """Of the package itself, which the course's handout has people edit."""
    folder = tmp_path / 'baselines/tiles'
    folder.mkdir(parents=True)
    ours, model_dir = folder / 'models.py', tmp_path / 'model_0'
    ours.write_text('class Mine(Model):\n    pass\n')
    model_dir.mkdir()
    monkeypatch.setattr(code_files, '_ROOT', str(tmp_path))
    assert code_files.read('', 'MSE', 'Min', 'tile') == []  # of the zoo
    code = code_files.read('', 'MSE', 'Mine', 'tile')
    code_files.save(code, str(model_dir))
    info = {'args': {'model': 'Mine'}, 'code': code_files.describe_code(code)}
    run = run_files.RunFile(str(model_dir), info)
    code_files.note_difference(run, '')
    assert capsys.readouterr().err == ''
    ours.write_text('class Mine(Model):\n    x = 1\n')
    code_files.note_difference(run, '')
    said = capsys.readouterr().err
    assert f'--models_file={model_dir}/code/models.py' in said
    assert (model_dir / 'code/models.py').read_text().endswith('pass\n')


@pytest.mark.parametrize('entry', [5, {'flag': 'models_file'}, {'flag': 1}])
def test_a_damaged_list_of_files(tmp_path, entry):
    info = {'args': {'model': 'M', 'models_file': 'x'}, 'code': {'files': [entry]}}
    read = lambda: run_files.RunFile(str(tmp_path / 'model_0'), info)
    refusals.assert_refused(read, 'code.files')
