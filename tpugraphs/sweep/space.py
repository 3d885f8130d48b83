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
from baselines.core import settings as settings_lib
from baselines.core import text

# A value of a setting or of a model's argument: a number, a truth value or text.
Value = Any

_KWARGS = 'model_kwargs'
_LARGEST = 2**53  # whole numbers above are not exact as float64, which samplers use
# What the sweep itself sets, and what a table [model_kwargs.NAME] sets.
_NOT_SEARCHED = {'fold', 'folds', 'seed', 'seeds', 'resume', 'recipe'}
_NOT_SEARCHED |= {'fold_epochs', 'model_kwargs_json'}


class Parameter(NamedTuple):
    """A setting that is searched."""

    name: str  # of the setting, or `model_kwargs.<argument>`
    distribution: Any  # Optuna's, of its values
    # Earlier settings and those of their values with which this one is drawn; with
    # others it keeps its default.
    when: Mapping[str, Sequence[Value]]

    def contains(self, value: object) -> bool:
        """Returns whether a value is one of the choices, or in the range."""
        drawn = self.distribution
        if isinstance(drawn, distributions.CategoricalDistribution):
            return value in drawn.choices
        return isinstance(value, (int, float)) and drawn.low <= value <= drawn.high

    def suggest(self, trial: Any) -> Value:
        """Draws a value for an Optuna trial."""
        drawn = self.distribution
        if isinstance(drawn, distributions.CategoricalDistribution):
            return trial.suggest_categorical(self.name, drawn.choices)
        is_whole = isinstance(drawn, distributions.IntDistribution)
        suggest = trial.suggest_int if is_whole else trial.suggest_float
        return suggest(self.name, drawn.low, drawn.high, step=drawn.step, log=drawn.log)


@dataclasses.dataclass(frozen=True)
class Space:
    """The settings that a sweep tries."""

    source: dict[str, Value]  # the content of the TOML file
    fixed: dict[str, Value]  # settings that are the same in every trial
    parameters: list[Parameter]  # settings that are searched, in the file's order

    def suggest(self, trial: Any, base: config_lib.AnyConfig) -> dict[str, Value]:
        """Draws the settings of an Optuna trial; returns those to replace in `base`."""
        settings = {**config_lib.to_json(base), **self.fixed}
        drawn: dict[str, Value] = {}
        for parameter in self.parameters:
            if all(settings.get(n) in values for n, values in parameter.when.items()):
                value = parameter.suggest(trial)
                drawn[parameter.name] = settings[parameter.name] = value
        return self.settings(drawn, base)

    def settings(
        self, drawn: Mapping[str, Value], base: config_lib.AnyConfig
    ) -> dict[str, Value]:
        """Joins drawn values with the fixed ones: settings by name."""
        settings = {**self.fixed, **drawn}
        kwargs = config_lib.model_kwargs(base.model_kwargs_json)
        for name in [name for name in settings if name.startswith(_KWARGS)]:
            kwargs[name.removeprefix(f'{_KWARGS}.')] = settings.pop(name)
        if kwargs:
            settings['model_kwargs_json'] = json.dumps(kwargs, sort_keys=True)
        return old_columns.translate(settings, isinstance(base, config_lib.TileConfig))

    def defaults(self, base: config_lib.AnyConfig) -> dict[str, Value]:
        """Returns the first trial of a sweep: values of `base` that can be drawn."""
        settings = {**config_lib.to_json(base), **self.fixed}
        for name, value in config_lib.model_kwargs(base.model_kwargs_json).items():
            settings[f'{_KWARGS}.{name}'] = value
        searched = [p for p in self.parameters if p.contains(settings.get(p.name))]
        return {parameter.name: settings[parameter.name] for parameter in searched}


def read(path: str, config_class: type, given: Collection[str] = ()) -> Space:
    """Reads a space from a TOML file.

    Args:
        path: '' for the one that comes with the package.
        config_class: `TileConfig` or `LayoutConfig`, whose settings it names.
        given: names of settings that are not searched.

    Raises:
        ValueError: it is not TOML, has an unknown setting or an empty range, or
            nothing is left to search; names the file and the entry.
        OSError: it cannot be read.
    """
    if not path:
        [task] = [t for t, kind in config_lib.CONFIGS.items() if kind is config_class]
        path = os.path.join(os.path.dirname(__file__), 'spaces', f'{task}.toml')
    content = settings_lib.read_toml(path, 'space')
    with text.located(f'--space {path}'):
        return parse(content, config_class, given)


