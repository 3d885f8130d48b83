"""The commands in documents: read, checked without running, and run as pasted.

A block of commands is fenced with ```sh.  `Shell` gives it to a real bash, in which
`tpugraphs` and `python` are functions that ask this process to do the work: so
TensorFlow is imported once.
"""

import contextlib
import dataclasses
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import Callable, List, Optional, Sequence, Set

from absl import flags

from baselines import commands
from baselines import config
from baselines import scripts
from baselines.commands import __main__ as main
from tests.helpers import places

ROOT = places.ROOT
_TRAINS = {'tiles_train.py': config.TileConfig, 'layout_train.py': config.LayoutConfig}
_WORDS = ('python', 'tpugraphs', 'pip', 'ruff', 'mypy', 'pre-commit', 'dask')


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: str  # its path, relative to the repository
    line: int  # of its first line
    language: str  # after the fence
    text: str

    def commands(self) -> List[List[str]]:
        """The words of its commands, as far as they can be told without a shell."""
        text = self.text.replace('\\\n', ' ')
        text = re.sub(r'(^|\s)#.*|[<>] *\S+', '', text, flags=re.MULTILINE)
        text = re.sub(r'\$(\w+|{\w+})', '1', text)
        lexer = shlex.shlex(text, posix=True, punctuation_chars=';|&\n')
        lexer.whitespace, lexer.whitespace_split = ' \t', True
        found: List[List[str]] = []
        words: List[str] = []
        for word in [*lexer, '\n']:
            if not set(word) <= set(';|&\n'):
                words.append(word)
                continue
            while words and words[0] not in _WORDS:
                words.pop(0)  # do, then, NAME=value
            if words:
                found.append(words)
            words = []
        return found


def documents() -> List[str]:
    """All documents of the repository, relative to it."""
    tops = ('README.md', 'CONTRIBUTING.md', 'benchmarks/README.md')
    pages = (ROOT / 'docs').rglob('*.md')
    return [*tops, *sorted(str(page.relative_to(ROOT)) for page in pages)]


