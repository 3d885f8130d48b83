"""Commands: `tpugraphs <name>`, or `python -m tpugraphs <name>`.

Each module here is one command of its name: its docstring is the help text,
`add_arguments(parser)` declares the options, and `run(args)` makes one call of what
does the work.
"""

import argparse
import ast
from collections.abc import Sequence
import functools
import importlib
import pathlib
import pkgutil
import types
from typing import NoReturn

from baselines.core import exits


def names() -> list[str]:
    """Returns the names of all commands, sorted."""
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name for name in modules if not name.startswith('_'))


def summary(name: str) -> str:
    """Returns the first line of a command's help.

    The command is not imported: all of them together import nearly everything.
    """
    [folder] = __path__
    source = pathlib.Path(folder, f'{name}.py').read_text(encoding='utf-8')
    return (ast.get_docstring(ast.parse(source)) or '').partition('\n')[0]


def load(name: str) -> types.ModuleType:
    """Imports the command of that name."""
    return importlib.import_module(f'{__name__}.{name}')


class _Parser(argparse.ArgumentParser):
    """A parser whose --help may be printed where nobody reads on, or nothing fits."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exits once what was printed is written."""
        super().exit(exits.guarded(lambda: status), message)


def parser(name: str) -> argparse.ArgumentParser:
    """Makes the parser of the command line of a command."""
    command = load(name)
    result = _Parser(
        prog=f'tpugraphs {name}',
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(result)
    return result


def run(name: str, argv: Sequence[str] | None = None) -> int:
    """Runs a command with `argv`, by default the process's; returns its exit code."""
    args = parser(name).parse_args(argv)
    return exits.guarded(functools.partial(load(name).run, args))
