"""The command-line options of `collect` and `tune` on the device and the records."""

import argparse
import functools

from baselines import command_line

PLATFORMS = ('cpu', 'gpu')
FOLDER = '~/.cache/tpugraphs/records'  # with a file for every machine


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option = functools.partial(command_line.option, parser)
    option('--seed', 0, '')
    option('--platform', 'cpu', 'the device to measure on', choices=PLATFORMS)
    option('--core', -1, 'the core to measure on (default: the last)')
    about = 'tuning records, a file or folder'
    option('--records', FOLDER, about, metavar='FILE')
