"""Finds models and other objects by name; suggests the nearest for a wrong name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import pkgutil
import re
import sys
import traceback
import types
from typing import Any, NamedTuple

from baselines.core import extensions
from baselines.core import files
from baselines.core import starting
from baselines.core import text

# The package in which the published code keeps its models; a models.py written
# for it says `from tpu_graphs.baselines.tiles import implicit`.
_PUBLISHED = 'tpu_graphs'

TOO_LARGE = 'model far larger than what'  # in messages

# The --model of gradient-boosted trees, which is no Keras model.
TREES = 'Trees'

_MOST_CAUSE = 400  # characters of an error in a user's code
# What TensorFlow writes before a cause: the operation, or the frames of a function.
_OPERATION = re.compile(r'\{\{function_node .*?\}\} | \[Op:\w+\].*')
_FRAMES = re.compile(r'.*\n\s*[\w.]*(Error|Exception): ', re.DOTALL)

# The folders of models in `baselines`, by task.
FOLDERS = {'tile': 'tiles', 'layout': 'layout'}

# The models of a task as they ship.
MODELS: dict[str, tuple[str, ...]] = {
    'tile': (
        *('MLP', 'LateJoinSAGE', 'EarlyJoinSAGE', 'LateJoinResGCN', 'EarlyJoinResGCN'),
        *('ResGCN', 'ChebSAGE', 'AttentionSAGE', 'ConfigAttentionSAGE'),
        'LateJoinResSAGE',
    ),
    'layout': ('ResModel', 'GCN', 'ChebNet', 'GAT', 'SAGE', 'ChebSAGE', 'TGraph'),
}
# Hashes of their files.  People edit and replace these, and then names may differ.
_SHIPPED = {
    'tile': '4c3b5d2c88eb4919358381560ebca994dfe346024b53953f3b0d5c97ba315186',
    'layout': '198525ddd84e4bc61bb0de214176045a6078be9550278a566d66e548c272230d',
}

# The losses of `training.losses`, and the first lines of their docstrings.
LOSSES = {
    'ListMLELoss': (
        'Computes the negative log-likelihood of the true order (Xia et al., ICML '
        '2008).'
    ),
    'PairwiseHingeLoss': (
        'Averages max(0, 1 - (s_i - s_j)) over pairs with y_i > y_j.'
    ),
    'PairwiseLogisticLoss': (
        'Averages log(1 + exp(s_j - s_i)) over pairs with y_i > y_j.'
    ),
    'PairwiseRuntimeLoss': (
        'Averages log(1 + exp(s_j - s_i)), pairs weighted by log runtime differences.'
    ),
    'MSE': 'Averages (score - label)^2.',
}

# Names of models, methods and settings in other frameworks -> ours.
_ELSEWHERE = {
    'AttentionSAGE': 'GAT',
    'ChebNet': 'ChebSAGE',
    'EarlyJoinSAGE': 'SAGE',
    'GAT': 'AttentionSAGE',
    'GBDT': TREES,
    'GraphSAGE': 'EarlyJoinSAGE',
    'LightGBM': TREES,
    'TGraph': 'ConfigAttentionSAGE',
    'XGBoost': TREES,
    'batch_size': 'batch',
    'learning_rate': 'lr',
    'loss': 'losses',
    'num_epochs': 'epochs',
    'patience': 'early_stop',
}

# A user's models: the path of a models.py ('' for none), or classes.
Own = str | Sequence[type]
# Functions (labels, scores) of the user's by the name that --losses says.
OwnLosses = Mapping[str, Callable[..., Any]]


def resolve(name: str, choices: Mapping[str, Any], noun: str, ending: str = '') -> Any:
    """Returns the choice that a user named, `choices[name]`.

    Args:
        noun: for the message, such as 'model'.
        ending: the end of the message.

    Raises:
        ValueError: there is no such name; lists the names, the nearest first.
    """
    if name in choices:
        return choices[name]
    raise ValueError(
        f'there is no {noun} {text.quoted(name)}{suggest_name(name, choices)}{ending}'
    )


def suggest_name(name: str, choices: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: the nearest name, and all."""
    choices = sorted(choices)
    nearest = suggest_nearest(name, choices)
    start = f'{nearest} There are' if nearest else '; there are'
    return f'{start}: {", ".join(choices)}'


