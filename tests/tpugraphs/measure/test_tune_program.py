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
def test_a_model_proposes_and_the_clock_disposes(program, tmp_path, capsys):
    model_dir, found = str(made_runs.make_tile_run(tmp_path)), tmp_path / 'found.json'
    words = [program, '--dir', model_dir, '--json', str(found), '--measure', '4']
    assert commands.run('tune', [*words, '--candidates', '16']) == 0
    [kernel] = json.loads(found.read_text())['kernels']
    assert kernel['candidates'] == 16 and kernel['measured'] == 4
    lines = capsys.readouterr().out.splitlines()
    origin = f'chosen by the model {model_dir} and times'
    assert (
        f'configurations: up to 16 drawn at random for each kernel, {origin}' in lines
    )
    words[2] = str(made_runs.make_layout_run(tmp_path))
    assert commands.run('tune', words) == 1
    assert f'{words[2]}: a model of layouts; give one' in capsys.readouterr().err


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
