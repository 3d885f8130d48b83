"""Tuning with a model, from end to end in miniature."""

import json

import pytest

from tests.helpers import made_runs
from tests.helpers import measured_programs
from tpugraphs import commands
from tpugraphs.measure import machine
from tpugraphs.measure import scorers

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


@pytest.fixture
def program(tmp_path):
    return measured_programs.write(tmp_path / 'mine.pb', measured_programs.product())


@pytest.mark.slow
@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_a_model_proposes_and_the_clock_disposes(task, program, tmp_path, capsys):
    make = {'tile': made_runs.make_tile_run, 'layout': made_runs.make_layout_run}
    model_dir, found = str(make[task](tmp_path)), tmp_path / 'found.json'
    words = [program, '--dir', model_dir, '--json', str(found), '--task', task]
    words += ['--output', str(tmp_path / 'tuned'), '--measure', '4']
    assert commands.run('tune', [*words, '--candidates', '16']) == 0
    [kernel] = json.loads(found.read_text())['kernels']
    # Layouts are bred: four generations of four, of which the default is one.
    assert kernel['candidates'] == 16 and kernel['measured'] == 4
    other = 'layout' if task == 'tile' else 'tile'
    words[words.index(task)] = other
    assert commands.run('tune', words) == 1
    assert f'a model of {task}s; give one of {other}s' in capsys.readouterr().err


def test_a_model_of_other_hardware_is_a_warning():
    here = machine.describe(-1)['cpu']
    assert scorers.other_hardware('m', here, 'cpu') == ''
    assert scorers.other_hardware('m', 'gpu', 'gpu') == ''
    told = scorers.other_hardware('m', 'Other CPU', 'cpu')
    assert told.startswith(f'warning: m is for Other CPU, and this is {here}; what ')
    assert 'm does not say what for' in scorers.other_hardware('m', '', 'cpu')


@pytest.mark.parametrize(
    'names, told',
    [
        (None, 'mine: node_feat has 140 columns, but 303 in what the model was'),
        (['mine'] * 303, "mine: feature_names: column 0 is 'is_root', but 'mine'"),
    ],
)
def test_a_model_of_other_columns_is_refused(names, told, program, tmp_path, capsys):
    model_dir = str(made_runs.make_tile_run(tmp_path, extra=True, feature_names=names))
    output = str(tmp_path / 'tuned')
    words = [program, '--dir', model_dir, '--output', output, '--candidates', '4']
    assert commands.run('tune', words) == 1
    warning, line = capsys.readouterr().err.splitlines()
    assert warning.startswith(f'warning: {model_dir} does not say what for')
    assert line.startswith(f'error: {told}')
