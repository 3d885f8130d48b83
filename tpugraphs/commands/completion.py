"""Print a script that completes commands and flags in a shell.

    source <(tpugraphs completion bash)                # in ~/.bashrc
    source <(tpugraphs completion zsh)                 # in ~/.zshrc
    tpugraphs completion fish | source                 # in ~/.config/fish/config.fish

It is made from the flags that the commands declare, also those of `tpugraphs train
tile` and `tpugraphs train layout`; where no flag fits, it completes files.
"""

import argparse
import dataclasses
from typing import Dict, List

from baselines import config
from baselines import scripts
from tpugraphs import commands

_BASH = """\
_tpugraphs() {{
    local words=''
    case "$COMP_CWORD:${{COMP_WORDS[1]}}:${{COMP_WORDS[2]}}" in
        1:*) words='{commands}' ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _tpugraphs tpugraphs
"""
_ZSH = """\
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'), help='which shell')


def run(args: argparse.Namespace) -> None:
    """Prints the script."""
    if args.shell == 'fish':
        print(_fish())
    else:
        print((_ZSH if args.shell == 'zsh' else '') + _bash(), end='')


def _words() -> Dict[str, List[str]]:
    """What each command takes; for the tasks of `train` also as 'train:tile'."""
    found = {}
    for name in commands.names():
        words = []
        for action in commands.parser(name)._actions:
            words += [o for o in action.option_strings if o.startswith('--')]
            if not action.option_strings:
                words += action.choices or ()
        found[f'{name}:*'] = words
    for task, kind in config.CONFIGS.items():
        settings = [f'--{field.name}' for field in dataclasses.fields(kind)]
        found[f'train:{task}'] = [
            '--help',
            scripts.HELP_ALL,
            '--config',
            '--flagfile',
            *settings,
        ]
    return found


def _bash() -> str:
    words = _words()
    # What is more special goes first.
    cases = [
        f"        *:{key}) words='{' '.join(words[key])}' ;;"
        for key in sorted(words, key=lambda key: (key.endswith('*'), key))
    ]
    return _BASH.format(
        commands=' '.join([*commands.names(), '--help', '--version']),
        cases='\n'.join(cases),
    )


def _fish() -> str:
    lines = []
    for name in commands.names():
        about = (commands.load(name).__doc__ or '').partition('\n')[0]
        about = about.replace('\\', '').replace("'", '')
        lines.append(
            f"complete -c tpugraphs -n __fish_use_subcommand -f -a {name} -d '{about}'"
        )
    for key, words in _words().items():
        name, _, task = key.partition(':')
        seen = f'__fish_seen_subcommand_from {name}'
        if task != '*':
            seen += f'; and __fish_seen_subcommand_from {task}'
        for word in words:
            word = f'-l {word[2:]}' if word.startswith('--') else f'-f -a {word}'
            lines.append(f"complete -c tpugraphs -n '{seen}' {word}")
    return '\n'.join(lines)
