"""Counts code as the budget in pyproject.toml does.

`python -m tests.helpers.code_lines` prints the figures of this tree.
"""

import ast
import functools
import pathlib

from tests.helpers import places

_OTHER_CODE = {'.html', '.toml', '.sh'}
_PACKAGES = ('baselines', 'tpugraphs')


@functools.cache
def _count(text: str) -> tuple[int, int]:
    """Counts the lines of code of a Python file, and its statements."""
    lines = text.splitlines()
    code = {
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith('#')
    }
    docstrings: set[int] = set()
    statements = 0
    for node in ast.walk(ast.parse(text)):
        statements += isinstance(node, ast.stmt)
        if isinstance(node, (ast.Constant, ast.JoinedStr)):  # blank lines in a string
            code.update(range(node.lineno, node.end_lineno + 1))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                docstrings.update(range(first.lineno, first.end_lineno + 1))
    return len(code - docstrings), statements


def python_lines(text: str) -> int:
    """Counts lines of Python that hold code, not docstrings, comments or blanks."""
    return _count(text)[0]


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
    paths = (places.ROOT / folder).rglob('*')
    return sum(code_lines(path) for path in paths if path.is_file())


def library_statements() -> int:
    """Counts the statements of both packages."""
    paths = [
        path for package in _PACKAGES for path in (places.ROOT / package).rglob('*.py')
    ]
    return sum(_count(path.read_text(encoding='utf-8'))[1] for path in paths)


def words(pattern: str) -> int:
    """Counts the words of the documents whose path matches a pattern."""
    return sum(
        len(path.read_text(encoding='utf-8').split())
        for path in places.ROOT.glob(pattern)
    )


def figures() -> dict[str, int]:
    """Measures this tree: every figure that the budget limits, by its name there."""
    lines: dict[str, int] = {}
    for package in _PACKAGES:
        for path in sorted((places.ROOT / package).rglob('*')):
            if path.is_file() and code_lines(path):
                name = '/'.join(path.relative_to(places.ROOT).parts[:2])
                lines[name] = lines.get(name, 0) + code_lines(path)
    lines |= {package: package_lines(package) for package in _PACKAGES}
    return {
        **lines,
        'library': sum(lines[package] for package in _PACKAGES),
        'statements': library_statements(),
        'tests': package_lines('tests'),
        'benchmarks and tools': package_lines('benchmarks') + package_lines('tools'),
        'words of docs': words('docs/**/*.md'),
        'words of README.md': words('README.md'),
    }


if __name__ == '__main__':
    for name, figure in figures().items():
        print(f'{figure:7,}  {name}')
