"""`tpugraphs lab`, and lines of the toolkit that name its commands."""

import json
import re
import sys

import pytest

from lab.tests.helpers import lab_commands
from lab.tests.helpers import measured_programs
from lab.tests.helpers import program_forms
from tests.helpers import hlo_modules
from tests.helpers import settings_flags
from tpugraphs import commands
from tpugraphs.commands import __main__ as main
import tpugraphs_lab.commands

_NAMES = ['collect', 'rank', 'show']
_PACKAGE = tpugraphs_lab.commands.__name__


@pytest.mark.parametrize('words', [['lab'], ['lab', '--help']])
def test_its_commands_are_listed(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['tpugraphs', *words])
    main.main()
    listed = capsys.readouterr().out
    assert re.findall(r'^  (\w+)  +[A-Z]', listed, re.M) == _NAMES


@pytest.mark.parametrize('name', _NAMES)
def test_numbers_have_an_upper_bound(name, capsys):
    settings_flags.check_upper_bounds(commands.make_parser(name, _PACKAGE), capsys)


def test_it_is_listed_by_the_toolkit(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['tpugraphs', '--help'])
    assert main.main() == 0
    assert re.search(r'^  lab +\w', capsys.readouterr().out, re.M)


@pytest.mark.parametrize('name', _NAMES)
def test_option_texts_have_one_form(name):
    for action in commands.make_parser(name, _PACKAGE)._actions:
        if action.option_strings and action.default != '==SUPPRESS==':
            assert settings_flags.is_option_text(action.help), action.option_strings


@pytest.mark.parametrize(
    'words, wanted',
    [
        ('collect f.py:step out', 'collect'),
        ('rank f.py:step', 'rank f.py:step'),
        ('rank f.hlo', 'rank f.hlo'),
        ('rank f.pb --measure 3', 'rank'),
        ('rank f.pb --batch_size 3', 'rank'),
        ('show f.hlo', 'show f.hlo'),
        ('show f.hlo --seconds 9', 'show'),
    ],
)
def test_commands_of_earlier_versions(words, wanted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'f.hlo').write_text(program_forms.HLO)
    monkeypatch.setattr(sys, 'argv', ['tpugraphs', *words.split()])
    try:
        code = main.main()
    except SystemExit as end:
        code = end.code
    [line] = capsys.readouterr().err.splitlines()
    line = line.replace(f'{tmp_path}/', '')
    assert code and f'`tpugraphs lab {wanted}' in line and './lab' not in line


def test_a_program_as_json(tmp_path, capsys):
    path = measured_programs.write(tmp_path / 'a.pb', program_forms.fused())
    drawn = tmp_path / 'a.png'
    assert lab_commands.run('show', [path, '--json', '--plot', drawn]) == 0
    captured = capsys.readouterr()
    assert captured.err == f'drawn: {drawn}\n'
    shown = json.loads(captured.out)
    assert shown['modules'][0]['configurations'] is None
    assert shown['program']['origin'] == 'as the module has them'
    assert shown['program']['multiply_adds'] == 64 * 96 * 128


def test_of_a_program_no_module_is_chosen(tmp_path, capsys):
    path = measured_programs.write(tmp_path / 'a.pb', measured_programs.pointwise(8))
    assert lab_commands.run('show', [path, '--module', '1']) == 1
    assert '--module' in capsys.readouterr().err


def test_raw_files_are_shown_as_by_the_toolkit(tmp_path, capsys):
    (tmp_path / 'a.pb').write_bytes(hlo_modules.tile_file(hlo_modules.good_tile()))
    printed = []
    for run in (commands.run, lab_commands.run):
        assert run('show', [str(tmp_path / 'a.pb')]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    'content, run',
    [
        (program_forms.fused('').SerializeToString(), 'pretrained'),
        (program_forms.OPTIMISED.encode(), 'estimate'),  # layouts have tiles of a TPU
        (hlo_modules.good_layout().SerializeToString(), 'estimate'),
    ],
)
def test_the_run_that_ranks_by_default(content, run, tmp_path, capsys):
    (tmp_path / 'a').write_bytes(content)
    assert lab_commands.run('rank', [tmp_path / 'a', '--json']) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f'note: {run}: ')
    assert run in json.loads(captured.out)['model']


def test_text_that_xla_refuses_is_read_before_a_model(tmp_path, capsys):
    for name in 'ab':
        (tmp_path / name).write_text('HloModule m\nENTRY')
    paths = [tmp_path / name for name in 'ab']
    assert lab_commands.run('rank', [*paths, '--dir', 'nowhere']) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert str(paths[0]) in line and '1 other' in line
