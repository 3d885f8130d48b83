"""Settings: the published flags, their checks, JSON, and the hash of a run."""

import dataclasses
import json
import math
import xml.etree.ElementTree as ElementTree

from absl import flags
import pytest

from baselines import config
from baselines import recipes
from baselines import scripts
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.scoring import prediction
from baselines.training import losses
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import settings_flags

_BOTH = list(settings_flags.PUBLISHED.items())
_NAMES = [(kind, field.name) for kind, _ in _BOTH for field in dataclasses.fields(kind)]
# What may differ between a run and the one that resumes it, of what is published.
_NOT_SHAPING = {'cache_dir', 'out_dir', 'results_csv', 'test_mode', 'epochs'}
_NOT_SHAPING |= {'early_stop', 'eval_every', 'data_root'}


@pytest.mark.parametrize('kind, published', _BOTH)
def test_the_published_flags_and_ours_are_defined(kind, published):
    values = flags.FlagValues()
    scripts.define_flags(kind, values=values)
    defined = {name: _as_text(values[name].default) for name in values}
    assert defined.pop('config') == ''
    assert published.items() <= defined.items()
    ours = config.to_json(kind())
    assert defined == {name: _as_text(value) for name, value in ours.items()}


def _as_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_prediction_script_has_the_published_flags():
    done = processes.python('tiles_gen_predictions_csv.py', '--helpxml')
    defaults = {
        flag.findtext('name'): flag.findtext('default')
        for flag in ElementTree.fromstring(done.stdout).iter('flag')
        if flag.findtext('key') == 'yes'
    }
    assert {'dir', 'dirs', 'data_root', 'models_file'} <= set(defaults)
    assert defaults['output'] == 'predictions_output_model.csv'
    assert defaults['cache_dir'] == config.TileConfig().cache_dir
    assert 'epochs' not in defaults


@pytest.mark.parametrize(
    'kind, setting, value, limit',
    [
        (config.TileConfig, 'configs', 1, '2'),
        (config.TileConfig, 'lr', math.nan, '0'),
        (config.TileConfig, 'schedule', 'step', 'constant, cosine'),
        (config.LayoutConfig, 'source', 'xla,tpu', 'xla, nlp'),
    ],
)
def test_values_out_of_range(kind, setting, value, limit):
    settings = kind(**{setting: value})
    words = f'--{setting} ', limit, text.quoted(value)
    refusals.assert_refused(lambda: config.check_config(settings), *words)


@pytest.mark.parametrize(
    'module, name',
    [
        ('baselines.config', 'TileConfig'),
        ('baselines.config', 'LayoutConfig'),
        ('baselines.trees.growing', 'TreeOptions'),
        ('tpugraphs.sweep.trials', 'SweepOptions'),
    ],
)
def test_numbers_have_an_upper_bound(module, name):
    kind = getattr(pytest.importorskip(module, exc_type=ImportError), name)
    numbers = [f for f in dataclasses.fields(kind) if type(f.default) in (int, float)]
    assert len(numbers) > 1
    for field in numbers:
        settings = kind(**{field.name: type(field.default)(10**20)})
        refuse = lambda settings=settings: settings_lib.check_ranges(settings, '--')
        refusals.assert_refused(refuse, f'--{field.name} ', 'at most')


@pytest.mark.parametrize('kind', [config.LayoutConfig, prediction.Options])
def test_a_folder_and_the_data_that_ship_exclude_each_other(kind):
    check = lambda: config.check_config(kind(data_root='d', sample_data=True))
    refusals.assert_refused(check, '--sample_data', '--data_root=d')


def test_values_at_the_edge():
    for settings in (
        config.TileConfig(configs=2, lr=1e-9, warmup=1.0, validate_batches=-1),
        config.LayoutConfig(max_configs=2, source='nlp,xla', search='default,random'),
        config.LayoutConfig(max_configs=-1, sample_data=True),
    ):
        assert config.check_config(settings) is settings


@pytest.mark.parametrize('kwargs', ['{num_gnns: 2}', '', '[1]'])
def test_bad_model_kwargs(kwargs):
    settings = config.TileConfig(model_kwargs_json=kwargs)
    words = '--model_kwargs_json', repr(kwargs)
    refusals.assert_refused(lambda: config.check_config(settings), *words)


def test_every_setting_has_help_and_cannot_be_changed():
    for kind, name in _NAMES:
        assert settings_flags.is_option_text(settings_lib.get_help(kind, name)), name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kind(), name, 1.0)


def _other(value):
    """A value of the same type that differs."""
    if isinstance(value, bool):
        return not value
    return value + 'x' if isinstance(value, str) else value + 1


