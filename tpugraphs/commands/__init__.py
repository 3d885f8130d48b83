"""Commands: `tpugraphs <name>`, or `python -m tpugraphs <name>`.

Each module here is one command of its name: its docstring is the help text,
`add_arguments(parser)` declares the options, and `run(args)` makes one call, which does
the work.  Another distribution adds a package of such modules as an entry point of
the group `tpugraphs.commands`; they are `tpugraphs <its name> <name>`.
"""

import argparse
import ast
from collections.abc import Sequence
import functools
import importlib
import importlib.util
import pathlib
import pkgutil
import types
from typing import Any, NoReturn

from baselines.core import exits
from baselines.core import extensions


def list_commands(package: str = __name__) -> list[str]:
    """Returns the names of the commands of a package, sorted."""
    spec: Any = importlib.util.find_spec(package)
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return sorted(module.name for module in modules if module.name[0] != '_')


def list_packages() -> dict[str, str]:
    """Returns the packages of commands of other distributions, by name."""
    points = extensions.find(extensions.COMMANDS)
    return {name: point.value for name, point in points.items()}


def read_summary(name: str, package: str = __name__) -> str:
    """Returns the first line of a command's help.

    The command is not imported: all of them together import nearly everything.

    Args:
        name: the command, or '' for the package itself.
    """
    spec: Any = importlib.util.find_spec(package)
    [folder] = spec.submodule_search_locations
    source = pathlib.Path(folder, f'{name or "__init__"}.py').read_text('utf-8')
    return (ast.get_docstring(ast.parse(source)) or '').partition('\n')[0]


def import_command(name: str, package: str = __name__) -> types.ModuleType:
    """Imports the command of that name."""
    return importlib.import_module(f'{package}.{name}')


class _Parser(argparse.ArgumentParser):
    """A parser whose --help may go to a closed pipe or a full disk."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exits once all output is written."""
        super().exit(exits.run_guarded(lambda: status), message)


def make_parser(
    name: str, package: str = __name__, prog: str = 'tpugraphs'
) -> argparse.ArgumentParser:
    """Makes the parser of the command line of a command."""
    command = import_command(name, package)
    result = _Parser(
        prog=f'{prog} {name}',
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(result)
    return result


def run(
    name: str,
    argv: Sequence[str] | None = None,
    package: str = __name__,
    prog: str = 'tpugraphs',
) -> int:
    """Runs a command with `argv`, by default the process's; returns its exit code."""
    args = make_parser(name, package, prog).parse_args(argv)
    return exits.run_guarded(functools.partial(import_command(name, package).run, args))