def suggest_nearest(name: str, choices: Iterable[str]) -> str:
    """Returns "; did you mean 'x'?" with the choice nearest to a name, or ''."""
    choices = sorted(choices)
    by_lower = {
        n.lower(): choice for n, choice in _ELSEWHERE.items() if choice in choices
    }
    by_lower.update((choice.lower(), choice) for choice in choices)
    near = difflib.get_close_matches(str(name).lower(), by_lower, 1)
    return f'; did you mean {by_lower[near[0]]!r}?' if near else ''


def find_ranking_losses() -> dict[str, None]:
    """Returns the names of TensorFlow Ranking's losses; none where it is missing.

    Reads them from its source, as it is slow to import.
    """
    package = importlib.util.find_spec('tensorflow_ranking')
    if package is None or not package.submodule_search_locations:
        return {}
    path = pathlib.Path(*package.submodule_search_locations, 'python/keras/losses.py')
    source = path.read_text(encoding='utf-8')
    return dict.fromkeys(re.findall(r'^class ([A-Z]\w*Loss)\(', source, re.MULTILINE))


def find_column_sets(machine: str = '') -> dict[str, str]:
    """Finds the column sets for tiles of a machine, without importing them.

    Args:
        machine: 'tpu' or 'cpu'; '' for all.

    Returns:
        By name: the full name of the module; `<name>_columns` of `features.tpu`, or
        an entry point of another distribution.
    """
    points = {
        name: point.value for name, point in extensions.find(extensions.COLUMNS).items()
    }
    spec: Any = importlib.util.find_spec('baselines.features.tpu')
    for module in pkgutil.iter_modules(spec.submodule_search_locations):
        if module.name.endswith('_columns'):
            full = f'baselines.features.tpu.{module.name}'
            points[f'tpu.{module.name.removesuffix("_columns")}'] = full
    # The name of a point is `<machine>.<set>`.
    return {
        name.rpartition('.')[2]: module
        for name, module in points.items()
        if name.startswith(machine)
    }


def check_options(model: str, names: Iterable[str], options: Sequence[str]) -> None:
    """Raises ValueError for the name of an option that a model does not have."""
    for name in names:
        if name not in options:
            raise ValueError(
                f'--model_kwargs_json: {model} has no option {text.quoted(name)}'
                f'{suggest_name(name, options)}'
            )


def list_options(model_class: type) -> list[str] | None:
    """Names the keywords that a model's constructor takes; None for any.

    A constructor with `**kwargs` passes them to the constructor that it overrides.
    """
    names: list[str] = []
    for base in model_class.__mro__:  # up to a constructor without **kwargs
        if '__init__' not in vars(base):
            continue
        parameters = inspect.signature(vars(base)['__init__']).parameters.values()
        # After self, num_configs and num_ops.
        names += [p.name for p in list(parameters)[3:] if p.kind is not p.VAR_KEYWORD]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return list(dict.fromkeys(names))
    return None


def find_models(folder: str, own: Own = '') -> dict[str, type]:
    """Returns the models of a package, of its zoo, and the user's own, by name.

    Args:
        folder: 'tiles' or 'layout'.
        own: the user's models.py, or classes, which replace ours of the same name.
            The code of the file is run.

    Raises:
        ValueError: a file cannot be imported, or the user's has no model.
    """
    # Our models.py may have been replaced by one of the published tree.
    _answer_to_published_name()
    found = list_models_in(_import_models(f'baselines.{folder}.models'))
    zoo = importlib.import_module(f'baselines.{folder}.zoo')
    for info in pkgutil.iter_modules(zoo.__path__, f'{zoo.__name__}.'):
        for name, model_class in list_models_in(_import_models(info.name)).items():
            found.setdefault(name, model_class)  # a class of models.py wins
    if not isinstance(own, str):
        return {**found, **{model.__name__: model for model in own}}
    added = list_models_in(load_models_file(own, folder)) if own else {}
    if own and not added:
        raise ValueError(
            f'--models_file: {files.expand(own)} defines no public tf.keras.Model'
        )
    return {**found, **added}


def find_model_class(name: str, task: str, own: Own = '') -> type:
    """Returns the class of a graph model; raises ValueError for an unknown name."""
    # Trees have no class: they are only named among the choices.
    return resolve(name, {**find_models(FOLDERS[task], own), TREES: None}, 'model')


