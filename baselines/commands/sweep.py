"""Search for good settings: many short trainings, bad ones ended early.

  tpugraphs sweep tile --sample_data --trials 24 --workers 2 --epochs 10
  tpugraphs sweep layout:nlp:default --space space.toml --folds 5 --seeds 3
  tpugraphs sweep show --out_dir ~/out/tpugraphs_sweep/tile_xla

Optuna draws settings from the ranges, choices and conditions of a TOML file, a
trial trains with them in a process of its own, and successive halving ends those
that fall behind.  The same command goes on where it was broken off, and on another
machine that sees the same --storage it joins in.  What all trials share is given
as flags of the training.  The best settings are in best.json for --recipe=FILE:
docs/sweeps.md.
"""

import argparse
import dataclasses

from baselines import command_line
from baselines import commands

_OUT = '~/out/tpugraphs_sweep'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from baselines.data import collections
    from baselines.sweeps import arguments
    from baselines.sweeps import jobs

    parser.add_argument(
        'what',
        metavar='COLLECTION|show',
        choices=('tile', 'layout', *collections.NAMES, 'show'),
        help=f'tile, layout, {", ".join(collections.NAMES)}; or show: what was found',
    )
    for field in dataclasses.fields(jobs.Options):
        if field.metadata:
            about = field.metadata['help']
            command_line.option(parser, f'--{field.name}', field.default, about)
    command_line.switch(parser, '--no_pruning', 'train every trial to its end')
    command_line.switch(parser, '--json', 'show: print JSON')
    arguments.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Searches, or shows."""
    from baselines.data import collections
    from baselines.sweeps import arguments
    from baselines.sweeps import jobs
    from baselines.sweeps import study

    if args.what == 'show':
        out_dir = getattr(args, 'out_dir', f'{_OUT}/tile_xla')
        storage = args.storage or study.default_storage(out_dir)
        jobs.show(storage, args.study, args.json)
        return 0
    name = next(n for n in collections.NAMES if n.startswith(args.what))
    base = arguments.settings_of(args, name, f'{_OUT}/{name.replace(":", "_")}')
    pruning = not args.no_pruning
    return jobs.sweep(base, commands.options(jobs.Options, args, pruning=pruning))


if __name__ == '__main__':
    commands.main('sweep')
