"""Tuning with a model, from end to end in miniature."""

import json

import pytest

from baselines import commands
from baselines.measuring import building
from tests.helpers import made_runs

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


@pytest.fixture
def program(tmp_path):
    """A product and a reshape: one kernel, two nodes with layouts."""
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [64, 128]))
    y = entry.parameter(building.shape_of('f32', [128, 96]))
    dot = entry.add('dot', building.shape_of('f32', [64, 96]), [x, y])
    dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    dot.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    split = entry.add('reshape', building.shape_of('f32', [8, 8, 96]), [dot])
    entry.add('exponential', split.shape, [split])
    path = tmp_path / 'mine.pb'
    path.write_bytes(module.finish(entry).SerializeToString())
    return str(path)


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