def is_shipped(task: str) -> bool:
    """Returns whether the files with the models of a task are as they ship."""
    return hash_files(task) == _SHIPPED[task]


def hash_files(task: str) -> str:
    """Hashes models.py and the files of zoo/ of a task."""
    place = pathlib.Path(__file__).parents[1] / FOLDERS[task]
    hashed = hashlib.sha256()
    for path in [place / 'models.py', *sorted(place.glob('zoo/*.py'))]:
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


class Size(NamedTuple):
    """Limits of a model that is to hold the weights of a run."""

    model_dir: str  # the run
    variables: int
    weights: int


@contextlib.contextmanager
def limit_size(most: Size) -> Iterator[None]:
    """Raises ValueError if the block makes more variables than `most` allows."""
    import tensorflow as tf

    left = {'variables': most.variables, 'weights': most.weights}

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        left['variables'] -= 1
        # Before the variable is made: nothing has been allocated yet.
        left['weights'] -= tf.TensorShape(kwargs.get('shape')).num_elements() or 0
        if min(left.values()) < 0:
            raise ValueError(f'its options make a {TOO_LARGE} {most.model_dir} holds')
        return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


def construct_model(
    model_class: type,
    num_configs: int,
    num_ops: int,
    kwargs: Mapping[str, Any],
    scaling: text.JsonObject,
    first_call: Callable[[Any], Any],
) -> Any:
    """Makes a model, by position as the published training does, and its variables.

    Args:
        kwargs: the options of --model_kwargs_json.
        scaling: the argument for a constructor that takes `scaling`.
        first_call: calls the model on a small graph.

    Raises:
        ValueError: the model has no such option, or its code raises; names the
            nearest option, or the error and its line.
    """
    # Checked first, as the TypeError of a constructor names no alternative.
    name, names = model_class.__name__, list_options(model_class)
    if names is not None:
        check_options(name, kwargs, names)
    raw = {'scaling': scaling} if 'scaling' in (names or ()) else {}
    try:
        model = model_class(num_configs, num_ops, **{**raw, **kwargs})
        first_call(model)
        return model
    except (Exception, SystemExit) as error:
        given = ''
        if kwargs:
            given = f'--model_kwargs_json={text.printable(json.dumps(kwargs))}: '
        described = describe_error(error, find_file(model_class))
        raise ValueError(f'{given}making {name} raised {described}') from error


def describe_error(error: BaseException, path: str) -> str:
    """Returns the type of an error, the line that states its cause, and its place.

    A ValueError from outside the user's file, or with its place in the text, is
    described by its cause alone.

    Args:
        path: of the user's file.
    """
    kind, place = type(error).__name__, find_place(error, path)
    cause = text.printable(extract_cause(error), _MOST_CAUSE)
    if isinstance(error, ValueError) and (not place or path in cause):
        return cause
    return f'{kind}: {cause}'.removesuffix(': ') + place


def extract_cause(error: BaseException) -> str:
    """Returns the line of an error that states its cause.

    Keras adds the layer before it and the arguments after it; TensorFlow adds the
    frames of a traced function, or the name of the operation.
    """
    # A KeyError's text is a representation of the key.
    full = error.args[0] if isinstance(error, KeyError) and error.args else error
    shown = _OPERATION.sub('', text.get_message(full) or '').strip()
    if shown.startswith('in user code:'):
        shown = _FRAMES.sub('', shown)
    paragraphs = re.split(r'\n\s*\n', shown)
    is_wrapped = len(paragraphs) > 1 and 'Exception encountered' in paragraphs[0]
    return paragraphs[is_wrapped].strip().partition('\n')[0]


def list_models_in(module: types.ModuleType) -> dict[str, type]:
    """Returns the public `tf.keras.Model` classes of a module, by name.

    A class imported from another module (`from keras import Model`) does not
    count, nor does one that says `is_base = True`; a second name for a class of
    the module's own does.
    """
    import tensorflow as tf  # late: `--help` need not wait for it

    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith('_')
        and inspect.isclass(value)
        and issubclass(value, tf.keras.Model)
        and value.__module__ == module.__name__
        and not vars(value).get('is_base')
    }


