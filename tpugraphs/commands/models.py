"""List the models that --model takes, with a line about each.

    tpugraphs models
    tpugraphs models layout
    tpugraphs models --columns

docs/guide/models.md says more, and how to write one.
"""

import argparse

from baselines import config
from tpugraphs import api
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    tasks = tuple(config.CONFIGS)
    parser.add_argument('task', nargs='?', choices=tasks, help='only those of one task')
    about = 'list the sets of columns that --columns takes instead'
    _options.add_switch(parser, '--columns', about)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints a table for each task."""
    if args.columns:
        columns = api.catalogue.columns()
        return _options.show(args, columns, lambda: columns)
    tasks = [args.task] if args.task else list(config.CONFIGS)
    found = {task: api.catalogue.models(task) for task in tasks}

    def shown() -> str:
        if args.task:
            return repr(found[args.task])
        return '\n\n'.join(f'{task}\n{models!r}' for task, models in found.items())

    _options.show(args, found, shown)
