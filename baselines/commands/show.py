"""Show what is in a raw (.pb) or npz file: graph, configurations, runtimes.

    tpugraphs show ~/raw/tuning_data.pb
    tpugraphs show ~/raw/tuning_data.pb --module fusion.232 --plot fusion.png
    tpugraphs show ~/data/tpugraphs/npz/tile/xla/train/some_kernel.npz

A file of many modules gets a line for each, and --module picks one.  Repeated
configurations have the same features, so no model can tell them apart; how much
their runtimes differ is noise that no model can explain.
"""

import argparse
import difflib
import sys
from typing import List

from baselines import files
from baselines.commands import command_line
from baselines.inspection import content as show_content
from baselines.inspection import plot as show_plot
from baselines.inspection import text as show_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument('file', metavar='FILE', help='a .pb or .npz file')
    parser.add_argument(
        '--module', help='the module to show: its name or number (from 0)'
    )
    parser.add_argument(
        '--plot',
        metavar='OUT.png',
        help='draw the graph (up to '
        f'{show_plot.MAX_NODES} nodes) and the runtimes; also .svg, .pdf',
    )


def run(args: argparse.Namespace) -> int:
    """Prints, and draws on request."""
    path = files.expand(args.file)
    contents = show_content.load(path)
    if args.module is not None:
        contents = [_chosen(path, contents, args.module)]
    if not contents:
        raise ValueError(f'{path}: has no modules')
    if all(content.problem and not content.opcodes for content in contents):
        raise ValueError(f'{path}: {contents[0].problem}')
    if args.plot and len(contents) > 1:
        raise ValueError(
            f'{path}: has {len(contents)} modules; choose the one to draw with --module'
        )
    if len(contents) == 1:
        print(show_text.describe(contents[0]))
    else:
        print(show_text.table(contents))
    if args.plot:
        show_plot.plot(contents[0], files.expand(args.plot))
        print(f'drawn: {args.plot}')
    return 0


def _chosen(
    path: str, contents: List[show_content.Content], wanted: str
) -> show_content.Content:
    """Returns the module that a name, its beginning, or a number means."""
    if wanted.isdecimal() and int(wanted) < len(contents):
        return contents[int(wanted)]
    safe = wanted.replace('.', '_')
    names = [content.name for content in contents]
    for content in contents:
        if content.name == safe or content.name.rpartition('_')[0] == safe:
            return content
    near = difflib.get_close_matches(safe, names, n=1, cutoff=0.3) or names[:1]
    raise ValueError(
        f'{path}: has no module {wanted!r}; it has {len(names)}'
        + (f', such as {near[0]}' if near else '')
    )


if __name__ == '__main__':
    sys.exit(command_line.run_command('baselines.commands.show'))
