"""The space that a sweep searches: ranges, choices and conditions, in TOML.

epochs = 30                        # the same in every trial

[lr]
low = 1e-3
high = 3e-2
log = true

[model]
choices = ["EarlyJoinSAGE", "LateJoinResSAGE"]

[columns]
choices = ["tile,estimate", "tile"]
when = { model = "LateJoinResSAGE" }

[model_kwargs.num_gnns]            # an argument of the model
low = 1
high = 4
"""

from collections.abc import Callable, Collection, Mapping
import copy
import functools
import json
import os
from typing import Any, NamedTuple

from optuna import distributions

from baselines import config as config_lib
from baselines import recipes
from baselines.core import settings as settings_lib
from baselines.core import text

# (name of a setting or argument, its value) -> the value in the setting's type
_Typed = Callable[[str, Any], Any]

_KWARGS = 'model_kwargs'
_LARGEST = 2**53  # whole numbers above are not exact as float64, which samplers use
# Settings of the sweep itself, and of tables [model_kwargs.NAME].
_NOT_SEARCHED = {'fold', 'folds', 'seed', 'seeds', 'resume', 'recipe'}
_NOT_SEARCHED |= {'fold_epochs', 'model_kwargs_json'}


class Parameter(NamedTuple):
    """A setting that is searched."""

    name: str  # name of the setting, or `model_kwargs.<argument>`
    kind: str  # 'categorical', 'int' or 'float', as in Optuna's `Trial.suggest_...`
    options: dict[str, Any]  # arguments of that method
    # Earlier settings -> the values with which this one is drawn; with any other value
    # it keeps its default.
    when: dict[str, list[Any]]

    def contains(self, value: object) -> bool:
        """Returns whether a value is one of the choices, or in the range."""
        if self.kind == 'categorical':
            return value in self.options['choices']
        low, high = self.options['low'], self.options['high']
        return isinstance(value, (int, float)) and low <= value <= high


class Space(NamedTuple):
    """The settings that a sweep tries."""

    source: text.JsonObject  # the content of the TOML file
    base: config_lib.AnyConfig  # settings that the file does not name
    fixed: text.JsonObject  # settings that are the same in every trial
    parameters: list[Parameter]  # settings that are searched, in the file's order

    def suggest_settings(self, trial: Any) -> text.JsonObject:
        """Draws the settings of an Optuna trial; returns those to replace in `base`."""
        settings, drawn = self._collect_start(), {}
        for name, kind, options, when in self.parameters:
            if all(settings.get(n) in values for n, values in when.items()):
                value = getattr(trial, f'suggest_{kind}')(name, **options)
                drawn[name] = settings[name] = value
        return self.join_settings(drawn)

    def join_settings(self, drawn: Mapping[str, Any]) -> text.JsonObject:
        """Joins drawn values with the fixed ones: settings by name."""
        settings = {**self.fixed, **drawn}
        kwargs = settings_lib.parse_model_kwargs(self.base.model_kwargs_json)
        for name in [name for name in settings if name.startswith(_KWARGS)]:
            kwargs[name.removeprefix(f'{_KWARGS}.')] = settings.pop(name)
        if kwargs:
            settings['model_kwargs_json'] = json.dumps(kwargs, sort_keys=True)
        return settings

    def find_defaults(self) -> text.JsonObject:
        """Returns the first trial of a sweep: values of `base` that can be drawn."""
        start = self._collect_start()
        searched = [p.name for p in self.parameters if p.contains(start.get(p.name))]
        return {name: start[name] for name in searched}

    def _collect_start(self) -> text.JsonObject:
        """Returns settings and arguments before values are drawn, by name."""
        kwargs = settings_lib.parse_model_kwargs(self.base.model_kwargs_json)
        return config_lib.to_json(self.base) | _prefix_arguments(kwargs) | self.fixed


def read_space(
    path: str, base: config_lib.AnyConfig, given: Collection[str] = ()
) -> Space:
    """Reads a space from a TOML file.

    Args:
        path: '' for the one that comes with the package.
        base: the settings of the sweep.
        given: names of settings that are not searched.

    Raises:
        ValueError: it is not TOML, has an unknown setting or an empty range, or
            nothing is left to search; names the file and the entry.
        OSError: it cannot be read.
    """
    own = os.path.join(os.path.dirname(__file__), 'spaces')
    path = path or os.path.join(own, f'{base.collection.task}.toml')
    content = settings_lib.read_toml(path, 'space')
    with text.locate_errors(f'--space {path}'):
        return parse_space(content, base, given)


