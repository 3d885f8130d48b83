"""Rank the kernels of a program, or raw files, and time the first choices.

    tpugraphs lab rank my_program.py:step
    tpugraphs lab rank my_program.py:step --dir latest
    tpugraphs lab rank my_program.py:step --measure 3
    tpugraphs lab rank module.hlo --output ranked.csv --top 3

A program without configurations (lab/docs/measure.md#programs has the forms) is cut
into kernels as by `tpugraphs lab collect`, with 200 candidates each, and the rank of
XLA's own choice is printed.  Without --dir, the pretrained model ranks tiles of a CPU,
and the untrained estimate what was compiled for a TPU.  --measure times the first
choices next to XLA's, each kernel alone and on one core; it says nothing about the
whole program.

Raw files are ranked as by `tpugraphs rank`, whose help describes the output.  With
--candidates a program is one kernel.
"""

import argparse

from baselines.core import exits
from tpugraphs.commands import _options
from tpugraphs.commands import rank
from tpugraphs_lab import program_ranking
from tpugraphs_lab.commands import _reading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'modules', nargs='+', metavar='MODULE', help='programs or raw files'
    )
    rank.add_options(parser)
    _reading.add_options(parser)
    about = 'time the first N choices and the default of each kernel here'
    _options.add_option(parser, '--measure', int, about, metavar='N')


@exits.log_progress()
def run(args: argparse.Namespace) -> int:
    """Ranks the configurations, prints and writes them."""
    return program_ranking.rank_sources(args, _options.get_run_name(args, needed=False))
