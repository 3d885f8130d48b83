"""What a sweep searches: settings with ranges, choices and conditions, in TOML.

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
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines import text

_KWARGS = 'model_kwargs'
_RANGE = ('low', 'high', 'log', 'step', 'choices', 'when')
# What the sweep itself sets, or what says where and how much, not what is tried.
_NOT_SEARCHED = {
    'fold': '--folds',
    'seed': '--seeds',
    'out_dir': '--out_dir',
    'results_csv': '--out_dir',
    'resume': 'nothing: the same command goes on',
    'recipe': '--recipe',
    'model_kwargs_json': 'a table [model_kwargs.NAME]',
}


class Parameter(NamedTuple):
    """One setting that is searched."""

    name: str  # of the setting, or `model_kwargs.<argument>`
    choices: Tuple[Any, ...] = ()  # its values; empty for a range
    low: float = 0  # end of the range
    high: float = 0  # the other end, included
    log: bool = False  # whether the logarithm is what is drawn from evenly
    step: Optional[float] = None  # distance of values; None for any
    # by name, values of earlier settings that it needs; elsewhere it keeps its default
    when: Mapping[str, Tuple[Any, ...]] = {}

    def is_active(self, known: Mapping[str, Any]) -> bool:
        """Whether its conditions hold among the settings that are `known`."""
        return all(
            name in known and known[name] in values
            for name, values in self.when.items()
        )

    def holds(self, value: Any) -> bool:
        """Whether a value is one that can be drawn."""
        if self.choices:
            return value in self.choices
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return math.isclose(steps, round(steps), abs_tol=1e-9)

    def suggest(self, trial: Any) -> Any:
        """Draws a value from an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(self.name, self.choices)
        whole = isinstance(self.low, int)
        suggest = trial.suggest_int if whole else trial.suggest_float
        return suggest(self.name, self.low, self.high, step=self.step, log=self.log)


@dataclasses.dataclass(frozen=True)
class Space:
    """What is tried."""

    source: Dict[str, Any]  # the TOML's content
    fixed: Dict[str, Any]  # settings that are the same in every trial
    parameters: List[Parameter]  # those that are searched, in the file's order

    def suggest(self, trial: Any, base: Any) -> Dict[str, Any]:
        """Draws the settings of an Optuna trial that differ from those of `base`."""
        known = {**config_lib.to_json(base), **self.fixed}
        drawn: Dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.is_active(known):
                drawn[parameter.name] = known[parameter.name] = parameter.suggest(trial)
        return self.settings(drawn, base)

    def settings(self, drawn: Mapping[str, Any], base: Any) -> Dict[str, Any]:
        """Joins drawn values with the fixed ones: settings by name."""
        kwargs = config_lib.model_kwargs(base.model_kwargs_json)
        found = {}
        for name, value in {**self.fixed, **drawn}.items():
            first, _, argument = name.partition('.')
            if first == _KWARGS:
                kwargs[argument] = value
            else:
                found[name] = value
        if kwargs:
            found['model_kwargs_json'] = json.dumps(kwargs, sort_keys=True)
        return found

    def most_epochs(self, base: Any) -> int:
        """The most epochs that a training may have."""
        for parameter in self.parameters:
            if parameter.name == 'epochs':
                return int(max(parameter.choices or [parameter.high]))
        return self.fixed.get('epochs', base.epochs)

    def defaults(self, base: Any) -> Dict[str, Any]:
        """The values of `base` that can be drawn: what a sweep tries first."""
        known = {**config_lib.to_json(base), **self.fixed}
        kwargs = config_lib.model_kwargs(base.model_kwargs_json)
        known.update({f'{_KWARGS}.{name}': value for name, value in kwargs.items()})
        return {
            p.name: known[p.name]
            for p in self.parameters
            if p.is_active(known) and p.name in known and p.holds(known[p.name])
        }


def shipped(collection: str) -> str:
    """The file of the space that ships for a collection, the most special one."""
    folder = os.path.join(os.path.dirname(__file__), 'spaces')
    words = collection.split(':')
    names = ['_'.join(words[:count]) for count in range(len(words), 0, -1)]
    paths = [os.path.join(folder, f'{name}.toml') for name in names]
    return next(path for path in paths if os.path.exists(path))


def read(path: str, config_class: type) -> Space:
    """Reads a space from a TOML file.

    Args:
        path: the file.
        config_class: whose settings it names.

    Raises:
        ValueError: it is not TOML, names a setting that there is not, or has an
            empty range; says where.
        OSError: it cannot be read.
    """
    try:
        import tomllib as toml
    except ImportError:  # Python 3.10 and before
        import tomli as toml
    with files.open_regular(files.expand(path), 1 << 20) as stream:
        with text.located(f'--space {path} is not TOML'):
            content = toml.load(stream)
    with text.located(f'--space {path}'):
        return of(content, config_class)