def parse(
    content: Mapping[str, Value], config_class: type, given: Collection[str] = ()
) -> Space:
    """Makes a space of the content of a TOML file; as `read`."""
    if 'columns' in given:
        given = {*given, *old_columns.SETS}
    content = {name: value for name, value in content.items() if name not in given}
    fixed: dict[str, Value] = {}
    above: dict[str, Parameter] = {}
    entries = _flatten(content)
    names = [name for name, value in entries.items() if isinstance(value, dict)]
    for name, value in entries.items():
        if name not in names:
            fixed[name] = _typed(name, value, config_class)
            continue
        with text.located(f'[{name}]'):
            conditions = value.pop('when', {})
            when = _parse_conditions(conditions, above, names, config_class)
            distribution = _parse_distribution(name, value, config_class)
        above[name] = Parameter(name, distribution, when)
    if not above:
        raise ValueError('it has no range and no choices: nothing to search')
    return Space(content, fixed, list(above.values()))


def _flatten(content: Mapping[str, Value]) -> dict[str, Value]:
    """Copies the entries; tables of a model's arguments become `model_kwargs.NAME`."""
    entries = copy.deepcopy(dict(content))
    for name in entries.keys() & _NOT_SEARCHED:
        raise ValueError(f'a space cannot set {name} (docs/guide/sweeps.md)')
    arguments = entries.pop(_KWARGS, {})
    if not isinstance(arguments, dict):
        raise ValueError(f'{_KWARGS} should be tables, [{_KWARGS}.NAME]')
    return entries | {f'{_KWARGS}.{name}': value for name, value in arguments.items()}


def _parse_conditions(
    conditions: object,
    above: Mapping[str, Parameter],
    names: Collection[str],
    config_class: type,
) -> dict[str, list[Value]]:
    """Reads `when`: setting or parameter above -> the values that fulfil it.

    Args:
        names: of all parameters; one that is drawn later cannot be a condition.
    """
    if not isinstance(conditions, dict):
        raise ValueError(f'when should be a table, not {text.quoted(conditions)}')
    when = {}
    for name, wanted in conditions.items():
        if name not in above and (name in names or name.startswith(_KWARGS)):
            raise ValueError(f'when names {text.quoted(name)}, which is not above it')
        values = wanted if isinstance(wanted, list) else [wanted]
        when[name] = [_typed(name, value, config_class) for value in values]
        if name in above and not all(map(above[name].contains, when[name])):
            raise ValueError(
                f'when wants {name} = {text.quoted(wanted)}, which it cannot be'
            )
    return when


def _parse_distribution(
    name: str, table: Mapping[str, Value], config_class: type
) -> distributions.BaseDistribution:
    """Makes Optuna's distribution, which checks that a range is not empty."""
    choices = table.get('choices')
    if set(table) == {'choices'} and isinstance(choices, list) and choices:
        values = [_typed(name, value, config_class) for value in choices]
        return distributions.CategoricalDistribution(values)
    if not {'low', 'high'} <= set(table) <= {'low', 'high', 'log', 'step'}:
        raise ValueError(
            'needs low and high, and perhaps log, step, when; or choices, a list; not '
            f'{table}'
        )
    bounds = {key: _typed(name, table[key], config_class) for key in ('low', 'high')}
    # A bound with a decimal point makes the range one of floats.
    is_float = float in map(type, bounds.values())
    for key, value in {**table, **bounds}.items():
        kinds = (bool,) if key == 'log' else (int, float) if is_float else (int,)
        if type(value) not in kinds:
            raise ValueError(f'{key} should not be {text.quoted(value)}')
    kind = 'FloatDistribution' if is_float else 'IntDistribution'
    return getattr(distributions, kind)(**{**table, **bounds})


def _typed(name: str, value: Value, config_class: type) -> Value:
    """Checks a value of a setting or argument; returns it in the setting's type."""
    if type(value) in (int, float) and not abs(value) <= _LARGEST:
        raise ValueError(f'{name}: {text.quoted(value)} is too large, or no number')
    if name.startswith(f'{_KWARGS}.'):
        if type(value) not in (int, float, bool, str):
            raise ValueError(
                f'{name}: {text.quoted(value)} is no number, text, true or false'
            )
        return value
    today = old_columns.translate({name: value}, config_class is config_lib.TileConfig)
    settings = settings_lib.typed(config_class, today)
    if recipes.is_local(name, value):
        raise ValueError(f'{name}: a space cannot name a file: use --{name}')
    config_lib.checked(config_class(**settings))
    return settings.get(name, value)
