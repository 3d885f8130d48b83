"""Runs commands of the laboratory in this process."""

from tpugraphs import commands
import tpugraphs_lab.commands


def run(name, argv):
    """Runs `tpugraphs lab NAME`; returns its exit code."""
    package = tpugraphs_lab.commands.__name__
    return commands.run(name, [str(word) for word in argv], package, 'tpugraphs lab')
