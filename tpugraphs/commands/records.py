"""List the tuning records: kernels, their best configurations, machines.

  tpugraphs records
  tpugraphs records my_program_1f             # the best configurations of a kernel
  tpugraphs records --prune 90                # remove records of 90 days ago and more
  tpugraphs records --export t4
  tpugraphs records --import t4/*.json other_machine.jsonl

`tpugraphs tune` and `tpugraphs collect` append a line of JSON for each measurement
of a kernel, and `tune` starts from them.  A speed-up is the default's time
over that of a configuration in the same passes; `tune` proves one.  --export writes
a file for each kernel and machine in the T4 format, of Kernel Tuner and its
benchmark hub, in which a search can be replayed without the machine.  --import
adds the records of such files, and of other files of records; each counts once.
"""

import argparse
import functools
import sys

from baselines import command_line
from baselines.core import files
from baselines.core import starting
from baselines.core import text
from tpugraphs.records import arguments
from tpugraphs.records import records
from tpugraphs.records import t4
from tpugraphs.records import tables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option = functools.partial(command_line.option, parser)
    about = 'show the best of the kernel whose name or fingerprint begins so'
    parser.add_argument('kernel', nargs='?', default='', metavar='KERNEL', help=about)
    about = 'a file of records, or a folder of such files'
    option('--records', arguments.FOLDER, about, metavar='FILE')
    about = 'remove records as many days old, or with "others" those of other '
    about += 'machines and versions of jaxlib'
    option('--prune', '', about, metavar='DAYS|others')
    option('--export', '', 'write T4 files', metavar='FOLDER')
    command_line.add_json(parser)
    about = 'add the records of files, *.json in T4, others as --records'
    parser.add_argument(
        '--import', nargs='+', dest='sources', metavar='FILE', help=about
    )


@starting.without_garbage_collection()
def run(args: argparse.Namespace) -> None:
    """Imports, prunes, exports or prints."""
    done = sys.stderr if args.json else sys.stdout
    if args.sources:
        print(*tables.merge(args.sources, args.records), sep='\n', file=done)
    paths = tables.paths_of(args.records)
    if args.prune:
        keeps = tables.keeps(args.prune)
        removed = sum(records.prune(path, keeps) for path in paths)
        print(f'{text.count(removed, "line")} removed', file=done)
    measurements = tables.load(paths)
    if args.kernel:
        measurements = tables.of_kernel(measurements, args.kernel)
    if args.export:
        written = t4.export(measurements, files.expand(args.export))
        where = text.count(len(written), 'kernel')
        print(f'{where} written to {args.export}', file=done)
    if args.json or not (args.sources or args.prune or args.export):
        as_json, lines = tables.kernels_json, tables.kernels_table
        if args.kernel:
            as_json, lines = tables.best_json, tables.best_table
        content = as_json(measurements)
        command_line.show(args, content, lambda: '\n'.join(lines(content)))
