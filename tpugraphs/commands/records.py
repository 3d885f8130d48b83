"""List the tuning records: kernels, their best configurations, machines.

  tpugraphs records
  tpugraphs records my_program_1f             # the best configurations of a kernel
  tpugraphs records --prune 90                # remove records of 90 days ago and more
  tpugraphs records --export t4

`tpugraphs tune` and `tpugraphs collect` append a line of JSON for each measurement
of a kernel, and `tune` starts from them.  A speed-up is the default's time
over that of a configuration in the same passes; `tune` proves one.  --export writes
a file for each kernel and machine in the T4 format, of Kernel Tuner and its
benchmark hub, in which a search can be replayed without the machine.
"""

import argparse
import functools

from baselines import command_line
from baselines import files
from baselines import text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from tpugraphs.measure import machine_records

    option = functools.partial(command_line.option, parser)
    about = 'show the best of the kernel whose name or fingerprint begins so'
    parser.add_argument('kernel', nargs='?', default='', metavar='KERNEL', help=about)
    about = 'a file of records, or a folder of such files'
    option('--records', machine_records.FOLDER, about, metavar='FILE')
    about = 'remove records as many days old, or with "others" those of other '
    about += 'machines and versions of jaxlib'
    option('--prune', '', about, metavar='DAYS|others')
    option('--export', '', 'write T4 files', metavar='FOLDER')


def run(args: argparse.Namespace) -> None:
    """Prunes, exports or prints."""
    from tpugraphs.measure import record_tables
    from tpugraphs.measure import records
    from tpugraphs.measure import t4

    paths = record_tables.paths_of(args.records)
    if args.prune:
        keeps = record_tables.keeps(args.prune)
        removed = sum(records.prune(path, keeps) for path in paths)
        print(f'{text.count(removed, "line")} removed')
    measurements = record_tables.load(paths)
    if args.kernel:
        measurements = record_tables.of_kernel(measurements, args.kernel)
    if args.export:
        written = t4.export(measurements, files.expand(args.export))
        print(f'{text.count(len(written), "kernel")} written to {args.export}')
    elif args.kernel:
        print('\n'.join(record_tables.best(measurements)))
    elif not args.prune:
        print('\n'.join(record_tables.kernels(measurements)))
