"""Search for good settings: many short trainings, bad ones ended early.

  tpugraphs sweep tile --sample_data --trials 24 --epochs 10
  tpugraphs sweep layout:nlp:default --space space.toml --folds 5
  tpugraphs sweep show --out_dir ~/out/tpugraphs_sweep/tile_xla

Optuna draws settings from the ranges, choices and conditions of a TOML file, each trial
trains with them, and trials that fall behind are ended early.  The same command goes on
where it was broken off; started once more meanwhile, or on another machine with the
same --storage, it joins in.  A setting that is given as a flag is the same in all
trials, and not searched.  The best settings go into best.json, for --recipe=FILE:
docs/guide/sweeps.md.  --help after the word shows the flags, --help-all also those of
trainings.
"""

import argparse
import dataclasses
import importlib.util

from baselines import config
from baselines import scripts
from baselines.core import settings as settings_lib
from baselines.data import collections

_OUT = '~/out/tpugraphs_sweep'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    targets = (*config.CONFIGS, *collections.NAMES, 'show')
    parser.add_argument('target', choices=targets, help='what is ranked, or show')
    scripts.add_flags(parser, '`tpugraphs sweep tile --help` shows them')


def run(args: argparse.Namespace) -> None:
    """Searches, or lists the trials.

    Raises:
        ValueError: Optuna is not installed, or a flag is wrong.
    """
    if importlib.util.find_spec('optuna') is None:
        raise ValueError("a sweep needs Optuna: pip install 'tpugraphs[sweep]'")
    from tpugraphs.sweep import trials

    start = 'tile' if args.target == 'show' else args.target
    name = next(name for name in collections.NAMES if name.startswith(start))
    collection = collections.find_collection(name)
    preset = {'out_dir': f'{_OUT}/{name.replace(":", "_")}'}
    if start == name:
        preset |= collection.flags
    words = [f'--{flag}={value}' for flag, value in preset.items()] + args.flags
    kind, own = config.CONFIGS[collection.task], trials.SweepOptions
    basic = ['seeds', 'folds', 'epochs', 'out_dir', *own.__annotations__]
    title = f'sweep {args.target}'
    values = scripts.parse_flags([kind, own], title, __doc__, words, basic)
    if values is None:
        return
    options = settings_lib.make_from_options(own, values)
    settings_lib.check_ranges(options, '--')
    if args.target == 'show':
        storage = options.storage or trials.make_default_storage(values.out_dir)
        trials.show_trials(trials.load_study(storage, options.study), options.json)
    else:
        base = scripts.read_flags(kind, values)
        given = [flag for flag in values if values[flag].present]
        given += scripts.read_toml(kind, values.config) if values.config else ()
        trials.run_sweep(dataclasses.replace(base, recipe=''), options, given)
