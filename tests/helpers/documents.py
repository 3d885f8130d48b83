"""The commands in documents: checked without running, and run as they are pasted.

A block of commands is fenced with ```sh.  `Shell` gives it to bash, where `tpugraphs`,
`python` and the like are functions that ask this process to do the work, through two
named pipes: TensorFlow is imported once.
"""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
import threading

from absl import flags

from baselines import config
from baselines import scripts
from tests.helpers import places
from tpugraphs import commands
from tpugraphs.commands import __main__ as main

ROOT = places.ROOT
_TASKS = {'tiles_train.py': 'tile', 'layout_train.py': 'layout'}
_PROGRAMS = (
    *('python', 'python3', 'tpugraphs', 'pip'),
    *('ruff', 'mypy', 'lint-imports', 'mkdocs', 'pre-commit'),
)
_FUNCTIONS = """
ask() {
  printf '%s\\0' "$PWD" "$@" > "$PIPES/question"
  read -r code < "$PIPES/code"
  cat "$PIPES/output"
  return "$code"
}
""" + ''.join(f'{name}() {{ ask {name} "$@"; }}\n' for name in _PROGRAMS)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: str  # its path, relative to the repository
    line: int  # of its first line
    language: str  # after the fence
    text: str


def documents() -> list[str]:
    """Lists the documents of the toolkit, relative to the repository."""
    return ['README.md', 'CONTRIBUTING.md', 'benchmarks/README.md', *pages('docs')]


def pages(folder: str) -> list[str]:
    """Lists the documents below a folder, relative to the repository."""
    found = (ROOT / folder).rglob('*.md')
    return sorted(str(page.relative_to(ROOT)) for page in found)


