"""Show a program: its graph, kernels, and their share of the multiply-adds.

    tpugraphs lab show my_program.py:step
    tpugraphs lab show module_0001.before_optimizations.txt
    tpugraphs lab show module.mlir --plot graph.png

Of a program (lab/docs/measure.md#programs has the forms) its kernels are listed, with
their share of the multiply-adds, and the tiles that XLA chose, where the module says.
Raw and npz files are shown as by `tpugraphs show`.
"""

import argparse

from baselines.core import exits
from tpugraphs.commands import show
from tpugraphs_lab import program_showing
from tpugraphs_lab.commands import _reading
from tpugraphs_lab.programs import reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument('file', metavar='FILE', help='a program, a .pb or .npz file')
    show.add_options(parser)
    _reading.add_options(parser)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Prints the graph and the kernels of a program, and draws it on request."""
    options = reader.Options(args.batch_size, args.seconds)
    described = program_showing.describe(args.file, args.module, args.plot, options)
    show.print_description(args, described.to_json(), described.to_text)
