"""Names: the nearest one, the models of a module, and models.py of others."""

import inspect
import sys
import types

import pytest
import tensorflow as tf

from baselines import config
from baselines import scripts
from baselines import tiles
from baselines.core import registry
from baselines.layout import zoo
from baselines.training import losses
from tests.helpers import refusals
from tpugraphs import commands

_MODEL = """
import tensorflow as tf

class Mine(tf.keras.Model):
    def __init__(self, num_configs, num_ops, width=3):
        super().__init__()
        self.width = width
"""


def _message(function, *args):
    return refusals.read_message(lambda: function(*args))


def test_nearest_name():
    known = dict.fromkeys(['MLP', 'LateJoinSAGE', 'EarlyJoinSAGE'])
    for name, meant in (('latejoinsage', True), ('LateSAGE', True), ('zzz', False)):
        message = _message(registry.resolve, name, known, 'model')
        assert repr(name) in message and 'EarlyJoinSAGE, LateJoinSAGE, MLP' in message
        assert ("'LateJoinSAGE'?" in message) is meant


def test_models_in_a_module():
    module = types.ModuleType('somewhere')
    own = type('Own', (tf.keras.Model,), {'__module__': 'somewhere'})
    module.Own = module.Alias = module._Private = own
    module.Imported = type('Imported', (tf.keras.Model,), {'__module__': 'elsewhere'})
    module.Layer = type('Layer', (tf.keras.layers.Layer,), {'__module__': 'somewhere'})
    module.instance, module.number = own(), 3
    assert registry.list_models_in(module) == {'Own': own, 'Alias': own}


class _Narrow:
    def __init__(self, num_configs, num_ops, hidden_dim=64, num_gnns=3):
        pass


class _Wide:
    def __init__(self, num_configs, num_ops, **kwargs):
        pass


class _Narrower(_Narrow):
    def __init__(self, num_configs, num_ops, order=2, **options):
        super().__init__(num_configs, num_ops, **options)


def test_keywords_that_are_handed_on_are_options_too():
    assert registry.list_options(_Narrower) == ['order', 'hidden_dim', 'num_gnns']
    assert registry.list_options(_Wide) is None


def _construct(model_class, **kwargs):
    return registry.construct_model(
        model_class, 10, 120, kwargs, {}, lambda model: None
    )


def test_options_of_a_constructor():
    assert isinstance(_construct(_Narrow, num_gnns=2, hidden_dim=8), _Narrow)
    assert isinstance(_construct(_Wide, anything=1), _Wide)
    for name in ('hiden_dim', 'num_ops'):  # what we pass cannot be passed twice
        make = lambda name=name: _construct(_Narrow, **{name: 8})
        words = '--model_kwargs_json', '_Narrow', repr(name), 'hidden_dim, num_gnns'
        refusals.assert_refused(make, *words)


@pytest.mark.parametrize(
    'shown',
    [
        '{{function_node __wrapped__A}} the cause [Op:A] name: ',
        "Exception encountered when calling layer 'a' (type A).\n\nthe cause\n\nCall",
        'in user code:\n\n    File "a.py", line 1, in call  *\n        return b\n'
        '    ValueError: the cause\n',
        'in user code:\n\n    File "a.py"'
        + ' ' * 500
        + '\n\n    ValueError: Exception '
        "encountered when calling layer 'a'\n    \n    the cause\n    \n    Call",
    ],
)
def test_the_cause_of_an_error_in_a_layer(shown):
    error = RuntimeError(shown)
    assert registry.describe_error(error, '') == 'RuntimeError: the cause'


def test_models_file(tmp_path, monkeypatch):
    (tmp_path / 'models.py').write_text(_MODEL)
    ours = set(registry.find_models('tiles'))
    models = registry.find_models('tiles', str(tmp_path / 'models.py'))
    assert set(models) == {'Mine', *ours}
    assert models['Mine'](10, 5, width=4).width == 4
    monkeypatch.setenv('HOME', str(tmp_path))
    assert set(registry.find_models('tiles', '~/models.py')) == {'Mine', *ours}


def test_of_two_models_of_one_name_the_users_counts(tmp_path):
    (tmp_path / 'models.py').write_text(f'{_MODEL}\n\nMLP = Mine\n')
    models = registry.find_models('tiles', str(tmp_path / 'models.py'))
    assert models['MLP'] is models['Mine']
    assert registry.find_models('tiles', [models['Mine']])['Mine'] is models['Mine']


