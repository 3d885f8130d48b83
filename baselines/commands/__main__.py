"""`tpugraphs` and `python -m baselines.commands`: lists and runs the commands."""

import sys

from baselines import command_line
from baselines import commands
from baselines import text


def main() -> int:
    """Runs the command named first on the command line."""
    name = sys.argv[1] if len(sys.argv) > 1 else '--help'
    if name in commands.names():
        return commands.run(name, sys.argv[2:])
    code = command_line.guarded(_list)
    if code or name in ('-h', '--help', 'help'):
        return code
    print(f'\nerror: no command is called {name!r}', file=sys.stderr)
    return 2


def _list() -> None:
    print('usage: tpugraphs COMMAND [--help] ...\n\ncommands:')
    lines = {name: commands.load(name).__doc__ for name in commands.names()}
    rows = [[name, help_text.split('\n')[0]] for name, help_text in lines.items()]
    print('\n'.join(text.table(rows, '<<', indent=2)))


if __name__ == '__main__':
    sys.exit(main())
