"""List the losses that --losses takes, with a line about each.

    tpugraphs losses

Several are combined with weights, as in --losses=ListMLELoss:1,MSE:0.02; one of your
own is my_file.py:my_loss.
"""

import argparse

from tpugraphs import api
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the table."""
    found = api.catalogue.losses()
    _options.show(args, found, lambda: found)