@pytest.mark.parametrize('package', ['.', 'tpu_graphs.baselines.tiles'])
def test_models_file_finds_implicit_as_in_both_trees(tmp_path, package):
    path = tmp_path / 'models.py'
    path.write_text(
        f'from {package} import implicit\nA = implicit.AdjacencyMultiplier\n'
    )
    assert callable(registry.load_models_file(str(path), 'tiles').A)


@pytest.mark.parametrize(
    'code, error',
    [
        ('import no_such_module', 'ModuleNotFoundError'),
        ('def f(:', 'SyntaxError'),
        ('raise SystemExit(3)', 'SystemExit'),
        ('raise GeneratorExit', 'GeneratorExit'),
        ('class E(Exception):\n    def __str__(self): return 1 / 0\nraise E', 'E ('),
    ],
)
def test_models_file_that_cannot_be_imported(tmp_path, code, error):
    path = tmp_path / 'models.py'
    path.write_text(code)
    before = set(sys.modules)
    message = _message(registry.load_models_file, str(path), 'tiles')
    assert message.startswith('--models_file') and f'{path}' in message
    assert f' {error}' in message
    assert not [name for name in set(sys.modules) - before if 'models_file' in name]


@pytest.mark.parametrize('code', ['def f(:', 'import no_such_module', 'Nope'])
def test_models_of_the_checkout_that_cannot_be_imported(
    tmp_path, monkeypatch, capsys, code
):
    path = tmp_path / 'models.py'
    path.write_text(f'import math\n{code}\n')
    monkeypatch.setattr(tiles, '__path__', [str(tmp_path), *tiles.__path__])
    monkeypatch.delitem(sys.modules, 'baselines.tiles.models', raising=False)
    assert commands.run('models', []) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert str(path) in line and 'line 2' in line and 'Error: ' in line


def test_models_file_without_models(tmp_path):
    for name, content in (
        ('none.py', None),
        ('models.txt', _MODEL),
        ('models.py', 'from keras import Model'),
    ):
        path = tmp_path / name
        if content:
            path.write_text(content)
        message = _message(registry.find_models, 'tiles', str(path))
        assert message.startswith('--models_file: ') and str(path) in message


def test_a_file_in_the_zoo_is_all_that_a_layout_model_needs(tmp_path, monkeypatch):
    (tmp_path / 'newcomer.py').write_text(
        _MODEL + '\n\nclass Base(Mine):\n    is_base = True\n'
        '\n\nclass ResModel(Mine):\n    pass\n'
    )
    monkeypatch.setattr(zoo, '__path__', [*zoo.__path__, str(tmp_path)])
    try:
        found = registry.find_models('layout')
    finally:
        sys.modules.pop(f'{zoo.__name__}.newcomer', None)
    assert 'Mine' in found and 'Base' not in found
    # A class of models.py wins over the zoo's.
    assert found['ResModel'].__module__ == 'baselines.layout.models'


@pytest.mark.parametrize('task, folder', registry.FOLDERS.items())
def test_names_of_models_without_tensorflow(task, folder):
    assert {*registry.MODELS[task]} == {*registry.find_models(folder)}
    # Where a file of models changes, `registry` needs the new hash.
    assert registry.is_shipped(task), registry.hash_files(task)


def test_a_changed_file_of_models_is_imported_for_its_names(tmp_path, monkeypatch):
    settings = config.TileConfig(model='Mine')
    with pytest.raises(ValueError, match='Mine'):
        scripts.refuse_wrong_names(settings)
    monkeypatch.setattr(registry, 'is_shipped', lambda task: False)
    scripts.refuse_wrong_names(settings)  # the import may find it


def test_losses_without_tensorflow():
    lines = {
        name: inspect.getdoc(loss.function).partition('\n')[0]
        for name, loss in losses.LOSSES.items()
    }
    assert lines == registry.LOSSES
    if 'ApproxNDCGLoss' in registry.find_ranking_losses():  # TensorFlow Ranking is here
        scripts.refuse_wrong_names(config.TileConfig(losses='ApproxNDCGLoss:1'))
    with pytest.raises(ValueError, match='MyLoss'):
        scripts.refuse_wrong_names(config.TileConfig(losses='MyLoss:1'))
