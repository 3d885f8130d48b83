"""Show a raw (.pb) or npz file: graph, configurations, runtimes.

    tpugraphs show ~/raw/tuning_data.pb
    tpugraphs show ~/raw/tuning_data.pb --module fusion.232 --plot fusion.png
    tpugraphs show ~/data/tpugraphs/npz/tile/xla/train/some_kernel.npz

A file of many modules gets a line for each, and --module picks one.  Repeated
configurations have the same features, so no model can tell them apart; how much
their runtimes differ is noise that no model can explain.  Of a message with an HLO
module (HloModuleProto, HloProto, HloSnapshot) the graph is shown.
"""

import argparse
from collections.abc import Callable
import sys

from baselines.core import exits
from baselines.core import text
from tpugraphs import inspect
from tpugraphs.commands import _options
from tpugraphs.inspect import layers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument('file', metavar='FILE', help='a .pb or .npz file')
    add_options(parser)
    _options.add_moved(parser, 'show', '--batch_size', '--seconds')


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options that do not depend on the form of the file."""
    about = 'show only this module, by its name or number (from 0)'
    _options.add_option(parser, '--module', str, about)
    about = f'draw the graph (up to {layers.MOST} nodes) and the runtimes; also '
    _options.add_option(parser, '--plot', str, f'{about}.svg, .pdf', metavar='OUT.png')
    _options.add_json(parser, 'text')


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Prints the graphs of a file, and draws one on request."""
    described = inspect.showing.describe_file(args.file, args.module, args.plot)
    print_description(args, described.to_json(), described.to_text)


def print_description(
    args: argparse.Namespace, content: object, to_text: Callable[[], str]
) -> None:
    """Prints a description, as JSON for --json, and names the picture."""
    _options.show(args, content, to_text)
    if args.plot:
        drawn = f'drawn: {text.printable(args.plot)}'
        print(drawn, file=sys.stderr if args.json else sys.stdout)
