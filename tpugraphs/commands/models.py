"""List the models that --model takes, with a line about each.

    tpugraphs models
    tpugraphs models layout

docs/guide/models.md says more, and how to write one.
"""

import argparse

from baselines import config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    tasks = tuple(config.CONFIGS)
    parser.add_argument('task', nargs='?', choices=tasks, help='of one task alone')


def run(args: argparse.Namespace) -> None:
    """Prints a table for each task."""
    from tpugraphs import catalogue

    if args.task:
        print(catalogue.models(args.task))
        return
    print('\n\n'.join(f'{task}\n{catalogue.models(task)!r}' for task in config.CONFIGS))
