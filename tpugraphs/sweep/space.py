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

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
import copy
import dataclasses
import json
import os
from typing import Any, NamedTuple

from optuna import distributions

from baselines import config as config_lib
from baselines import recipes
from baselines.core import old_columns
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text

# A value of a setting or of a model's argument: a number, a truth value or text.
Value = Any

_KWARGS = 'model_kwargs'
_LARGEST = 2**53  # whole numbers above are not exact as float64, which samplers use
# What the sweep itself sets, and files and folders, which a space cannot name.
_NOT_SEARCHED = {
    'fold': '--folds',
    'seed': '--seeds',
    'resume': 'nothing: the same command goes on',
    'recipe': '--recipe',
    'model_kwargs_json': 'a table [model_kwargs.NAME]',
    **{name: f'--{name}' for name in recipes.LOCAL},
}


class Parameter(NamedTuple):
    """A setting that is searched."""

    name: str  # of the setting, or `model_kwargs.<argument>`
    distribution: Any  # Optuna's, of its values
    # by name, the values of earlier settings with which this one is drawn; with others
    # it keeps its default
    when: Mapping[str, tuple[Value, ...]]

    def is_active(self, settings: Mapping[str, Value]) -> bool:
        """Returns whether its conditions hold among `settings`."""
        return all(
            name in settings and settings[name] in values
            for name, values in self.when.items()
        )

    def contains(self, value: object) -> bool:
        """Returns whether a value is one of the choices, or in the range."""
        drawn = self.distribution
        if hasattr(drawn, 'choices'):
            return value in drawn.choices
        return type(value) in (int, float) and drawn.low <= value <= drawn.high

    def suggest(self, trial: Any) -> Value:
        """Draws a value for an Optuna trial."""
        drawn = self.distribution
        if hasattr(drawn, 'choices'):
            return trial.suggest_categorical(self.name, drawn.choices)
        is_whole = isinstance(drawn.low, int)
        suggest = trial.suggest_int if is_whole else trial.suggest_float
        return suggest(self.name, drawn.low, drawn.high, step=drawn.step, log=drawn.log)


@dataclasses.dataclass(frozen=True)
class Space:
    """The settings that a sweep tries."""

    source: dict[str, Value]  # the content of the TOML file
    fixed: dict[str, Value]  # settings that are the same in every trial
    parameters: list[Parameter]  # settings that are searched, in the file's order

    def without(self, given: Collection[str]) -> Space:
        """Returns the space without settings; raises ValueError if nothing is left."""
        source = {n: value for n, value in self.source.items() if n not in given}
        fixed = {n: value for n, value in self.fixed.items() if n not in given}
        left = [p for p in self.parameters if p.name not in given]
        if not left:
            raise ValueError('every setting of the space is given: nothing to search')
        return Space(source, fixed, left)

    def suggest(self, trial: Any, base: config_lib.AnyConfig) -> dict[str, Value]:
        """Draws the settings of an Optuna trial; returns those to replace in `base`."""
        settings = {**config_lib.to_json(base), **self.fixed}
        drawn: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.is_active(settings):
                value = parameter.suggest(trial)
                drawn[parameter.name] = settings[parameter.name] = value
        return self.settings(drawn, base)

    def settings(
        self, drawn: Mapping[str, Value], base: config_lib.AnyConfig
    ) -> dict[str, Value]:
        """Joins drawn values with the fixed ones: settings by name."""
        kwargs = config_lib.model_kwargs(base.model_kwargs_json)
        settings = {}
        for name, value in {**self.fixed, **drawn}.items():
            first, _, argument = name.partition('.')
            if first == _KWARGS:
                kwargs[argument] = value
            else:
                settings[name] = value
        if kwargs:
            settings['model_kwargs_json'] = json.dumps(kwargs, sort_keys=True)
        return old_columns.translate(settings, isinstance(base, config_lib.TileConfig))

    def most_epochs(self, base: config_lib.AnyConfig) -> int:
        """Returns the most epochs that a training may have."""
        for parameter in self.parameters:
            if parameter.name == 'epochs':
                drawn = parameter.distribution
                return int(max(getattr(drawn, 'choices', None) or [drawn.high]))
        return self.fixed.get('epochs', base.epochs)

    def defaults(self, base: config_lib.AnyConfig) -> dict[str, Value]:
        """Returns the first trial of a sweep: values of `base` that can be drawn."""
        settings = {**config_lib.to_json(base), **self.fixed}
        kwargs = config_lib.model_kwargs(base.model_kwargs_json)
        settings.update({f'{_KWARGS}.{name}': value for name, value in kwargs.items()})
        return {
            parameter.name: settings[parameter.name]
            for parameter in self.parameters
            if parameter.is_active(settings)
            and parameter.name in settings
            and parameter.contains(settings[parameter.name])
        }


def shipped(task: str) -> str:
    """Returns the file of the space that ships for 'tile' or 'layout'."""
    return os.path.join(os.path.dirname(__file__), 'spaces', f'{task}.toml')


