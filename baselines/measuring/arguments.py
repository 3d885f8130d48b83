"""What `collect` and `tune` are told of where and how long to measure."""

import argparse

from baselines import command_line
from baselines.measuring import backend
from baselines.measuring import machine
from baselines.measuring import session


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option, tasks = command_line.option, ('tile', 'layout')
    option(parser, '--task', 'tile', 'what is configured', choices=tasks)
    option(parser, '--seed', 0, '')
    option(parser, '--platform', 'cpu', 'what to measure on', choices=('cpu', 'gpu'))
    option(parser, '--core', -1, 'the core to measure on (default: the last)')


def limits(args: argparse.Namespace) -> session.Limits:
    """Returns what a worker may use.

    Raises:
        ValueError: jaxlib is not installed, or there is no such core.
    """
    backend.require()
    return session.Limits(core=machine.chosen_core(args.core), platform=args.platform)
