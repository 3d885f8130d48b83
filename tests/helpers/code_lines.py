"""Counts code as the budget in pyproject.toml does.

`python -m tests.helpers.code_lines` prints the figures of this tree.
"""

import ast
import collections
import io
import pathlib
import tokenize

from tests.helpers import places

_FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_OTHER_CODE = {'.html', '.toml', '.sh'}


def python_lines(text: str) -> int:
    """Counts lines of Python that hold code, not docstrings, comments or blanks."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _FREE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def statements(text: str) -> int:
    """Counts the statements of Python, those inside others included."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))


def code_lines(path: pathlib.Path) -> int:
    """Counts the lines of code of a file: 0 for what is not code, such as data."""
    if path.suffix == '.py':
        return python_lines(path.read_text(encoding='utf-8'))
    if path.suffix in _OTHER_CODE:
        lines = path.read_text(encoding='utf-8').splitlines()
        return sum(bool(line.strip()) for line in lines)
    return 0


def package_lines(folder: str) -> int:
    """Counts the lines of code below a folder of the repository."""
    paths = sorted((places.ROOT / folder).rglob('*'))
    return sum(code_lines(path) for path in paths if path.is_file())


def library_statements() -> int:
    """Counts the statements of both packages."""
    paths = [
        p for f in ('baselines', 'tpugraphs') for p in (places.ROOT / f).rglob('*.py')
    ]
    return sum(statements(path.read_text(encoding='utf-8')) for path in paths)


def words(pattern: str) -> int:
    """Counts the words of the documents whose path matches a pattern."""
    return sum(
        len(path.read_text(encoding='utf-8').split())
        for path in places.ROOT.glob(pattern)
    )


def _print_figures() -> None:
    """Prints the lines of each package and file group."""
    total = collections.Counter()
    for folder in ('baselines', 'tpugraphs'):
        for path in sorted((places.ROOT / folder).rglob('*')):
            if path.is_file() and code_lines(path):
                parts = path.relative_to(places.ROOT).parts
                total['/'.join(parts[:2])] += code_lines(path)
    for name, lines in total.items():
        print(f'{lines:7,}  {name}')
    for folder in ('baselines', 'tpugraphs', 'tests', 'benchmarks', 'tools'):
        print(f'{package_lines(folder):7,}  {folder}')
    print(f'{library_statements():7,}  statements of the library')
    print(f'{words("docs/**/*.md"):7,}  words of docs')
    print(f'{words("README.md"):7,}  words of README.md')


if __name__ == '__main__':
    _print_figures()
