"""What `collect` and `tune` are told of where and how long to measure."""

import argparse
import functools
from typing import Callable, List, Sequence, Tuple

from baselines.measuring import backend
from baselines.measuring import builtin
from baselines.measuring import machine
from baselines.measuring import programs
from baselines.measuring import session
from baselines.measuring import timing


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
        '--core', type=int, help='the core to measure on (default: the last)'
    )
    parser.add_argument(
        '--passes',
        type=int,
        default=0,
        metavar='N',
        help='passes over the configurations, exactly (default: '
        f'{timing.LEAST_PASSES} to {timing.MOST_PASSES}, until halves agree)',
    )


def limits(args: argparse.Namespace) -> session.Limits:
    """Returns what a worker may use.

    Raises:
        ValueError: jaxlib is not installed, or there is no such core.
    """
    backend.require()
    core = machine.default_core() if args.core is None else args.core
    machine.check_core(core)
    return session.Limits(core=core, platform=args.platform)


def passes(args: argparse.Namespace) -> Tuple[int, int]:
    """Returns the least and the most passes.

    Raises:
        ValueError: a negative number.
    """
    if args.passes < 0:
        raise ValueError(f'--passes is {args.passes}; it counts passes')
    if args.passes:
        return args.passes, args.passes
    return timing.LEAST_PASSES, timing.MOST_PASSES


def loaders(sources: Sequence[str]) -> List[Callable[[], programs.Program]]:
    """Returns functions that load programs; of none, the built-in ones."""
    load = programs.load if sources else builtin.load
    found = []
    for source in sources or builtin.table():
        found.append(functools.partial(load, source))
        found[-1].source = source
    return found
