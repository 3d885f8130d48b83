"""What `collect` and `tune` are told of where and how long to measure."""

import argparse

from baselines.measuring import backend
from baselines.measuring import machine
from baselines.measuring import session


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        '--task',
        default='tile',
        choices=('tile', 'layout'),
        help='what is configured (default: %(default)s)',
    )
    parser.add_argument('--seed', type=int, default=0, help='(default: %(default)s)')
    parser.add_argument(
        '--platform',
        default='cpu',
        choices=('cpu', 'gpu'),
        help='what to measure on (default: %(default)s)',
    )
    parser.add_argument(
        '--core',
        type=int,
        default=-1,
        help='the core to measure on (default: the last)',
    )


def limits(args: argparse.Namespace) -> session.Limits:
    """Returns what a worker may use.

    Raises:
        ValueError: jaxlib is not installed, or there is no such core.
    """
    backend.require()
    return session.Limits(core=machine.chosen_core(args.core), platform=args.platform)