def read(path: str, config_class: type) -> Space:
    """Reads a space from a TOML file.

    Args:
        config_class: whose settings it names.

    Raises:
        ValueError: it is not TOML, has an unknown setting or an empty range; names
            the file and the entry.
        OSError: it cannot be read.
    """
    content = settings_lib.read_toml(path, 'space')
    with text.located(f'--space {path}'):
        return parse(content, config_class)


def parse(content: Mapping[str, Value], config_class: type) -> Space:
    """Makes a space of the content of a TOML file; errors are those of `read`."""
    fixed: dict[str, Value] = {}
    parameters: list[Parameter] = []
    entries = _flat(content)
    # Parameters that have not been read yet, which no condition can name.
    later = [name for name, value in entries.items() if isinstance(value, dict)]
    for name, value in entries.items():
        if not isinstance(value, dict):
            fixed[name] = _typed(name, value, config_class)
            continue
        with text.located(f'[{name}]'):
            when = _parse_conditions(value.pop('when', {}), parameters, config_class)
            for other in when:
                if other in later:
                    raise ValueError(f'when names {other!r}, which is not above it')
            distribution = _parse_distribution(name, value, config_class)
        later.remove(name)
        parameters.append(Parameter(name, distribution, when))
    if not parameters:
        raise ValueError('it has no range and no choices: nothing to search')
    return Space(dict(content), fixed, parameters)


def _flat(content: Mapping[str, Value]) -> dict[str, Value]:
    """Copies the entries; tables of a model's arguments become `model_kwargs.NAME`."""
    entries = copy.deepcopy(dict(content))
    for name in entries:
        if name in _NOT_SEARCHED:
            raise ValueError(f'{name} is not for a space: use {_NOT_SEARCHED[name]}')
    arguments = entries.pop(_KWARGS, {})
    if not isinstance(arguments, dict):
        raise ValueError(f'{_KWARGS} should be tables, [{_KWARGS}.NAME]')
    entries.update((f'{_KWARGS}.{name}', value) for name, value in arguments.items())
    return entries


def _parse_conditions(
    conditions: object, above: Sequence[Parameter], config_class: type
) -> dict[str, tuple[Value, ...]]:
    """Reads `when`: setting or parameter above -> the values that fulfil it."""
    if not isinstance(conditions, dict):
        raise ValueError(
            f'when should be a table such as {{ model = "MLP" }}, not {conditions!r}'
        )
    parameters = {parameter.name: parameter for parameter in above}
    when = {}
    for name, wanted in conditions.items():
        if name.startswith(_KWARGS) and name not in parameters:
            raise ValueError(f'when names {name!r}, which is not above it')
        with text.located('when'):
            values = wanted if isinstance(wanted, list) else [wanted]
            when[name] = tuple(_typed(name, value, config_class) for value in values)
        for value in when[name]:
            if name in parameters and not parameters[name].contains(value):
                raise ValueError(
                    f'when wants {name} = {value!r}, which [{name}] cannot be'
                )
    return when


def _parse_distribution(
    name: str, table: Mapping[str, Value], config_class: type
) -> distributions.BaseDistribution:
    """Makes Optuna's distribution, which checks that a range is not empty."""
    keys = {'choices'} if 'choices' in table else {'low', 'high', 'log', 'step'}
    for key in set(table) - keys:
        raise ValueError(f'has no {key!r}{registry.suggest(key, [*keys, "when"])}')
    if 'choices' in table:
        choices = table['choices']
        if not isinstance(choices, list) or not choices:
            raise ValueError(f'choices should be a list of values, not {choices!r}')
        values = [_typed(name, value, config_class) for value in choices]
        if len(set(values)) < len(values):
            raise ValueError(f'choices has a value twice: {choices}')
        return distributions.CategoricalDistribution(values)
    if not {'low', 'high'} <= set(table):
        raise ValueError('needs low and high, or choices')
    low, high = (_typed(name, table[key], config_class) for key in ('low', 'high'))
    log, step = table.get('log', False), table.get('step')
    # A bound with a decimal point makes the range one of floats.
    numbers = (int, float) if float in (type(low), type(high)) else (int,)
    for key, value in (('low', low), ('high', high), ('step', step or 0)):
        if type(value) not in numbers:
            raise ValueError(f'{key} should be a number, not {value!r}')
    if not isinstance(log, bool):
        raise ValueError(f'log should be true or false, not {log!r}')
    if float in numbers:
        return distributions.FloatDistribution(low, high, log=log, step=step)
    least_step = 1 if step is None else step
    return distributions.IntDistribution(low, high, log=log, step=least_step)


def _typed(name: str, value: Value, config_class: type) -> Value:
    """Checks a value of a setting or argument; returns it in the setting's type."""
    if type(value) in (int, float) and not abs(value) <= _LARGEST:
        raise ValueError(f'{name}: {value!r} is too large, or no number')
    if name.startswith(f'{_KWARGS}.'):
        if type(value) not in (int, float, bool, str):
            raise ValueError(f'{name}: {value!r} is no number, text, true or false')
        return value
    today = old_columns.translate({name: value}, config_class is config_lib.TileConfig)
    settings = settings_lib.typed(config_class, today)
    if recipes.is_local(name, value):
        raise ValueError(f'{name}: a space cannot name a file: use --{name}')
    config_lib.checked(config_class(**settings))
    return settings.get(name, value)