def drop_aliases(models: Mapping[str, type]) -> dict[str, type]:
    """Keeps only the first name of each class."""
    names: dict[type, str] = {}
    for name, model_class in models.items():
        names.setdefault(model_class, name)
    return {name: model_class for model_class, name in names.items()}


def check_code_file(path: str, flag: str = 'models_file') -> str:
    """Returns the full path of a file; raises ValueError if it is not there.

    `flag` is the name of the flag that chose it; '' for none.
    """
    path = files.expand(path)
    if not os.path.isfile(path):
        raise ValueError(f'{flag and f"--{flag}: "}there is no file {path}')
    return path


def load_models_file(
    path: str, task: str, flag: str = 'models_file'
) -> types.ModuleType:
    """Imports a models.py that was written for this tree or the published one.

    This runs the file's code.

    Args:
        task: 'tiles' or 'layout', or 'training' for losses; relative imports are
            resolved there.
        flag: name of the flag that chose the file, for messages; '' for none.

    Raises:
        ValueError: the file is missing, or raises while it is imported.
    """
    path, where = check_code_file(path, flag), f'--{flag}: ' if flag else ''
    _answer_to_published_name()
    # A sibling of our models.py, so that `from . import implicit` finds ours.
    name = f'baselines.{task}.{flag}_{abs(hash(path)):x}'
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f'{where}{path} is not a Python file (.py)')
    module = importlib.util.module_from_spec(spec)
    # Before it runs, as an import does: a dataclass looks its module up there.
    sys.modules[name] = module
    try:
        with _explain_import_errors(path, where):
            spec.loader.exec_module(module)
    except ValueError:
        del sys.modules[name]
        raise
    return module


def _import_models(name: str) -> types.ModuleType:
    """Imports one of our files of models, which people edit and replace."""
    spec: Any = importlib.util.find_spec(name)
    with _explain_import_errors(spec.origin):
        return importlib.import_module(name)


@contextlib.contextmanager
def _explain_import_errors(path: str, flag: str = '') -> Iterator[None]:
    """Turns an error of a file that the block imports into a one-line ValueError."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too: a script may call sys.exit
        raise ValueError(
            f'{flag}importing {path} raised {describe_error(error, path)}'
        ) from error


def split_model_name(model: str, task: str) -> dict[str, str]:
    """Splits a model's name, 'Name', 'my_file.py:Name' or 'my_file.py'.

    Args:
        model: the name; a file alone has one model, and is imported to find it.
        task: 'tile' or 'layout'.

    Returns:
        The settings `model` and, where there is a file, `models_file`.

    Raises:
        ValueError: a file alone cannot be imported, or has not one model.
    """
    path, colon, name = model.rpartition(':')
    if colon and path.endswith('.py'):
        return {'models_file': path, 'model': name}
    if not model.endswith('.py'):
        return {'model': model}
    check_code_file(model)
    starting.start_tensorflow()
    module = load_models_file(model, FOLDERS[task])
    names = list(drop_aliases(list_models_in(module)))
    if len(names) != 1:
        raise ValueError(
            f'{model} has {len(names)} models: name one, as in {model}:MyModel'
        )
    return {'models_file': model, 'model': names[0]}


def find_file(code: Callable) -> str:
    """Returns the path of the file that a user's class or function is in, or ''."""
    module = sys.modules.get(getattr(code, '__module__', None) or '')
    return getattr(module, '__file__', None) or ''


def find_place(error: BaseException | None, path: str) -> str:
    """Returns the place of an error in a user's file: ' (models.py, line 7; ...)'.

    '' if no part of the traceback is in the file.
    """
    # Keras and TensorFlow raise errors of their own for, or while handling, the user's.
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        if lines:
            return f' ({path}, line {lines[-1]}; TPUGRAPHS_DEBUG=1 shows more)'
        error = error.__cause__ or error.__context__
    return ''


def _answer_to_published_name() -> None:
    """Lets `tpu_graphs.baselines` be imported, as a name for `baselines`.

    Only where no real package of that name is installed.
    """
    if _PUBLISHED in sys.modules or importlib.util.find_spec(_PUBLISHED):
        return
    package = types.ModuleType(_PUBLISHED)
    # The folder that holds `baselines`, which is found as a part of it.
    package.__path__ = [str(pathlib.Path(__file__).parents[2])]
    sys.modules[_PUBLISHED] = package
