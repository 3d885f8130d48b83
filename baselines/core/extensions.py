"""Finds what other installed distributions add, by Python's entry points.

    tpugraphs.commands    name -> package of commands
    tpugraphs.columns     <machine>.<name> -> module with a class `Columns`
    tpugraphs.runs        name -> function that returns the folder of a run

The measuring laboratory in lab/ adds to each of these groups.
"""

import functools
import importlib.metadata
import platform

COMMANDS = 'tpugraphs.commands'
COLUMNS = 'tpugraphs.columns'
RUNS = 'tpugraphs.runs'

_INSTALL = 'pip install ./lab'


@functools.cache
def find(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the entry points of a group by name, without importing anything."""
    points = importlib.metadata.entry_points(group=group)
    return {point.name: point for point in points}


def find_version(package: str) -> str:
    """Returns the version of an installed package; '' if it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ''  # TensorFlow goes by other names, too


def list_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that results depend on."""
    names = 'tensorflow', 'tensorflow_gnn', 'numpy'
    return {
        'python': platform.python_version(),
        **{name: find_version(name) for name in names},
    }


def explain_columns() -> str:
    """Returns the end of a message about unknown columns: how to install more."""
    is_installed = bool(find(COLUMNS))
    return '' if is_installed else f'; more are in the laboratory: {_INSTALL}'


def refer_to_lab(subject: str, command: str = '') -> str:
    """Returns the line for a user who asks the toolkit for a part of the laboratory.

    Args:
        subject: what the user asked for.
        command: the command of the laboratory that does it; '' for none.
    """
    if command and 'lab' in find(COMMANDS):
        return f'{subject}: use `tpugraphs lab {command}`'
    return f'{subject} is in the laboratory: {_INSTALL}'
