"""Show what is in a raw (.pb) or npz file: graph, configurations, runtimes.

    tpugraphs show ~/raw/tuning_data.pb
    tpugraphs show ~/raw/tuning_data.pb --module fusion.232 --plot fusion.png
    tpugraphs show ~/data/tpugraphs/npz/tile/xla/train/some_kernel.npz

A file of many modules gets a line for each, and --module picks one.  Repeated
configurations have the same features, so no model can tell them apart; how much
their runtimes differ is noise that no model can explain.
"""

import argparse

from baselines import command_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from tpugraphs.inspect import plot

    parser.add_argument('file', metavar='FILE', help='a .pb or .npz file')
    about = 'the module to show: its name or number (from 0)'
    command_line.option(parser, '--module', str, about)
    about = f'draw the graph (up to {plot.MAX_NODES} nodes) and the runtimes; also '
    command_line.option(parser, '--plot', str, f'{about}.svg, .pdf', metavar='OUT.png')


def run(args: argparse.Namespace) -> None:
    """Prints, and draws on request."""
    from tpugraphs.inspect import jobs

    jobs.show(args.file, args.module, args.plot)
