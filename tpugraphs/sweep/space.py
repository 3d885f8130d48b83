"""The space that a sweep searches: ranges, choices and conditions, in TOML.

epochs = 30                        # the same in every trial

[lr]
low = 1e-3
high = 3e-2
log = true

[model]
choices = ["EarlyJoinSAGE", "LateJoinResSAGE"]

[estimate]
choices = [true, false]
when = { model = "LateJoinResSAGE" }

[model_kwargs.num_gnns]            # an argument of the model
low = 1
high = 4
"""

import dataclasses
import json
import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from optuna import distributions

from baselines import config as config_lib
from baselines import files
from baselines import recipes
from baselines import registry
from baselines import text
from baselines import untrusted

_KWARGS = 'model_kwargs'
_KEYS = ('low', 'high', 'log', 'step', 'choices', 'when')
_MAX_FILE_BYTES = 1 << 20
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
    """A setting that is searched.

    Attributes:
        name: of the setting, or `model_kwargs.<argument>`.
        distribution: Optuna's, of its values.
        when: by name, the values of earlier settings with which this one is drawn;
            with others it keeps its default.
    """

    name: str
    distribution: Any
    when: Mapping[str, Tuple[Any, ...]]

    def is_active(self, settings: Mapping[str, Any]) -> bool:
        """Tells whether its conditions hold among `settings`."""
        return all(
            name in settings and settings[name] in values
            for name, values in self.when.items()
        )

    def contains(self, value: Any) -> bool:
        """Tells whether a value is a choice, or within the range."""
        drawn = self.distribution
        if hasattr(drawn, 'choices'):
            return value in drawn.choices
        return type(value) in (int, float) and drawn.low <= value <= drawn.high

    def suggest(self, trial: Any) -> Any:
        """Draws a value for an Optuna trial."""
        drawn = self.distribution
        if hasattr(drawn, 'choices'):
            return trial.suggest_categorical(self.name, drawn.choices)
        is_whole = isinstance(drawn.low, int)
        suggest = trial.suggest_int if is_whole else trial.suggest_float
        return suggest(self.name, drawn.low, drawn.high, step=drawn.step, log=drawn.log)