def blocks(document: str) -> list[Block]:
    """Reads the fenced blocks of a document."""
    text = (ROOT / document).read_text(encoding='utf-8')
    return [
        Block(document, text[: m.start()].count('\n') + 2, m[1], m[2])
        for m in re.finditer(r'^```(\w*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    ]


def complaint(words: Sequence[str]) -> str:
    """Says what is wrong with a command that is not run: '' if nothing is."""
    name, *rest = words
    if name == 'tpugraphs':
        return _complaint_of_command(rest)
    if name == 'python' and rest[0] in _TASKS:
        return _complaint_of_training(_TASKS[rest[0]], rest[1:])
    if name == 'python' and rest[0].endswith('.py'):
        return _complaint_of_script(*rest)
    if name == 'pip':
        declared = (ROOT / 'setup.py').read_text(encoding='utf-8')
        extras = re.findall(r'(?<=[\[,])\w+(?=[\],])', ' '.join(rest))
        return ''.join(f'no extra {e}; ' for e in extras if f"'{e}': " not in declared)
    return ''


def _complaint_of_command(words: Sequence[str]) -> str:
    package = commands.__name__
    if words and words[0] in commands.list_packages():
        package, words = commands.list_packages()[words[0]], words[1:]
    if not words or words[0] not in commands.list_commands(package):
        return '' if words in (['--version'], ['--help'], []) else 'no such command'
    if words[0] == 'train' and '--help' not in words:
        return _complaint_of_training(words[1], words[2:])
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
            commands.make_parser(words[0], package).parse_args(words[1:])
    except SystemExit as end:
        return errors.getvalue() if end.code else ''
    return ''


def _complaint_of_training(task: str, words: Sequence[str]) -> str:
    values = flags.FlagValues()
    scripts.define_flags(config.CONFIGS[task], values=values)
    try:
        rest = values(['script', *words])
    except flags.Error as error:
        return str(error)
    return f'no flags: {rest[1:]}' if rest[1:] else ''


def _complaint_of_script(script: str, *words: str) -> str:
    """Looks for the flags of a script in its text."""
    path = ROOT / script
    if not path.exists():
        return f'there is no {script}'
    text = path.read_text(encoding='utf-8')
    names = [word.partition('=')[0] for word in words if word.startswith('--')]
    return ''.join(
        f'{script} has no {name}; '
        for name in names
        if f"'{name}'" not in text and f"'{name[2:]}'" not in text
    )


class Shell:
    """Runs blocks as they are pasted, in a folder that looks like the repository.

    Args:
        folder: for HOME, and for a folder with links to what the repository has.
        skipped: tells whether a command is not run, but checked only.
        smaller: words that make a command small, which are added to it.
    """

    def __init__(
        self,
        folder,
        skipped: Callable[[str], bool],
        smaller: Callable[[Sequence[str]], Sequence[str]],
    ):
        self._skipped, self._smaller = skipped, smaller
        self.home, self.folder = folder / 'home', folder / 'repository'
        self._pipes = folder / 'pipes'
        for path in (self.home, self.folder, self._pipes):
            path.mkdir()
        for name in ('question', 'code'):
            os.mkfifo(self._pipes / name)
        for path in ROOT.iterdir():
            if path.name[0] != '.' and path.name not in ('build', 'dist'):
                (self.folder / path.name).symlink_to(path)
        # As `python -m venv .venv` would make it.
        (self.folder / '.venv/bin').mkdir(parents=True)
        (self.folder / '.venv/bin/activate').touch()
        self._done: set = set()  # what need not be done again

    def paste(self, block: Block) -> None:
        """Runs a block; fails with its place and what it said."""
        ended: list[subprocess.CompletedProcess] = []
        thread = threading.Thread(target=self._bash, args=(block.text, ended))
        thread.start()
        while question := (self._pipes / 'question').read_text():
            code, output = self._answer(*question[:-1].split('\0'))
            (self._pipes / 'output').write_text(output)
            (self._pipes / 'code').write_text(f'{code or 0}\n')
        thread.join()
        assert ended[0].returncode == 0, (
            f'{block.document}:{block.line}:\n{ended[0].stdout}'
        )

    def _bash(self, text: str, ended: list) -> None:
        """Runs a text in bash, and then ends the wait for its commands."""
        ended.append(
            subprocess.run(
                ['bash', '--norc', '-eu', '-o', 'pipefail', '-c', _FUNCTIONS + text],
                cwd=self.folder,
                env={**os.environ, 'HOME': str(self.home), 'PIPES': str(self._pipes)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        (self._pipes / 'question').write_text('')

    def _answer(self, folder: str, *words: str):
        """Does the work of a command; returns its exit code and output."""
        words = ('python', *words[1:]) if words[0] == 'python3' else words
        if self._skipped(' '.join(words)):
            wrong = complaint(words)
            return int(bool(wrong)), wrong
        words = (*words, *self._smaller(words))
        # What these print is read by people alone: once with the same flags is enough.
        is_shown = words[1:2] in [('evaluate',), ('ensemble',), ('report',)]
        flags_of = {word.partition('=')[0] for word in words if word[:2] == '--'}
        key = (words[1], *sorted(flags_of)) if is_shown else words
        if key in self._done:
            return 0, ''
        output = io.StringIO()
        before = os.getcwd()
        try:
            os.chdir(folder)
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = run(words)
        finally:
            os.chdir(before)
        # Without a folder of its own a training is also there to be `latest`.
        elsewhere = any(word.startswith('--out_dir=') for word in words)
        if (is_shown or '--toy_data' in words and elsewhere) and not code:
            self._done.add(key)
        return code, f'{words}\n{output.getvalue()}' if code else output.getvalue()


def run(words: Sequence[str]) -> int | None:
    """Runs a command in this process; returns its exit code."""
    name, *rest = words
    if name == 'python' and rest[0] in _TASKS:
        name, rest = 'tpugraphs', ['train', _TASKS[rest[0]], *rest[1:]]
    if name == 'python' and rest[0] == 'tiles_gen_predictions_csv.py':  # the same
        name, rest = 'tpugraphs', ['predict', *rest[1:]]
    if name == 'tpugraphs':
        before = sys.argv
        try:
            sys.argv = ['tpugraphs', *rest]
            return main.main()
        except SystemExit as end:
            return end.code
        finally:
            sys.argv = before
    done = subprocess.run(
        [sys.executable, *rest], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout.decode())
    return done.returncode
