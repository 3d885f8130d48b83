"""`tpugraphs` and `python -m tpugraphs`: lists and runs the commands."""

import gc
import sys

import baselines
from baselines.core import exits
from baselines.core import registry
from baselines.core import text
from tpugraphs import commands


def main() -> int:
    """Runs the command named first on the command line."""
    name = sys.argv[1] if len(sys.argv) > 1 else '--help'
    if name in commands.names():
        code = commands.run(name, sys.argv[2:])
        gc.freeze()  # the process ends: its million objects need not be gone through
        return code
    if name == '--version':
        version = (
            baselines.version('tpugraphs') or 'is not installed; this is a checkout'
        )
        return exits.guarded(lambda: print(f'tpugraphs {version}'))
    code = exits.guarded(_list)
    if code or name in ('-h', '--help', 'help'):
        return code
    meant = registry.did_you_mean(name, commands.names())
    print(f'\nerror: no command is called {name!r}{meant}', file=sys.stderr)
    return 2


def _list() -> None:
    """Prints the usage, and a table of the commands."""
    print('usage: tpugraphs COMMAND [--help] ...\n       tpugraphs --version')
    print('\ncommands:')
    rows = [[name, commands.summary(name)] for name in commands.names()]
    print('\n'.join(text.table(rows, '<<', indent=2)))


if __name__ == '__main__':
    sys.exit(main())