@dataclasses.dataclass(frozen=True)
class Space:
    """The settings that a sweep tries.

    Attributes:
        source: the content of the TOML file.
        fixed: settings that are the same in every trial.
        parameters: settings that are searched, in the file's order.
    """

    source: Dict[str, Any]
    fixed: Dict[str, Any]
    parameters: List[Parameter]

    def suggest(self, trial: Any, base: Any) -> Dict[str, Any]:
        """Draws the settings of an Optuna trial that differ from those of `base`."""
        settings = {**config_lib.to_json(base), **self.fixed}
        drawn: Dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.is_active(settings):
                value = parameter.suggest(trial)
                drawn[parameter.name] = settings[parameter.name] = value
        return self.settings(drawn, base)

    def settings(self, drawn: Mapping[str, Any], base: Any) -> Dict[str, Any]:
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
        return settings

    def most_epochs(self, base: Any) -> int:
        """Returns the most epochs that a training may have."""
        for parameter in self.parameters:
            if parameter.name == 'epochs':
                drawn = parameter.distribution
                return int(max(getattr(drawn, 'choices', None) or [drawn.high]))
        return self.fixed.get('epochs', base.epochs)

    def defaults(self, base: Any) -> Dict[str, Any]:
        """Returns the values of `base` that can be drawn: what a sweep tries first."""
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
        path: the file.
        config_class: whose settings it names.

    Raises:
        ValueError: it is not TOML, names a setting that there is not, or has an
            empty range; names the file and the entry.
        OSError: it cannot be read.
    """
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    with files.open_regular(files.expand(path), _MAX_FILE_BYTES) as stream:
        try:
            content = toml.load(stream)
        except untrusted.DAMAGE as error:
            raise ValueError(f'--space {path} is not TOML: {error}') from None
    with text.located(f'--space {path}'):
        return parse(content, config_class)


def parse(content: Mapping[str, Any], config_class: type) -> Space:
    """Makes a space of the content of a TOML file.

    Raises:
        ValueError: see `read`.
    """
    entries = _flatten(content, config_class)
    fixed = {n: value for n, value in entries.items() if not isinstance(value, dict)}
    for name, value in fixed.items():
        _check_value(name, value, config_class)
    parameters: List[Parameter] = []
    for name, table in entries.items():
        if isinstance(table, dict):
            with text.located(f'[{name}]'):
                parameter = _parse_parameter(name, table, config_class)
                _check_conditions(parameter, parameters, config_class)
            parameters.append(parameter)
    if not parameters:
        raise ValueError('it has no range and no choices: nothing to search')
    return Space(dict(content), fixed, parameters)


def _flatten(content: Mapping[str, Any], config_class: type) -> Dict[str, Any]:
    """Returns the entries by name, with `model_kwargs.NAME` for a model's arguments.

    Raises:
        ValueError: there is no setting of a name, or a space cannot have it.
    """
    names = {field.name for field in dataclasses.fields(config_class)}
    entries: Dict[str, Any] = {}
    for name, value in content.items():
        if name == _KWARGS:
            if not isinstance(value, dict):
                raise ValueError(f'{_KWARGS} should be tables, [{_KWARGS}.NAME]')
            entries.update({f'{name}.{key}': entry for key, entry in value.items()})
        elif name in _NOT_SEARCHED:
            raise ValueError(f'{name} is not for a space: use {_NOT_SEARCHED[name]}')
        elif name not in names:
            searched = [*(names - set(_NOT_SEARCHED)), _KWARGS]
            raise ValueError(
                f'there is no setting {name!r}{registry.suggest(name, searched)}'
            )
        else:
            entries[name] = value
    return entries


def _parse_parameter(
    name: str, table: Mapping[str, Any], config_class: type
) -> Parameter:
    """Makes a parameter of the table of a setting."""
    for key in table:
        if key not in _KEYS:
            raise ValueError(f'has no {key!r}{registry.suggest(key, _KEYS)}')
    conditions = table.get('when', {})
    if not isinstance(conditions, dict):
        raise ValueError(
            f'when should be a table such as {{ model = "MLP" }}, not {conditions!r}'
        )
    when = {
        other: tuple(values) if isinstance(values, list) else (values,)
        for other, values in conditions.items()
    }
    if 'choices' not in table:
        return Parameter(name, _parse_range(name, table, config_class), when)
    if set(table) - {'choices', 'when'}:
        raise ValueError('has choices: it takes no range beside them')
    choices = table['choices']
    if not isinstance(choices, list) or not choices:
        raise ValueError(f'choices should be a list of values, not {choices!r}')
    for value in choices:
        _check_value(name, value, config_class)
    if len(set(choices)) < len(choices):
        raise ValueError(f'choices has a value twice: {choices}')
    return Parameter(name, distributions.CategoricalDistribution(choices), when)


def _parse_range(name: str, table: Mapping[str, Any], config_class: type) -> Any:
    """Makes Optuna's distribution of a range, which checks that it is not empty."""
    if not {'low', 'high'} <= set(table):
        raise ValueError('needs low and high, or choices')
    low, high = table['low'], table['high']
    for value in (low, high):
        _check_value(name, value, config_class)
        if type(value) not in (int, float):
            raise ValueError(f'low and high should be numbers, not {value!r}')
    log, step = table.get('log', False), table.get('step')
    if not isinstance(log, bool):
        raise ValueError(f'log should be true or false, not {log!r}')
    is_float = float in (type(low), type(high), _type_of(name, config_class))
    if type(step) not in ((int, float, type(None)) if is_float else (int, type(None))):
        raise ValueError(f'step should be a number as low and high are, not {step!r}')
    if is_float:
        return distributions.FloatDistribution(low, high, log=log, step=step)
    least_step = 1 if step is None else step
    return distributions.IntDistribution(low, high, log=log, step=least_step)


def _type_of(name: str, config_class: type) -> Any:
    """Returns the type of a setting; None for an argument of a model."""
    defaults = {f.name: f.default for f in dataclasses.fields(config_class)}
    return type(defaults[name]) if name in defaults else None


def _check_value(name: str, value: Any, config_class: type) -> None:
    """Raises ValueError unless a setting takes a value; names the setting."""
    wanted = _type_of(name, config_class)
    is_number = type(value) in (int, float)
    if is_number and not abs(value) <= _LARGEST:
        raise ValueError(f'{name}: {value!r} is too large, or no number')
    if wanted is None:
        if not is_number and not isinstance(value, (bool, str)):
            raise ValueError(f'{name}: {value!r} is no number, text, true or false')
    elif not (type(value) is wanted or wanted is float and type(value) is int):
        raise ValueError(f'{name}: {value!r} is not of type {wanted.__name__}')
    elif recipes.is_local(name, value):
        raise ValueError(f'{name}: a space cannot name a file: use --{name}')
    else:
        config_lib.checked(config_class(**{name: value}))


def _check_conditions(
    parameter: Parameter, earlier: Sequence[Parameter], config_class: type
) -> None:
    """Raises ValueError for a condition that cannot hold.

    Args:
        parameter: whose conditions.
        earlier: the parameters above it.
        config_class: whose settings they are.
    """
    above = {other.name: other for other in earlier}
    for name, values in parameter.when.items():
        if name not in above and _type_of(name, config_class) is None:
            others = registry.suggest(name, above)
            raise ValueError(f'when names {name!r}, which is not above it{others}')
        for value in values:
            with text.located('when'):
                _check_value(name, value, config_class)
            if name in above and not above[name].contains(value):
                raise ValueError(
                    f'when wants {name} = {value!r}, which [{name}] cannot be'
                )
