"""Search for good settings: many short trainings, bad ones ended early.

  tpugraphs sweep tile --sample_data --trials 24 --workers 2 --epochs 10
  tpugraphs sweep layout:nlp:default --space space.toml --folds 5 --seeds 3
  tpugraphs sweep show --out_dir ~/out/tpugraphs_sweep/tile_xla

Optuna draws settings from the ranges, choices and conditions of a TOML file, a
trial trains with them in a process of its own, and successive halving ends trials
that fall behind.  The same command goes on where it was broken off, and on another
machine with the same --storage it joins in.  Settings that all trials share are
flags, as of a training.  The best settings go into best.json, for --recipe=FILE:
docs/guide/sweeps.md.
"""

import argparse
import dataclasses
from typing import Any

from baselines import command_line
from baselines import config
from baselines import registry
from baselines import scripts
from baselines.data import collections

_OUT = '~/out/tpugraphs_sweep'
# What a sweep gives each training itself.
_ITS_OWN = ('fold', 'results_csv', 'resume')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from tpugraphs.sweep import jobs

    parser.add_argument(
        'what',
        metavar='COLLECTION|show',
        choices=('tile', 'layout', *collections.NAMES, 'show'),
        help=f'tile, layout, {", ".join(collections.NAMES)}; or show: list the trials',
    )
    for field in dataclasses.fields(jobs.Options):
        if field.metadata:
            about = field.metadata['help']
            command_line.option(parser, f'--{field.name}', field.default, about)
    command_line.switch(parser, '--no_pruning', 'train every trial to its end')
    command_line.switch(parser, '--json', 'show: print JSON')
    about = 'settings that all trials share, as flags of a training'
    group = parser.add_argument_group(about, 'shown by --help-all')
    shared = []
    for config_class in config.CONFIGS.values():
        for field in dataclasses.fields(config_class):
            flag = f'--{field.name}'
            if field.name in _ITS_OWN or flag in parser._option_string_actions:
                continue
            kind: Any = type(field.default)
            options: Any = {'type': kind}
            if kind is bool:
                options = {'action': command_line.Negatable}
            about = config.help_of(config_class, field.name).replace('%', '%%')
            action = group.add_argument(
                flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **options
            )
            shared.append((action, about))
    about = 'show this help with the settings of trials, and exit'
    parser.add_argument(
        scripts.HELP_ALL, action=_HelpAll, nargs=0, const=shared, help=about
    )


class _HelpAll(argparse.Action):
    """Prints the help with the actions that --help leaves out; `const` has them."""

    def __call__(self, parser: Any, *unused: Any) -> None:
        for action, about in self.const:
            action.help = about
        parser.print_help()
        parser.exit()


def run(args: argparse.Namespace) -> int:
    """Searches, or shows."""
    from tpugraphs.sweep import jobs
    from tpugraphs.sweep import storage as storage_lib

    if args.what == 'show':
        out_dir = getattr(args, 'out_dir', f'{_OUT}/tile_xla')
        storage = args.storage or storage_lib.default_storage(out_dir)
        jobs.show(storage, args.study, args.json)
        return 0
    name = next(n for n in collections.NAMES if n.startswith(args.what))
    base = _settings_of(args, name, f'{_OUT}/{name.replace(":", "_")}')
    pruning = not args.no_pruning
    return jobs.sweep(base, config.from_options(jobs.Options, args, pruning=pruning))


def _settings_of(args: argparse.Namespace, name: str, out_dir: str) -> Any:
    """Reads the settings of trainings on a collection, with their recipe.

    Raises:
        ValueError: a flag is not for the collection, or the recipe does not fit.
        OSError: the file of the recipe cannot be read.
    """
    [collection] = [c for c in collections.COLLECTIONS if c.name == name]
    config_class = config.CONFIGS[collection.task]
    names = {field.name for field in dataclasses.fields(config_class)}
    all_names = {f.name for c in config.CONFIGS.values() for f in dataclasses.fields(c)}
    given = {flag: value for flag, value in vars(args).items() if flag in all_names}
    for flag, value in given.items():
        if flag not in names:
            raise ValueError(
                f'--{flag} is not for {name}{registry.suggest(flag, names)}'
            )
        if collection.flags.get(flag, value) != value:
            raise ValueError(f'--{flag}={value} is not {name}')
    given = {'out_dir': out_dir, **collection.flags, **given}
    settings = config.with_recipe(config_class(**given), given)
    return dataclasses.replace(settings, recipe='')
