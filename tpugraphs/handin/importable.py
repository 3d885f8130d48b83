"""Checks the imports of a models.py against the environment of a course's grader."""

import ast
from collections.abc import Iterator
import importlib.util
import re
import sys
from typing import Any

# The published tree and its environment, as a course's handout installs it, have:
LIBRARIES = (
    *sys.stdlib_module_names,
    *('tensorflow', 'keras', 'tensorflow_gnn', 'tensorflow_ranking'),
    *('numpy', 'pandas', 'tqdm', 'absl'),
)
PACKAGE = 'tpu_graphs.baselines.tiles'  # that of the models.py, with these modules
SIBLINGS = ('data', 'implicit', 'metrics', 'models', 'train_args', 'train_lib')

ASK = '--published TREE --dir RUN'
# What makes an import in its block one that may fail: `try` with such a handler,
# `with suppress(...)`, `if TYPE_CHECKING`.
_GUARD = re.compile(
    r'\b(ImportError|ModuleNotFoundError|(Base)?Exception|TYPE_CHECKING)\b'
)


def list_imports(path: str, package: str = PACKAGE) -> Iterator[tuple[int, str]]:
    """Yields the line and full name of each import in a file that may not fail.

    Args:
        package: the package that the file is in.

    Raises:
        SyntaxError: it is not Python.
    """
    with open(path, 'rb') as stream:
        tree = ast.parse(stream.read(), path)
    optional: set[ast.AST] = set()
    node: Any
    for node in ast.walk(tree):
        heads = [h.type or ast.Name('Exception') for h in getattr(node, 'handlers', ())]
        heads += node.items if isinstance(node, ast.With) else ()
        heads += [node.test] if isinstance(node, ast.If) else ()
        if any(_GUARD.search(ast.unparse(head)) for head in heads):
            optional.update(x for part in node.body for x in ast.walk(part))
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and node not in optional:
            parts = [getattr(node, 'module', None) or '']
            if level := getattr(node, 'level', 0):  # of `from ..a import b` it is 2
                parts.insert(0, '.'.join(package.split('.')[: 1 - level or None]))
            for alias in node.names:
                names = [*parts, alias.name.replace('*', '')]
                yield node.lineno, '.'.join(filter(None, names))


def check(path: str) -> str:
    """Checks that a models.py imports only what the published tree has.

    Returns:
        A note on a module that is missing here; '' without one.

    Raises:
        ValueError: names the import that is missing there, and its line.
        SyntaxError: it is not Python.
    """
    note = ''
    for line, name in list_imports(path):
        if f'{PACKAGE}.'.startswith(f'{name}.'):
            continue
        home, _, rest = name.partition(f'{PACKAGE}.')
        sibling = '' if home else rest.partition('.')[0]
        library = home.partition('.')[0]
        if sibling not in SIBLINGS and library not in LIBRARIES:
            raise ValueError(f'line {line} imports {name}: the published tree lacks it')
        if not importlib.util.find_spec(library or f'baselines.tiles.{sibling}'):
            note = f'; {name} is missing here, but not there: {ASK} can check its use'
    return note
