"""Declares the options of commands, and shows their results."""

import argparse
from collections.abc import Callable
import contextlib
import functools
import math
from typing import Any

from baselines import config
from baselines.core import extensions
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import collections
from baselines.runs import finding

_Options = argparse._ActionsContainer  # a parser, or a group of its options


def add_option(
    parser: _Options, flag: str, default: Any, about: str, **rules: Any
) -> None:
    """Declares an option of its default's type; --help names the default.

    Args:
        default: the help omits '' and infinity; a type means None.  Numbers above
            `settings_lib.MOST` are refused, unless it is one.
        about: the help text; it may describe the default in other words.
        **rules: further arguments of `add_argument`.
    """
    kind: Any = default if isinstance(default, type) else type(default)
    default = None if kind is default else default
    if default not in (None, '', math.inf) and 'default: ' not in about:
        about = f'{about} (default: %(default)s)'.strip()
    if kind in (int, float):
        kind = functools.partial(_parse_number, kind, default)
    parser.add_argument(flag, type=kind, default=default, help=about, **rules)


def _parse_number(kind: type, default: float | None, word: str) -> float:
    """Reads a number of an option; raises ArgumentTypeError."""
    with contextlib.suppress(ValueError):
        number = kind(word)
        if number <= settings_lib.MOST or number == default:
            return number
    wanted = f'{settings_lib.TYPES[kind]} up to {settings_lib.MOST:,}'
    raise argparse.ArgumentTypeError(f'must be {wanted}, not {word!r}')


def add_switch(parser: _Options, flag: str, about: str) -> None:
    """Declares an option without a value."""
    parser.add_argument(flag, action='store_true', help=about)


def add_negatable(parser: _Options, name: str, about: str) -> None:
    """Declares an option without a value that has an opposite: --x, --no-x and --nox.

    It is None where neither is given.
    """
    negatable = argparse.BooleanOptionalAction
    parser.add_argument(f'--{name}', action=negatable, help=about)
    # absl's way, which only the help omits.
    hidden = argparse.SUPPRESS
    parser.add_argument(f'--no{name}', dest=name, action='store_false', help=hidden)


class _Moved(argparse.Action):
    """An option that a command of the laboratory has; `const` is the command."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, name: Any = None
    ) -> None:
        line = extensions.refer_to_lab(name, self.const)
        parser.exit(2, f'error: {line}\n')


def add_moved(parser: argparse.ArgumentParser, command: str, *names: str) -> None:
    """Declares options that the laboratory's command of the same name has."""
    for name in names:
        parser.add_argument(
            name, action=_Moved, nargs='?', const=command, help=argparse.SUPPRESS
        )


def add_json(parser: argparse.ArgumentParser, instead: str = 'a table') -> None:
    """Declares --json, for commands whose result `show` prints."""
    add_switch(
        parser, '--json', f'print JSON instead of {instead} (docs/guide/json.md)'
    )


def show(
    args: argparse.Namespace, content: object, shown: Callable[[], object]
) -> None:
    """Prints the result of a command on stdout: as JSON for --json, else as text.

    Args:
        content: the JSON; values that are not defined are None.
    """
    print(text.to_json(content) if args.json else shown())


def add_runs(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Declares the run or runs of a command: plain arguments, or --dir."""
    parser.add_argument('runs', nargs='*', help=argparse.SUPPRESS)
    add_dir(parser, several, '; the flag itself may be left out')


def add_dir(
    parser: argparse.ArgumentParser, several: bool = False, more: str = ''
) -> None:
    """Declares --dir, alone where plain arguments are files, and --out_dir.

    Args:
        several: whether the command takes several runs.
        more: the end of the help text.
    """
    which = 'use these runs, each' if several else 'use this run:'
    parser.add_argument(
        '--dir',
        '--dirs',
        dest='dirs',
        nargs='+' if several else 1,
        action='extend',
        default=[],
        metavar='RUN',
        help=f'{which} {finding.FORMS}{more}',
    )
    about = 'look up names of runs in this folder (default: where trainings write)'
    add_option(parser, '--out_dir', '', about, metavar='FOLDER')


def get_run_names(args: argparse.Namespace, needed: bool = True) -> list[str]:
    """Returns the names of the runs of a command; raises ValueError for none.

    Args:
        needed: False where a command works without a run, too.
    """
    names = [*getattr(args, 'runs', ()), *args.dirs]
    if needed and not names:
        raise ValueError(f'name a run, such as --dir latest; it is {finding.FORMS}')
    if not args.out_dir:
        return names
    return [finding.prefix_folder(args.out_dir, name) for name in names]


def get_run_name(args: argparse.Namespace, needed: bool = True) -> str:
    """Returns the name of the one run of a command; raises ValueError otherwise.

    Args:
        needed: if False, the name is '' where none is given.
    """
    names = get_run_names(args, needed)
    if len(names) > 1:
        raise ValueError(f'one run is wanted, not {len(names)}: {" ".join(names)}')
    return names[0] if names else ''


def add_run_arguments(parser: argparse.ArgumentParser, split: str = 'test') -> None:
    """Declares which runs, and which data, a command works on."""
    # The defaults of data come from the run, so no option has the setting's own.
    add_runs(parser, several=True)
    about = 'use the kernels or programs of this split'
    add_option(parser, '--split', split, about, choices=collections.SPLITS)
    about = 'read the splits from this folder (default: where the run was trained, '
    about += f'if that is there, else {config.TileConfig.data_root})'
    add_option(parser, '--data_root', '', about)
    about = 'keep packed splits in this folder (default: ~/data/tpugraphs/cache)'
    add_option(parser, '--cache_dir', '', about)
    add_models_file(parser)
    about = f'{settings_lib.get_help(config.LayoutConfig, "memory_budget")} of layouts'
    most = config.LayoutConfig.memory_budget
    add_option(parser, '--memory_budget', most, about, metavar='MB')
    about = settings_lib.get_help(config.TileConfig, 'sample_data')
    add_switch(parser, '--sample_data', about)
    of_run = "(default: as in the run's training, if no data are named)"
    about = f'use only the first few files of each split {of_run}'
    add_negatable(parser, 'toy_data', about)
    about = f'{settings_lib.get_help(config.TileConfig, "skip_bad_files")} {of_run}'
    add_negatable(parser, 'skip_bad_files', about)


def add_collection(parser: argparse.ArgumentParser, estimate: bool = True) -> None:
    """Declares which collection a run of several scores.

    Args:
        estimate: whether the command takes the untrained estimate, too.
    """
    about = 'score this collection of a run that was trained on several'
    if estimate:
        first, *others = collections.NAMES
        about += f', or of --dir {finding.ESTIMATE}, the untrained formulas of a TPU '
        about += f'v3: {first} (default), {", ".join(others)}'
    add_option(parser, '--collection', '', about, metavar='NAME')


def add_models_file(parser: argparse.ArgumentParser) -> None:
    """Declares where a command finds the user's own models."""
    about = settings_lib.get_help(config.TileConfig, 'models_file')
    add_option(parser, '--models_file', '', about)


def add_beam_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares with which Apache Beam runner a command works."""
    about = 'work with this Apache Beam runner, such as DirectRunner: all cores '
    add_option(parser, '--runner', '', f'{about}(docs/guide/scale.md)')
    about = 'pass these options, one string, to the Beam runner'
    add_option(parser, '--beam_options', '', about)
