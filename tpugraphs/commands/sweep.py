"""Search for good settings: many short trainings, bad ones ended early.

  tpugraphs sweep tile --sample_data --trials 24 --workers 2 --epochs 10
  tpugraphs sweep layout:nlp:default --space space.toml --folds 5 --seeds 3
  tpugraphs sweep show --out_dir ~/out/tpugraphs_sweep/tile_xla

Optuna draws settings from the ranges, choices and conditions of a TOML file, a
trial trains with them in a process of its own, and trials that fall behind are ended
early.  The same command goes on where it was broken off, and on another machine with
the same --storage it joins in.  A setting that is given as a flag is the same in all
trials, and not searched.  The best settings go into best.json, for --recipe=FILE:
docs/guide/sweeps.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
from typing import Any

from baselines import command_line
from baselines import config
from baselines import scripts
from baselines.core import settings as settings_lib
from baselines.data import collections

_OUT = '~/out/tpugraphs_sweep'
# What a sweep gives each training itself.
_ITS_OWN = ('fold', 'results_csv', 'resume')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'target',
        metavar='COLLECTION|show',
        choices=('tile', 'layout', *collections.NAMES, 'show'),
        help=f'tile, layout, {", ".join(collections.NAMES)}; or show: list the trials',
    )
    option = functools.partial(command_line.option, parser)
    option('--space', '', 'what is searched, a TOML file')
    about = 'the URL of a database (default: a SQLite file, sweep.db in --out_dir)'
    option('--storage', '', about)
    option('--study', '', "its name there (default: the collection's)")
    option('--trials', 40, 'trials that the sweep is to have, of all who join')
    option('--seeds', 1, 'trainings of each trial with different seeds, averaged')
    option('--folds', 0, 'folds of cross-validation; 0: the splits as they are')
    option('--workers', 1, "trials at a time; they divide this machine's cores")
    option('--minutes', 0.0, 'most minutes of a trial (default: any)')
    command_line.switch(parser, '--no_pruning', 'train every trial to its end')
    command_line.add_json(parser, 'the table of `sweep show`')
    about = 'settings that all trials share, as flags of a training'
    group = parser.add_argument_group(about, 'shown by --help-all')
    shared = []
    for config_class in config.CONFIGS.values():
        for field in dataclasses.fields(config_class):
            flag = f'--{field.name}'
            if field.name in _ITS_OWN or flag in parser._option_string_actions:
                continue
            options: Any = {'type': type(field.default)}
            if isinstance(field.default, bool):
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

    def __call__(self, parser: argparse.ArgumentParser, *unused: object) -> None:
        for action, about in self.const:
            action.help = about
        parser.print_help()
        parser.exit()


def run(args: argparse.Namespace) -> None:
    """Searches, or shows.

    Raises:
        ValueError: Optuna is not installed.
    """
    if importlib.util.find_spec('optuna') is None:
        raise ValueError("a sweep needs Optuna: pip install 'tpugraphs[sweep]'")
    from tpugraphs.sweep import results
    from tpugraphs.sweep import search
    from tpugraphs.sweep import study
    from tpugraphs.sweep import trials

    if args.target == 'show':
        out_dir = getattr(args, 'out_dir', f'{_OUT}/tile_xla')
        found = search.load(args.storage or study.default_storage(out_dir), args.study)
        table = lambda: '\n'.join(results.table(found))
        command_line.show(args, results.to_json(found), table)
        return
    if args.json:
        raise ValueError('--json is for `tpugraphs sweep show`')
    name = next(n for n in collections.NAMES if n.startswith(args.target))
    given = {
        field.name: getattr(args, field.name)
        for config_class in config.CONFIGS.values()
        for field in dataclasses.fields(config_class)
        if hasattr(args, field.name)
    }
    out_dir = f'{_OUT}/{name.replace(":", "_")}'
    base = search.settings_of(name, {'out_dir': out_dir, **given})
    options = settings_lib.from_options(
        trials.SweepOptions, args, pruning=not args.no_pruning
    )
    search.run(base, options, given=given)
