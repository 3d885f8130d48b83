"""Measure programs on this machine: a collection of real runtimes.

    tpugraphs lab collect my_program.py:step out
    tpugraphs lab collect first.py:f second.py:g module.pb out --configs 40
    tpugraphs lab collect --random 100 out --minutes 60

A program is a function of TensorFlow or JAX, a model, or a file with HLO or MLIR
(lab/docs/measure.md#programs).  XLA optimises it; each piece of the result that
XLA runs as one is a kernel, and a configuration says how a loop walks its output
in tiles.  Each is compiled, compared with XLA's own default, and timed, in a process of
its own on one core.

Written are npz files in the published format, divided into train, valid and
test by families of programs (by kernel, if there are fewer than three programs),
and measured.json, which says how and how well it was measured.  Kernels whose
times do not repeat are set apart in noisy/.  A program that cannot be used is named,
the others are measured, and the exit code is 1.  Ctrl-C loses nothing: --resume goes
on.
"""

import argparse
import functools
import math

from baselines.core import exits
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.data import shares
from tpugraphs.commands import _options
from tpugraphs_lab import kernels
from tpugraphs_lab import measure
from tpugraphs_lab.programs import extras


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option = functools.partial(_options.add_option, parser)
    about = 'programs, FILE.py:FUNCTION or files'
    parser.add_argument('programs', nargs='*', metavar='PROGRAM', help=about)
    parser.add_argument('output', metavar='OUT', help='the output folder')
    about = 'measure this many random programs, composed of what models have'
    option('--random', int, about, metavar='N')
    about = 'draw random programs of these families, such as gathers,norm'
    option('--families', '', about, metavar='A,B')
    about = 'measure this many configurations of a kernel'
    option('--configs', 60, about, metavar='N')
    about = 'measure this many kernels of a program, drawn at random, large ones more '
    option('--kernels', 0, f'{about}often (default: all)', metavar='N')
    option('--minutes', math.inf, 'stop after this many minutes', metavar='M')
    about = 'measure a kernel for at most this many seconds, compiling included'
    option('--seconds', 20.0, about, metavar='S')
    about = 'divide into these shares of train/valid/test, or none'
    option('--split', '80/10/10', about)
    _options.add_switch(parser, '--resume', 'continue with what is in the folder')
    about = 'pass this many times over the configurations (default: 6 to 30, until '
    option('--passes', 0, f'{about}halves agree)', metavar='N')
    option('--seed', 0, 'draw programs, kernels and configurations with this seed')
    about = 'measure on this device'
    option('--platform', 'cpu', about, choices=('cpu', 'gpu'))
    option('--core', -1, 'measure on this core (default: the last)')


@exits.log_progress(short=True)
def run(args: argparse.Namespace) -> int:
    """Measures and writes; returns 1 if a named program cannot be used."""
    sources = args.programs
    if bool(sources) == (args.random is not None):
        raise ValueError('say --random N, or one or more programs; and a folder')
    for name in ('passes', 'kernels'):
        if getattr(args, name) < 0:
            raise ValueError(f'--{name} is {getattr(args, name)}; it counts {name}')
    if args.passes == 1:
        raise ValueError('--passes is 1; halves of them are compared: at least 2')
    options = settings_lib.make_from_options(
        measure.CollectionOptions,
        args,
        output=files.expand(args.output),
        split=None if args.split == 'none' else shares.parse_shares(args.split),
        passes=(args.passes,) * 2 if args.passes else measure.CollectionOptions.passes,
    )
    families = [family for family in args.families.split(',') if family]
    if families and args.random is None:
        raise ValueError('--families are of random programs: say --random N, too')
    if args.random is not None:
        sources = measure.random_names(args.random, args.seed, families)
    extras.require()
    load = kernels.preparation.load
    if args.random is not None:
        starting.start_tensorflow()
        load = measure.load_random
    folder = measure.collect(sources, options, load)
    print(*folder.lines(), sep='\n')
    return 1 if folder.failed and args.random is None else 0
