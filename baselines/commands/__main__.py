"""`tpugraphs` and `python -m baselines.commands`: lists and runs the commands."""

import ast
import pathlib
import sys

from baselines.commands import command_line


def _commands() -> dict:
    """Maps a command's name to its first line of help, importing nothing."""
    found = {}
    for path in sorted(pathlib.Path(__file__).parent.glob('*.py')):
        tree = ast.parse(path.read_text(encoding='utf-8'))
        functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
        if {'add_arguments', 'run'} <= functions:
            found[path.stem] = (ast.get_docstring(tree) or '').split('\n')[0]
    return found


def main() -> int:
    """Runs the command named first on the command line."""
    commands = _commands()
    name = sys.argv[1] if len(sys.argv) > 1 else '--help'
    if name in commands:
        return command_line.run_command(name, sys.argv[2:])
    listed = command_line.guarded(lambda: _list(commands))
    if listed or name in ('-h', '--help', 'help'):
        return listed
    print(f'\nerror: no command is called {name!r}', file=sys.stderr)
    return 2


def _list(commands: dict) -> None:
    print('usage: tpugraphs COMMAND [--help] ...\n\ncommands:')
    for command, line in commands.items():
        print(f'  {command:<10} {line}')


if __name__ == '__main__':
    sys.exit(main())
