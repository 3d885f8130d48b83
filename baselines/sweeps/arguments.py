"""The settings of a training as options of a command."""

import argparse
import dataclasses
from typing import Any

from baselines import config as config_lib
from baselines import registry
from baselines.data import collections
from baselines.sweeps import trial

# What a sweep gives each training itself.
_ITS_OWN = ('fold', 'results_csv', 'resume')


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declares the settings of both trainings; those not given stay out of it."""
    group = parser.add_argument_group('settings that all trials share')
    for config_class in trial.CONFIGS.values():
        for field in dataclasses.fields(config_class):
            flag = f'--{field.name}'
            if field.name in _ITS_OWN or flag in parser._option_string_actions:
                continue
            kind: Any = type(field.default)
            options: Any = {'type': kind}
            if kind is bool:
                options = {'action': argparse.BooleanOptionalAction}
            words = config_lib.help_of(config_class, field.name).replace('%', '%%')
            group.add_argument(flag, default=argparse.SUPPRESS, help=words, **options)


def settings_of(args: argparse.Namespace, collection: str, out_dir: str) -> Any:
    """Reads the settings for trainings on a collection, with their recipe.

    Args:
        args: parsed with `add_settings`.
        collection: its name.
        out_dir: unless it is given.

    Raises:
        ValueError: one is out of range, or not for that kind of collection.
    """
    [found] = [c for c in collections.COLLECTIONS if c.name == collection]
    config_class = trial.CONFIGS[found.task]
    names = {field.name for field in dataclasses.fields(config_class)}
    every = {f.name for c in trial.CONFIGS.values() for f in dataclasses.fields(c)}
    given = {name: value for name, value in vars(args).items() if name in every}
    for name in given:
        if name not in names:
            raise ValueError(
                f'--{name} is not for {collection}{registry.suggest(name, names)}'
            )
        if found.flags.get(name, given[name]) != given[name]:
            raise ValueError(f'--{name}={given[name]} is not {collection}')
    given = {'out_dir': out_dir, **found.flags, **given}
    settings = config_lib.with_recipe(config_class(**given), given)
    return dataclasses.replace(settings, recipe='')
