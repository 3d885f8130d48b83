"""What `collect` and `tune` are told of where and how long to measure."""

import argparse
from typing import Callable

from tpugraphs.measure import backend
from tpugraphs.measure import machine
from tpugraphs.measure import session


def add(option: Callable[..., None]) -> None:
    """Declares the options with `command_line.option` of a parser."""
    option('--task', 'tile', 'what is configured', choices=('tile', 'layout'))
    option('--seed', 0, '')
    option('--platform', 'cpu', 'what to measure on', choices=('cpu', 'gpu'))
    option('--core', -1, 'the core to measure on (default: the last)')


def limits(args: argparse.Namespace) -> session.Limits:
    """Returns what a worker may use.

    Raises:
        ValueError: jaxlib is not installed, or there is no such core.
    """
    backend.require()
    return session.Limits(core=machine.chosen_core(args.core), platform=args.platform)
