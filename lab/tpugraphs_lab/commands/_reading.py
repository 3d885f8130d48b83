"""The options of reading programs."""

import argparse

from tpugraphs.commands import _options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares how programs are read, as `programs.reader.Options` has it."""
    about = 'take this as the first size of inputs of a program that do not say it'
    _options.add_option(parser, '--batch_size', int, about, metavar='N')
    about = 'take at most this processor time each to read and compile a program '
    about += '(default: 30 for texts, 600 for Python and SavedModels)'
    _options.add_option(parser, '--seconds', int, about, metavar='S')
