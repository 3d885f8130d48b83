"""`collect` as it is called."""

import os
import re
import sys
import types

import pytest

import baselines
from lab.tests.helpers import lab_commands
from lab.tests.helpers import measured_programs
from lab.tests.helpers import program_forms
import tpugraphs_lab
from tpugraphs_lab.measure import collection


@pytest.fixture
def program(tmp_path):
    """A file with a module of one kernel."""
    module = measured_programs.pointwise(96, 128, opcode='exponential')
    return measured_programs.write(tmp_path / 'mine.pb', module)


@pytest.mark.slow
def test_collect(program, tmp_path, capsys):
    out = str(tmp_path / 'out')
    words = ['--configs', '4', '--passes', '2', '--split', 'none']
    assert lab_commands.run('collect', [program, out, *words]) == 0
    assert '1 kernel with ' in capsys.readouterr().out
    # On a busy machine it may be among the noisy ones.
    [npz] = (tmp_path / 'out').rglob('*.npz')
    assert npz.name.startswith('mine_')


@pytest.mark.parametrize(
    'words, message',
    [
        (['out'], 'say --random N, or one or more programs; and a folder'),
        (['--random', '3', 'p.pb', 'out'], 'say --random N, or one or more programs'),
        (['--random', '0', 'out'], '--random is 0; it counts programs'),
        (['p.pb', 'out', '--split', '1/2'], 'such as 80/10/10, or 0/0/100'),
        (['p.pb', 'out', '--core', '99'], '--core is 99; this process may use'),
        (['p.pb', 'out', '--passes', '-1'], '--passes is -1; it counts passes'),
        (['p.pb', 'out', '--passes', '1'], '--passes is 1; halves of them are compar'),
        (['p.pb', 'out', '--kernels', '-2'], '--kernels is -2; it counts kernels'),
        (['p.pb', 'out', '--families', 'norm'], 'of random programs: say --random N'),
        (['p.pb', 'out', '--seconds', '0'], 'more than 0 seconds'),
        (['p.pb', 'out', '--minutes', '0'], 'more than 0 minutes'),
    ],
)
def test_what_collect_refuses(words, message, capsys):
    assert lab_commands.run('collect', words) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    'failed, words, code',
    [(['f.py: ended'], ['f.py:f'], 1), ([], ['f.py:f'], 0), (['x'], ['--random=1'], 0)],
)
def test_a_program_that_cannot_be_used_is_an_exit_code(
    tmp_path, monkeypatch, failed, words, code
):
    folder = types.SimpleNamespace(failed=failed, lines=lambda: failed)
    monkeypatch.setattr(collection, 'collect', lambda *_: folder)
    assert lab_commands.run('collect', [*words, str(tmp_path / 'out')]) == code


_IMPORTS = """
import {package} as package

def inside(x):
    import jax

example_args = (package.zeros([8, 8]),)
"""


@pytest.mark.parametrize(
    'package, command',
    [
        ('jaxlib', 'pip install ./lab'),
        ('jax', f'pip install jax=={baselines.version("jaxlib")}'),
        ('tensorflow', 'pip install -e .'),
    ],
)
def test_a_missing_package_is_one_line_that_says_how_to_install_it(
    package, command, monkeypatch, capsys, tmp_path, program
):
    monkeypatch.setitem(sys.modules, package, None)
    missing = tmp_path / 'missing'  # for the processes that files of users run in
    missing.mkdir()
    why = f'raise ModuleNotFoundError("No module named {package!r}")'
    (missing / f'{package}.py').write_text(why)
    monkeypatch.setenv('PYTHONPATH', str(missing), prepend=os.pathsep)
    out, file = str(tmp_path / 'out'), tmp_path / 'mine.py'
    file.write_text(_IMPORTS.format(package=package))
    text = program_forms.write('HLO text', tmp_path)
    sources = [f'{file}:inside'] if package != 'jaxlib' else [program, text]
    for source in sources:
        printed = []
        for words in (['collect', source, out], ['rank', source, '--dir', 'estimate']):
            if source != program or words[0] != 'rank':
                assert lab_commands.run(words[0], words[1:]) == 1
                printed.append(capsys.readouterr().err)
        for line in printed:
            assert line.endswith(f'; run {command}\n') and line.count('\n') == 1
    read = text if package == 'jaxlib' else sources[0]
    if package == 'jax':  # imported where the function is traced
        (tmp_path / 'late.py').write_text(_IMPORTS.format(package='tensorflow'))
        read = f'{tmp_path}/late.py:inside'
    with pytest.raises(ValueError, match=f'; run {re.escape(command)}$'):
        tpugraphs_lab.read_program(read)
