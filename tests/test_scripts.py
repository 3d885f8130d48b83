"""Flags of the scripts and of `tpugraphs train`: --help, --config, --flagfile."""

import re

import pytest

from baselines import config
from baselines import recipes
from baselines import scripts
from baselines.core import files
from tests.helpers import refusals
from tests.helpers import settings_flags
from tpugraphs import commands

_KINDS = [config.TileConfig, config.LayoutConfig]


@pytest.fixture(name='toml')
def _toml(tmp_path):
    """Writes run.toml; returns its path."""

    def toml(words):
        path = tmp_path / 'run.toml'
        path.write_text(words, encoding='utf-8')
        return str(path)

    return toml


def test_settings_from_toml(toml):
    path = toml("""
# A comment.
model = 'MLP'
epochs = 3
lr = 1          # a whole number is a number
toy_data = true
model_kwargs_json = {num_gnns = 2}
columns = 'estimate'
""")
    changes = dict(columns='estimate', model='MLP', lr=1.0, toy_data=True, epochs=3)
    changes['model_kwargs_json'] = '{"num_gnns": 2}'
    assert settings_flags.parse(f'--config={path}') == config.TileConfig(**changes)
    assert type(settings_flags.parse('--config', path).lr) is float
    # Flags win wherever they stand, also with the value of the default.
    given = settings_flags.parse('--epochs=100', f'--config={path}', '--notoy_data')
    assert given == config.TileConfig(**{**changes, 'epochs': 100, 'toy_data': False})


def test_a_flagfile_and_a_toml_in_it(toml, tmp_path):
    (tmp_path / 'flags').write_text(f'--config={toml("lr = 0.5")}\n--batch=3\n')
    found = settings_flags.parse(f'--flagfile={tmp_path}/flags', '--seed=1')
    assert found == config.TileConfig(lr=0.5, batch=3, seed=1)


def test_a_model_with_its_file(toml):
    expected = config.TileConfig(model='Mine', models_file='a/m.py')
    assert settings_flags.parse('--model=a/m.py:Mine') == expected
    path = toml('model = "a/m.py:Mine"')
    assert settings_flags.parse(f'--config={path}') == expected
    with pytest.raises(ValueError, match='--model=a/m.py:Mine .*--models_file'):
        settings_flags.parse('--model=a/m.py:Mine', '--models_file=b.py')


def test_settings_of_toml_go_before_the_recipe(toml):
    found = settings_flags.parse('--recipe=strong', f'--config={toml("configs = 10")}')
    assert (found.configs, found.model) == (10, 'LateJoinResSAGE')
    whole = settings_flags.parse('--config=' + toml('recipe = "strong"'))
    assert whole == settings_flags.parse('--recipe=strong')


@pytest.mark.parametrize(
    'content, words',
    [
        ('epoch = 3', ("'epoch'", "'epochs'")),
        ('epochs = 3.5', ('epochs', '3.5')),
        ('lr = "fast"', ('lr', "'fast'")),
        ('model = ["MLP"]', ('model', "['MLP']")),
        ('lr 0.5', ('line 1',)),
        ('a = ' + 100_000 * '[', ()),
    ],
)
def test_bad_toml(toml, content, words):
    path = toml(content)
    parsed = lambda: settings_flags.parse(f'--config={path}')
    refusals.assert_refused(parsed, '--config', path, *words)


@pytest.mark.parametrize('kind', _KINDS)
def test_settings_written_as_toml_are_read_again(kind, toml):
    settings = kind(
        lr=1e-7, run_id='"a\'\\ b\n\u00e9', model_kwargs_json='{"a": "b"}', epochs=7
    )
    path = toml(scripts.to_toml(config.to_json(settings)))
    assert settings_flags.parse(f'--config={path}', kind=kind) == settings


def test_settings_that_repeat_a_training():
    given = config.LayoutConfig(lr=0.25, recipe='strong', resume=True, epochs=50)
    args = {**config.to_json(given), 'of_old': 1}
    args['data_root'] = files.expand(given.data_root)
    assert scripts.list_changed_settings(args) == {'lr': 0.25}


