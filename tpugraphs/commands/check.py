"""Compare packed splits with the checksums that were taken as they were packed.

  tpugraphs check --cache_dir ~/data/tpugraphs/cache

reads every folder of that cache (the default) and names those in which a bit has
flipped, on a disk or in memory; remove such a folder, and it is packed anew.
When a split is opened, only columns of up to 16 MB are compared (all offsets
among them), and all of them when a loss or a score is not finite.  Folders that
were packed before there were checksums are named as well; they are not used.
"""

import argparse

from baselines import command_line
from baselines import files
from baselines import text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    where = '~/data/tpugraphs/cache'
    command_line.option(parser, '--cache_dir', where, 'where packed splits are kept')


def run(args: argparse.Namespace) -> int:
    """Prints a line for each folder; returns 1 if one is damaged."""
    from baselines.data.packed import cache

    damaged = 0
    for folder, size, wrong in cache.verify(files.expand(args.cache_dir)):
        damaged += bool(wrong)
        print(f'{folder}: {text.printable(wrong) or f"{size:,} bytes are as packed"}')
    return int(bool(damaged))