def parse_space(
    content: text.JsonObject, base: config_lib.AnyConfig, given: Collection[str] = ()
) -> Space:
    """Makes a space of the content of a TOML file; as `read_space`."""
    content = {name: value for name, value in content.items() if name not in given}
    for name in content.keys() & _NOT_SEARCHED:
        raise ValueError(f'a space cannot set {name} (docs/guide/sweeps.md)')
    # `content` is stored in the study, and entries are taken out of this one.
    entries = copy.deepcopy(content)
    arguments = entries.pop(_KWARGS, {})
    if not isinstance(arguments, dict):
        raise ValueError(f'{_KWARGS} must be tables, [{_KWARGS}.NAME]')
    entries |= _prefix_arguments(arguments)
    typed = functools.partial(_check_value, type(base))
    fixed = {n: typed(n, v) for n, v in entries.items() if not isinstance(v, dict)}
    # None until it is read: a condition names parameters that are drawn earlier.
    found: dict[str, Parameter | None] = {n: None for n in entries if n not in fixed}
    for name in found:
        with text.locate_errors(f'[{name}]'):
            when = _parse_conditions(entries[name].pop('when', {}), found, typed)
            kind, options = _parse_options(name, entries[name], typed)
            found[name] = Parameter(name, kind, options, when)
    if not found:
        raise ValueError('it has no range and no choices: nothing to search')
    return Space(content, base, fixed, [*filter(None, found.values())])


def _prefix_arguments(arguments: text.JsonObject) -> text.JsonObject:
    """Returns arguments of a model under the names that parameters have."""
    return {f'{_KWARGS}.{name}': value for name, value in arguments.items()}


def _parse_conditions(
    when: Any, found: Mapping[str, Parameter | None], typed: _Typed
) -> dict[str, list[Any]]:
    """Reads `when`: setting or parameter above -> the values that fulfil it."""
    if not isinstance(when, dict):
        raise ValueError(f'when must be a table, not {text.quoted(when)}')
    conditions = {}
    for name, wanted in when.items():
        parameter = found.get(name)
        if not parameter and (name in found or name.startswith(_KWARGS)):
            raise ValueError(f'when names {text.quoted(name)}, which is not above it')
        values = wanted if isinstance(wanted, list) else [wanted]
        conditions[name] = [typed(name, value) for value in values]
        if parameter and not all(map(parameter.contains, conditions[name])):
            raise ValueError(f'when: {name} cannot be {text.quoted(wanted)}')
    return conditions


def _parse_options(
    name: str, table: text.JsonObject, typed: _Typed
) -> tuple[str, text.JsonObject]:
    """Returns a parameter's kind and options."""
    choices = table.get('choices')
    if table.keys() == {'choices'} and isinstance(choices, list) and choices:
        return 'categorical', {'choices': [typed(name, value) for value in choices]}
    if not {'low', 'high'} <= table.keys() <= {'low', 'high', 'log', 'step'}:
        raise ValueError(
            f'must have low and high (log, step, when), or choices, not {table}'
        )
    options = {**table, **{key: typed(name, table[key]) for key in ('low', 'high')}}
    # A bound with a decimal point makes the range one of floats.
    is_float = float in (type(options['low']), type(options['high']))
    for key, value in options.items():
        kinds = (bool,) if key == 'log' else (int, float) if is_float else (int,)
        if type(value) not in kinds:
            raise ValueError(
                f'{key} must be {kinds[-1].__name__}, not {text.quoted(value)}'
            )
    kind = 'Float' if is_float else 'Int'
    getattr(distributions, f'{kind}Distribution')(**options)  # refuses an empty range
    return kind.lower(), options


def _check_value(config_class: type, name: str, value: Any) -> Any:
    """Checks a value of a setting or argument; returns it in the setting's type."""
    if type(value) in (int, float) and not abs(value) <= _LARGEST:
        raise ValueError(f'{name} must be up to {_LARGEST}, not {text.quoted(value)}')
    if name.startswith(f'{_KWARGS}.'):
        if type(value) not in (int, float, bool, str):
            raise ValueError(
                f'{name} must be number, text, true or false, not {text.quoted(value)}'
            )
        return value
    settings = settings_lib.convert_types(config_class, {name: value})
    if recipes.is_local(name, value):
        raise ValueError(f'{name}: a space cannot name a file: use --{name}')
    config_lib.check_config(config_class(**settings))
    return settings[name]
