"""Models and losses, listed from Python and by commands."""

import pytest

from baselines.core import registry
from baselines.training import losses
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import shapes
import tpugraphs


@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_models(task, capsys):
    found = tpugraphs.models(task)
    published = {'tile': 'EarlyJoinSAGE', 'layout': 'ResModel'}[task]
    assert {published, 'Trees'} <= set(found) and 'ResGCN' not in found
    assert found['Trees'] == 'Gradient-boosted trees over named columns.'
    assert all(line.endswith('.') for line in found.values())
    assert processes.command('models', task) == 0
    assert capsys.readouterr().out.rstrip('\n') == repr(found)
    line = '<td>Trees</td><td>Gradient-boosted trees over named columns.</td>'
    assert line in found._repr_html_()


def test_models_of_all_tasks(capsys):
    assert processes.command('models') == 0
    tables = f'tile\n{tpugraphs.models()}\n\nlayout\n{tpugraphs.models("layout")}\n'
    assert capsys.readouterr().out == tables
    assert processes.command('models', 'layout', '--json') == 0
    found = shapes.check_shape('models', capsys.readouterr().out)
    assert found == {'layout': tpugraphs.models('layout')}
    refusals.assert_refused(lambda: tpugraphs.models('tiles'), "'tile'?")
    columns = tpugraphs.api.catalogue.columns()
    assert list(columns) == ['tile', 'estimate']
    assert processes.command('models', '--columns') == 0
    assert capsys.readouterr().out.rstrip('\n') == repr(columns)


def test_losses(capsys):
    found = tpugraphs.losses()
    assert set(found) - {'tfr.<class>'} == set(losses.LOSSES)
    assert found['MSE'] == 'Averages (score - label)^2.'
    assert processes.command('losses') == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'MSE                   Averages (score - label)^2.' in lines
    assert processes.command('losses', '--json') == 0
    assert shapes.check_shape('losses', capsys.readouterr().out) == found


@pytest.mark.parametrize(
    'name, choices, meant',
    [
        ('GAT', registry.find_models('tiles'), 'AttentionSAGE'),
        ('lightgbm', ['MLP', 'Trees'], 'Trees'),
        ('XGBoost', ['MLP'], None),
    ],
)
def test_names_of_models_elsewhere(name, choices, meant):
    wanted = f'; did you mean {meant!r}?' if meant else ''
    assert registry.suggest_nearest(name, choices) == wanted
