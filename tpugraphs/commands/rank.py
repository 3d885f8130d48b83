"""Rank the candidate configurations in raw files (.pb) with a trained model.

    tpugraphs rank my_kernels.pb
    tpugraphs rank my_kernels.pb --dir latest
    tpugraphs rank ~/raw --dir latest --output ranked.csv --top 3
    tpugraphs rank my_kernels.pb --dir estimate
    tpugraphs rank my_program.py:step --dir latest
    tpugraphs rank my_program.py:step --measure 3

Without --dir, the pretrained model that ships ranks tiles of a CPU, and the untrained
estimate what was compiled for a TPU. A tile model takes tile files (TuningData), a
layout model layout files. Every run without error mark is a candidate, measured or not.
For each module the ten configurations predicted fastest and the compiler's default are
printed: `run` is the number in the file, a lower score means predicted faster, and
where runtimes are known, slowdown is relative to the fastest.  The closing summary
compares the choice with random choice and with the default.

A program without configurations (docs/guide/measure.md#programs has the forms) is
cut into kernels as by `tpugraphs collect`, with 200 candidates each, and the rank of
XLA's own choice is printed.  --measure times the first choices next to it, each kernel
alone and on one core (pip install 'tpugraphs[measure]'); it says nothing about the
whole program.

--output writes all configurations: *.csv has a row for each, *.json an object,
which --json prints.  A compiler gives its own candidates with --candidates, in
the format of that object: {"output_bounds": [8, 128], "kernel_bounds": [256]}.
Features are extracted as the model's training data was (--pad).
"""

import argparse
import functools

from baselines import command_line
from baselines import config
from tpugraphs import ranking


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'modules',
        nargs='+',
        metavar='MODULE',
        help='raw files, folders (searched for *.pb), globs or programs',
    )
    option = functools.partial(command_line.option, parser)
    command_line.add_dir(parser)
    command_line.add_collection(parser)
    about = 'configurations to print of each module; 0 prints the summary alone '
    option('--top', int, f'{about}(default: 10, with --json all)')
    command_line.add_json(parser, 'tables')
    about = 'rank these configurations instead of the runs in the files; a program '
    about += 'is then one kernel: [{"output_bounds": [8, 128]}, ...]'
    option('--candidates', str, about, metavar='FILE.json')
    about = 'write everything to FILE, *.csv or *.json'
    option('--output', str, about, metavar='FILE')
    option('--module', str, 'rank only the module of that name', metavar='NAME')
    command_line.add_reading(parser)
    command_line.add_models_file(parser)
    about = 'of programs: time the first N choices and the default of each kernel here'
    option('--measure', int, about, metavar='N')
    needed = 'Needed for runs of the published code only, which do not hold their '
    for name in ('data_root', 'cache_dir'):
        about = config.help_of(config.TileConfig, name)
        option(f'--{name}', '', f'{about} {needed}normaliser')


def run(args: argparse.Namespace) -> int:
    """Ranks the configurations, prints and writes them."""
    if args.top is not None and args.top < 0:
        raise ValueError(f'--top is {args.top}; it counts rows')
    return ranking.sources.rank_sources(args)