def blocks(document: str) -> List[Block]:
    """The fenced blocks of a document."""
    text = (ROOT / document).read_text(encoding='utf-8')
    return [
        Block(document, text[: m.start()].count('\n') + 2, m[1], m[2])
        for m in re.finditer(r'^```(\w*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    ]


def complaint(words: Sequence[str]) -> str:
    """What is wrong with a command that is not run: '' if nothing is."""
    name, *rest = words
    if 'tiles_train.py' in rest[:1] or 'layout_train.py' in rest[:1]:
        return _of_training(_TRAINS[rest[0]], rest[1:])
    if name == 'tpugraphs':
        return _of_command(rest)
    if rest[:1] == ['-m'] and rest[1].startswith('baselines.commands.'):
        return _of_command([rest[1].rpartition('.')[2], *rest[2:]])
    if name == 'pip':
        known = (ROOT / 'setup.py').read_text(encoding='utf-8')
        extras = re.findall(
            r'\w+', ' '.join(re.findall(r'\[([\w,]+)\]', ' '.join(rest)))
        )
        return ''.join(f'no extra {e}; ' for e in extras if f"'{e}': " not in known)
    if name == 'python' and rest and rest[0].endswith('.py'):
        return _of_script(rest)
    return ''


def _of_command(words) -> str:
    if not words or words[0] not in commands.names():
        return '' if words in (['--version'], ['--help'], []) else 'no such command'
    if words[0] == 'train' and words[1:2] and '--help' not in words:
        return _of_training(config.CONFIGS[words[1]], words[2:])
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
            commands.parser(words[0]).parse_args(words[1:])
    except SystemExit as end:
        return errors.getvalue() if end.code else ''
    return ''


def _of_training(kind, words) -> str:
    values = flags.FlagValues()
    scripts.define_flags(kind, values=values)
    if '--help' in words:
        return ''
    try:
        rest = values(['script', *words])
    except flags.Error as error:
        return str(error)
    return f'no flags: {rest[1:]}' if rest[1:] else ''


def _of_script(words) -> str:
    """Flags of other scripts are looked for in their text."""
    path = ROOT / words[0]
    if not path.exists():
        return f'there is no {words[0]}'
    text = path.read_text(encoding='utf-8')
    names = [word.partition('=')[0] for word in words[1:] if word.startswith('--')]
    unknown = [
        name
        for name in names
        if f"'{name}'" not in text and f"'{name[2:]}'" not in text and name != '--help'
    ]
    return ''.join(f'{words[0]} has no {name}; ' for name in unknown)


_FUNCTIONS = """
set -eu -o pipefail
_ask() {
    local code
    printf '%s\\0' "$#" "$PWD" "$@" >&"$ASK"
    IFS= read -r code <&"$ANSWER"
    cat "$SAID"
    return "$code"
}
"""


class Shell:
    """Runs blocks as they are pasted, in a folder that looks like the repository.

    Args:
        folder: for HOME, and for a folder with links to what the repository has.
        skipped: why a command is not run but checked only; None: it is run.
        smaller: words that make a command small, which are added to it.
    """

    def __init__(
        self,
        folder,
        skipped: Callable[[List[str]], Optional[str]],
        smaller: Callable[[List[str]], Sequence[str]],
    ):
        self._skipped, self._smaller = skipped, smaller
        self._said = folder / 'said'
        self.home, self.folder = folder / 'home', folder / 'repository'
        for path in (self.home, self.folder):
            path.mkdir()
        for path in ROOT.iterdir():
            if path.name[0] != '.' and path.name not in ('build', 'dist'):
                (self.folder / path.name).symlink_to(path)
        self.asked: List[List[str]] = []
        self._trained: Set[Sequence[str]] = set()  # once is enough

    def paste(self, block: Block) -> None:
        """Runs a block; fails with its place, the command, and what it said."""
        ask, answer = os.pipe(), os.pipe()
        lines = [f'{name}() {{ _ask {name} "$@"; }}' for name in _WORDS]
        script = '\n'.join([_FUNCTIONS, *lines, block.text])
        environment = {
            **os.environ,
            'HOME': str(self.home),
            'ASK': str(ask[1]),
            'ANSWER': str(answer[0]),
            'SAID': str(self._said),
        }
        process = subprocess.Popen(
            [shutil.which('bash') or 'bash', '--norc', '-c', script],
            cwd=self.folder,
            env=environment,
            pass_fds=(ask[1], answer[0]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(ask[1])
        os.close(answer[0])
        with open(ask[0], 'rb') as questions, open(answer[1], 'w') as answers:
            for words in _questions(questions):
                answers.write(f'{self._answer(*words)}\n')
                answers.flush()
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, (
            f'{block.document}:{block.line}: {self.asked[-1:]}:\n{said}'
        )

    def _answer(self, folder: str, *words: str) -> int:
        """Does the work of a command; what it says is in the file; its exit code."""
        self.asked.append(list(words))
        reason = self._skipped(list(words))
        if reason is not None:
            wrong = complaint(words)
            self._said.write_text(wrong)
            return int(bool(wrong))
        words = (*words, *self._smaller(list(words)))
        if words in self._trained:
            self._said.write_text('')
            return 0
        said = io.StringIO()
        before = os.getcwd()
        try:
            os.chdir(folder)
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = _run(words)
        finally:
            os.chdir(before)
        self._said.write_text(said.getvalue())
        if '--toy_data' in words and not code:
            self._trained.add(words)
        return code


def _questions(stream):
    """Yields the folder and the words of each question, until the shell ends."""
    parts = []
    for part in iter(lambda: _until_zero(stream), None):
        parts.append(part)
        if len(parts) == int(parts[0]) + 2:
            yield parts[1:]
            parts = []


def _until_zero(stream) -> Optional[str]:
    found = bytearray()
    while True:
        byte = stream.read(1)
        if not byte:
            return None
        if byte == b'\0':
            return found.decode()
        found += byte


def _run(words: Sequence[str]) -> int:
    name, *rest = words
    if name == 'python' and rest[0] in _TRAINS:
        try:
            return scripts.train_command(_TRAINS[rest[0]], rest[0], '', rest[1:])
        except ValueError as error:
            print(f'error: {error}')
            return 1
    if name == 'python' and rest[0] == '-m':
        name, rest = 'tpugraphs', [rest[1].rpartition('.')[2], *rest[2:]]
    if name == 'tpugraphs':
        before = sys.argv
        try:
            sys.argv = ['tpugraphs', *rest]
            return main.main()
        except SystemExit as end:
            return int(end.code or 0)
        finally:
            sys.argv = before
    done = subprocess.run(
        [sys.executable, *rest], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout.decode())
    return done.returncode
