"""`tpugraphs` and `python -m tpugraphs`: lists and runs the commands."""

import gc
import sys

import baselines
from baselines.core import exits
from baselines.core import extensions
from baselines.core import registry
from baselines.core import text
from tpugraphs import commands


def main() -> int:
    """Runs the command named first on the command line."""
    prog, package, argv = 'tpugraphs', commands.__name__, sys.argv[1:]
    packages = {}
    if not argv or argv[0] not in commands.list_commands():
        packages = commands.list_packages()
    if argv and argv[0] in packages:
        name, *argv = argv
        prog, package, packages = f'{prog} {name}', packages[name], {}
    name = argv[0] if argv else '--help'
    names = commands.list_commands(package)
    if name in names:
        code = commands.run(name, argv[1:], package, prog)
        gc.freeze()  # the process ends: its million objects need not be gone through
        return code
    if name == '--version':
        version = baselines.version('tpugraphs') or 'is not installed: a checkout'
        return exits.run_guarded(lambda: print(f'tpugraphs {version}'))
    if name == 'collect':  # a command up to 0.4.0
        line = extensions.refer_to_lab('tpugraphs collect', 'collect')
        print(f'error: {line}', file=sys.stderr)
        return 2
    rows = [[name, commands.read_summary(name, package)] for name in names]
    rows += [[name, commands.read_summary('', path)] for name, path in packages.items()]
    code = exits.run_guarded(lambda: _print_commands(prog, rows))
    if code or name in ('-h', '--help', 'help'):
        return code
    meant = registry.suggest_nearest(name, [*names, *packages])
    print(f'\nerror: no command is called {name!r}{meant}', file=sys.stderr)
    return 2


def _print_commands(prog: str, rows: list[list[str]]) -> None:
    """Prints the usage, and a table of the commands."""
    print(f'usage: {prog} COMMAND [--help] ...\n       tpugraphs --version')
    print('\ncommands:')
    print('\n'.join(text.format_table(rows, '<<', indent=2)))


if __name__ == '__main__':
    sys.exit(main())