def of(content: Dict[str, Any], config_class: type) -> Space:
    """Makes a space of a TOML file's content.

    Raises:
        ValueError: see `read`.
    """
    names = {field.name for field in dataclasses.fields(config_class)}
    flat: Dict[str, Any] = {}
    for name, value in content.items():
        if name == _KWARGS:
            if not isinstance(value, dict):
                raise ValueError(f'{_KWARGS} should be tables, [{_KWARGS}.NAME]')
            flat.update({f'{name}.{key}': entry for key, entry in value.items()})
        elif name in _NOT_SEARCHED:
            raise ValueError(f'{name} is not for a space: use {_NOT_SEARCHED[name]}')
        elif name not in names:
            searched = [*(names - set(_NOT_SEARCHED)), _KWARGS]
            raise ValueError(
                f'there is no setting {name!r}{registry.suggest(name, searched)}'
            )
        else:
            flat[name] = value
    fixed = {n: value for n, value in flat.items() if not isinstance(value, dict)}
    for name, value in fixed.items():
        _check_value(name, value, config_class)
    parameters: List[Parameter] = []
    for name, table in flat.items():
        if isinstance(table, dict):
            parameters.append(_parameter(name, table, config_class))
            _check_conditions(parameters, fixed, config_class)
    if not parameters:
        raise ValueError('it has no range and no choices: nothing to search')
    return Space(content, fixed, parameters)


def _parameter(name: str, table: Dict[str, Any], config_class: type) -> Parameter:
    for key in table:
        if key not in _RANGE:
            raise ValueError(f'[{name}] has no {key!r}{registry.suggest(key, _RANGE)}')
    conditions = table.get('when', {})
    if not isinstance(conditions, dict):
        raise ValueError(
            f'[{name}]: when should be a table such as {{ model = "MLP" }}, not '
            f'{conditions!r}'
        )
    when = {
        other: tuple(values) if isinstance(values, list) else (values,)
        for other, values in conditions.items()
    }
    if 'choices' in table:
        choices = table['choices']
        if set(table) - {'choices', 'when'}:
            raise ValueError(f'[{name}] has choices: it takes no range beside them')
        if not isinstance(choices, list) or not choices:
            raise ValueError(f'[{name}]: choices should be a list of values')
        for value in choices:
            _check_value(name, value, config_class)
        if len(set(choices)) < len(choices):
            raise ValueError(f'[{name}]: choices has a value twice: {choices}')
        return Parameter(name, tuple(choices), when=when)
    if not {'low', 'high'} <= set(table):
        raise ValueError(f'[{name}] needs low and high, or choices')
    low, high, step = table['low'], table['high'], table.get('step', 0)
    for value in (low, high, step):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f'[{name}]: {value!r} is not a number')
    for value in (low, high):
        _check_value(name, value, config_class)
    if float in (type(low), type(high), _type_of(name, config_class)):
        low, high = float(low), float(high)
    log = table.get('log', False)
    if not isinstance(log, bool):
        raise ValueError(f'[{name}]: log should be true or false, not {log!r}')
    if not low < high:
        raise ValueError(f'[{name}]: the range from {low} to {high} is empty')
    if log and low <= 0:
        raise ValueError(f'[{name}]: log = true needs low above 0, not {low}')
    if log and step or step < 0 or step and low + step > high:
        raise ValueError(f'[{name}]: step = {step} does not fit the range, or log')
    if isinstance(low, int) and not isinstance(step, int):
        raise ValueError(f'[{name}]: step should be a whole number, not {step}')
    anything = 1 if isinstance(low, int) else None
    return Parameter(name, (), low, high, log, step or anything, when)


def _type_of(name: str, config_class: type) -> Any:
    """The type of a setting; None for an argument of a model."""
    defaults = {f.name: f.default for f in dataclasses.fields(config_class)}
    return type(defaults[name]) if name in defaults else None


def _check_value(name: str, value: Any, config_class: type) -> None:
    """Raises ValueError unless a setting takes a value."""
    wanted = _type_of(name, config_class)
    if wanted is None:
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f'{name}: {value!r} is no number, text, true or false')
    elif not (type(value) is wanted or wanted is float and type(value) is int):
        raise ValueError(f'{name}: {value!r} is not of type {wanted.__name__}')
    else:
        config_lib.checked(config_class(**{name: value}))


def _check_conditions(
    parameters: List[Parameter], fixed: Mapping[str, Any], config_class: type
) -> None:
    """Checks that what the last one of `parameters` waits for can happen."""
    new, earlier = parameters[-1], {p.name: p for p in parameters[:-1]}
    for name, values in new.when.items():
        known = _type_of(name, config_class) is not None or name in fixed
        if name not in earlier and not known:
            others = [*earlier, *fixed]
            raise ValueError(
                f'[{new.name}]: when names {name!r}, which is not above it'
                f'{registry.suggest(name, others)}'
            )
        for value in values:
            if name in earlier and not earlier[name].holds(value):
                raise ValueError(
                    f'[{new.name}]: when wants {name} = {value!r}, which [{name}] '
                    'cannot be'
                )