@pytest.mark.parametrize('task, kind', zip(('tile', 'layout'), _KINDS))
def test_help_is_by_theme_with_the_published_flags_first(task, kind, capsys):
    assert commands.run('train', [task, '--help-all']) == 0
    shown, errors = capsys.readouterr()
    assert errors == '' and max(map(len, shown.splitlines())) <= 80
    themes = re.split(r'^(\w[\w ]+):\n', shown, flags=re.MULTILINE)[1:]
    inside = {
        theme: re.findall(r'^  --(?:\[no\])?(\w+)', text, re.MULTILINE)
        for theme, text in zip(themes[::2], themes[1::2])
    }
    assert inside.pop('flags from files') == ['config', 'flagfile']
    assert list(inside) == ['data', 'model', 'training', 'output']
    listed = [name for names in inside.values() for name in names]
    assert sorted(listed) == sorted(config.to_json(kind()))
    for names in inside.values():
        ours = [name not in settings_flags.PUBLISHED[kind] for name in names]
        assert ours == sorted(ours), names


def test_help_of_a_sweep_shows_its_own_options(capsys):
    pytest.importorskip('optuna')
    for word, is_shown in (('--help', False), ('--help-all', True)):
        assert commands.run('sweep', ['tile', word]) == 0
        shown = capsys.readouterr().out
        assert '--trials' in shown and ('--clip_norm' in shown) is is_shown


def test_train_refuses_in_one_line(capsys):
    for flag, *words in (
        ('--epohcs=3', '--epohcs', "'epochs'"),
        ('--learning_rate=1', '--learning_rate', "'lr'"),
        ('--columns=tiel', "--columns 'tiel'", "'tile'?"),
        ('--epochs=abc', '--epochs ', "whole number, not 'abc'"),
        ('--lr=a: b=c', '--lr ', "not 'a: b=c'"),
    ):
        assert commands.run('train', ['tile', flag]) == 1
        printed, errors = capsys.readouterr()
        assert printed == '' and errors.startswith('error: ')
        assert all(word in errors for word in words) and errors.count('\n') == 1
    with pytest.raises(SystemExit, match="'MLP' .*tpugraphs train"):
        commands.run('train', ['layout', 'MLP'])


@pytest.fixture(name='next_steps')
def _next_steps(monkeypatch):
    measured = [
        recipes.Measured({'recipe': 'best'}, 0.8, 3),
        recipes.Measured({'model': 'Trees', 'recipe': ''}, 0.8, 2),
        recipes.Measured({'model': 'MLP', 'recipe': ''}, 0.7, 1),
    ]
    monkeypatch.setattr(recipes, 'MEASURED', {'tile:xla': measured})

    def next_steps(kind=config.TileConfig, model_dir='/my out/model_0', **settings):
        lines = scripts.suggest_next_steps(kind(**settings), model_dir).splitlines()
        assert lines[0][:9] == 'next:    '
        return [line[9:] for line in lines]

    return next_steps


def test_a_training_says_what_to_try_next(next_steps):
    predict = "python tiles_gen_predictions_csv.py --dir '/my out/model_0'"
    evaluate = 'tpugraphs evaluate --dir latest'
    rank = 'tpugraphs rank FILE.pb --dir latest'
    assert next_steps(sample_data=True, toy_data=True, model='MLP') == [
        *(predict, evaluate, rank),
        'tpugraphs train tile --sample_data --toy_data --model=Trees',
        '(OPA 0.80 on the test split, about 2 min of processor time)',
    ]
    # Nothing is measured of published data: the step towards the submission.
    out = " --out_dir 'my out'"
    submit = 'tpugraphs predict --dir latest'
    found = next_steps(config.LayoutConfig, source='nlp', out_dir='my out')
    assert found == [submit + out, evaluate + out, rank + out]
    # What was printed has to work: the user's own code is never found by itself.
    own = dict(model='Mine', models_file='my.py', sample_data=True, recipe='best')
    code = ' --models_file my.py'
    assert next_steps(**own) == [predict + code, evaluate + code, rank + code]


def test_without_a_validation_split_no_evaluation_is_proposed(next_steps, tmp_path):
    (tmp_path / 'train').mkdir()
    (tmp_path / 'measured.json').touch()
    found = next_steps(data_root=str(tmp_path), recipe='strong')
    assert found == ['tpugraphs rank FILE.pb --dir latest']