def test_training_key_follows_what_shapes_the_model_and_the_data():
    for kind, name in _NAMES:
        plain = kind()
        changed = dataclasses.replace(plain, **{name: _other(getattr(plain, name))})
        keys = {config.hash_training(one, 'data') for one in (plain, changed)}
        is_same = len(keys) == 1
        rules = {f.name: f.metadata for f in dataclasses.fields(kind)}[name]
        assert is_same == (not rules.get('shapes', True)), name
        if name in settings_flags.PUBLISHED[kind]:
            assert is_same == (name in _NOT_SHAPING), name
    keys = {config.hash_training(kind(), *data) for data in ('ab', 'ac', ('ab',))}
    assert len(keys) == 3


def test_a_recipe_stands_in_for_defaults(capsys):
    settings = settings_flags.parse('--recipe=strong')
    changes = recipes.get_settings('strong', 'tile:xla')
    assert settings == config.TileConfig(recipe='strong', **changes)
    assert settings.model == 'LateJoinResSAGE' and settings.columns == 'tile,estimate'
    printed = capsys.readouterr().out
    assert printed.startswith('--recipe=strong: ')
    assert '--model=LateJoinResSAGE' in printed
    assert max(map(len, printed.splitlines())) <= 80
    with pytest.raises(ValueError, match="--recipe 'weak'"):
        settings_flags.parse('--recipe=weak')


def test_a_recipe_goes_without_trees_where_lightgbm_is_missing(
    capsys, monkeypatch, tmp_path
):
    pytest.importorskip('lightgbm')
    assert settings_flags.parse('--recipe=strong').trees
    assert 'pip install' not in capsys.readouterr().out
    monkeypatch.setattr(starting, 'has_lightgbm', lambda: False)
    assert not settings_flags.parse('--recipe=strong').trees
    note = "pip install -e '.[trees]'"
    assert note in capsys.readouterr().out
    layouts = settings_flags.parse('--recipe=strong', kind=config.LayoutConfig)
    assert layouts.estimate and not layouts.trees
    assert note in capsys.readouterr().out
    # The same from Python; and nothing where there were no trees to leave out.
    config.apply_recipe(config.TileConfig(recipe='strong'), {'recipe': 'strong'})
    assert note in capsys.readouterr().out
    file = {'collection': 'tile:xla', 'settings': {'model': 'MLP'}}
    (tmp_path / 'best.json').write_text(json.dumps(file))
    settings_flags.parse(f'--recipe={tmp_path}/best.json')
    assert note not in capsys.readouterr().out


def test_what_is_given_goes_before_the_recipe():
    settings = settings_flags.parse('--recipe=strong', '--configs=10')
    # Given, though it is the default.
    assert settings.configs == 10 and settings.model == 'LateJoinResSAGE'
    other = settings_flags.parse('--recipe=strong', '--model=MLP')
    assert other.model == 'MLP' and not other.columns
    assert other.schedule == 'cosine'


def test_a_file_is_a_recipe_for_its_collection(tmp_path, capsys):
    path = tmp_path / 'best.json'

    def parsed(settings, *words, collection='tile:xla'):
        content = {'collection': collection, 'settings': settings}
        path.write_text(json.dumps(content))
        return settings_flags.parse(f'--recipe={path}', *words)

    found = parsed({'lr': 1, 'configs': 7}, '--configs=9')
    assert (found.lr, found.configs) == (1, 9)
    # On one line, or on two where the path is long.
    assert capsys.readouterr().out.split() == [f'--recipe={path}:', '--lr=1']
    for settings, words in [
        ({'lrr': 1}, ("'lrr'", "'lr'")),
        ({'lr': 10**400}, ('lr ', '1000')),
        # It is untrusted: values, but no files and no code.
        ({'models_file': '/tmp/a.py'}, ('models_file', '/tmp/a.py')),
        ({'losses': 'MSE:1,a.py:f:1'}, ('--losses', 'a.py:f')),
    ]:
        refusals.assert_refused(lambda settings=settings: parsed(settings), *words)
    other = 'layout:nlp:default'
    refusals.assert_refused(lambda: parsed({}, collection=other), other)
    read = lambda: settings_flags.parse(f'--recipe={path}')
    for content in ('[]', '[' * 100_000, '{"collection": "tile:xla", "settings": []}'):
        path.write_text(content)
        refusals.assert_refused(read, str(path))
    with pytest.raises(OSError, match='nowhere.json'):
        settings_flags.parse('--recipe=nowhere.json')


@pytest.mark.parametrize('kind', [config.TileConfig, config.LayoutConfig])
def test_help_lists_every_loss(kind):
    about = settings_lib.get_help(kind, 'losses')
    for name in (*losses.LOSSES, '`tpugraphs losses`'):
        assert name in about
