"""List the losses that --losses takes, with a line about each.

    tpugraphs losses

Several are combined with weights, as in --losses=ListMLELoss:1,MSE:0.02; one of your
own is my_file.py:my_loss.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options: none."""


def run(args: argparse.Namespace) -> None:
    """Prints the table."""
    from tpugraphs import catalogue

    print(catalogue.losses())
