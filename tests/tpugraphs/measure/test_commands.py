"""`collect` and `tune` as they are called."""

import json
import os

import numpy as np
import pytest

from tests.helpers import measured_programs
import tpugraphs
from tpugraphs import commands
from tpugraphs.programs import extras


@pytest.fixture
def program(tmp_path):
    """A file with a module of one kernel."""
    module = measured_programs.pointwise(96, 128, opcode='exponential')
    return measured_programs.write(tmp_path / 'mine.pb', module)


@pytest.mark.slow
def test_collect_and_tune(program, tmp_path, capsys):
    pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    out = str(tmp_path / 'out')
    words = ['--configs', '4', '--passes', '2', '--split', 'none']
    assert commands.run('collect', [program, out, *words]) == 0
    assert '1 kernels or programs with ' in capsys.readouterr().out
    # On a busy machine it may be among the noisy ones.
    [npz] = (tmp_path / 'out').rglob('*.npz')
    assert npz.name.startswith('mine_')

    found = str(tmp_path / 'found.json')
    words = ['--measure', '2', '--candidates', '8', '--json', found]
    assert commands.run('tune', [program, '--output', out + '2', *words]) == 0
    [kernel] = json.load(open(found))['kernels']
    wanted = 'name claimed speedup low high default_ns best_ns measured candidates '
    wanted += 'config null tried recorded dropped places share in_program'
    assert set(wanted.split()) <= set(kernel)
    # What was collected is not measured again.
    with open(os.path.join(out, 'measured.json')) as stream:
        [collected] = json.load(stream)['kernels'].values()
    recorded = len(collected['configs']) - 1
    assert kernel['recorded'] == recorded
    assert kernel['measured'] == max(2, recorded) and kernel['candidates'] >= 8
    for kind in ('default', 'best'):
        assert os.path.exists(f'{out}2/kernels/{kernel["name"]}.{kind}.pb')
    assert kernel['claimed'] or kernel['speedup'] == 1
    told = capsys.readouterr().out
    assert 'configurations: up to 8 drawn at random' in told
    assert f'written: {out}2, for tpugraphs.load_program' in told
    x = np.linspace(0, 1, 96 * 128, dtype=np.float32).reshape(96, 128)
    [result] = tpugraphs.load_program(out + '2')(x)
    np.testing.assert_allclose(result, np.exp(x), rtol=1e-5)


@pytest.mark.parametrize(
    'words, message',
    [
        (['out'], 'say --random N, or one or more programs; and a folder'),
        (['--random', '3', 'p.pb', 'out'], 'say --random N, or one or more programs'),
        (['--builtin', 'out'], 'there are no built-in programs; use --random N'),
        (['--random', '0', 'out'], '--random is 0; it counts programs'),
        (['p.pb', 'out', '--split', '1/2'], 'such as 80/10/10, not'),
        (['p.pb', 'out', '--core', '99'], '--core is 99; this process may use'),
        (['p.pb', 'out', '--passes', '-1'], '--passes is -1; it counts passes'),
        (['p.pb', 'out', '--passes', '1'], '--passes is 1; halves of them are compar'),
        (['p.pb', 'out', '--kernels', '-2'], '--kernels is -2; it counts kernels'),
        (['p.pb', 'out', '--seconds', '0'], 'more than 0 seconds'),
    ],
)
def test_what_collect_refuses(words, message, capsys):
    if not message.startswith(('say', 'there are', 'such as')):
        pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    assert commands.run('collect', words) == 1
    assert message in capsys.readouterr().err


def test_without_the_extra_there_is_one_line(monkeypatch, capsys, program):
    def missing(name):
        raise extras.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras.importlib.metadata, 'version', missing)
    for words in (['collect', program, 'out'], ['tune', program]):
        assert commands.run(words[0], words[1:]) == 1
        told = capsys.readouterr().err
        assert told == (
            'error: measuring needs jaxlib, which is not installed; run '
            'pip install -e .[measure]\n'
        )
