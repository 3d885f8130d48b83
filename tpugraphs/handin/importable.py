"""What a models.py may import where a course's grader runs it."""

import ast
from collections.abc import Iterator
import importlib.util
import re
import sys
from typing import NamedTuple

# The published tree and its environment, as a course's handout installs it, have:
LIBRARIES = (
    *sys.stdlib_module_names,
    *('tensorflow', 'keras', 'tensorflow_gnn', 'tensorflow_ranking'),
    *('numpy', 'pandas', 'tqdm', 'absl'),
)
PACKAGE = 'tpu_graphs.baselines.tiles'  # the package that models.py is in
SIBLINGS = ('data', 'implicit', 'metrics', 'models', 'train_args', 'train_lib')

# What makes an import in its block one that may fail: `try` with such a handler,
# `with suppress(...)`, `if TYPE_CHECKING`.
_GUARD = re.compile(
    r'\b(ImportError|ModuleNotFoundError|(Base)?Exception|TYPE_CHECKING)\b'
)


class Import(NamedTuple):
    """A name that a file imports."""

    line: int
    name: str  # of a relative import the full one

    @property
    def sibling(self) -> str:
        """The module of `PACKAGE` that it is of; '' for none."""
        start, _, rest = self.name.partition(f'{PACKAGE}.')
        return '' if start else rest.partition('.')[0]

    @property
    def is_there(self) -> bool:
        """Whether the published tree and its environment have it."""
        if self.sibling:
            return self.sibling in SIBLINGS
        is_parent = f'{PACKAGE}.'.startswith(f'{self.name}.')
        return is_parent or self.name.partition('.')[0] in LIBRARIES

    @property
    def is_only_there(self) -> bool:
        """Whether the published tree has it, and this package does not."""
        here = f'baselines.tiles.{self.sibling}'
        return self.sibling in SIBLINGS and importlib.util.find_spec(here) is None


def required(path: str, package: str = PACKAGE) -> Iterator[Import]:
    """Yields what a file imports, but for imports that may fail.

    Args:
        package: the package that the file is in.

    Raises:
        SyntaxError: it is not Python.
    """
    with open(path, 'rb') as stream:
        tree = ast.parse(stream.read(), path)
    optional: set[ast.AST] = set()
    for node in ast.walk(tree):
        heads = [h.type or ast.Name('Exception') for h in getattr(node, 'handlers', ())]
        heads += getattr(node, 'items', ()) if isinstance(node, ast.With) else ()
        heads += [node.test] if isinstance(node, ast.If) else ()
        if any(_GUARD.search(ast.unparse(head)) for head in heads):
            optional.update(x for part in node.body for x in ast.walk(part))
    for node in ast.walk(tree):
        if node in optional or not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        parts = [getattr(node, 'module', None) or '']
        if level := getattr(node, 'level', 0):  # of `from ..a import b` it is 2
            parts.insert(0, '.'.join(package.split('.')[: 1 - level or None]))
        for alias in node.names:
            names = [*parts, alias.name.replace('*', '')]
            yield Import(node.lineno, '.'.join(filter(None, names)))


def check(path: str) -> None:
    """Checks that a models.py imports only what the published tree has.

    Raises:
        ValueError: names the import and its line.
        SyntaxError: it is not Python.
    """
    for absent in required(path):
        if not absent.is_there:
            raise ValueError(
                f'line {absent.line} imports {absent.name}, which the published tree '
                'does not have'
            )


def only_there(path: str) -> list[str]:
    """Names what a models.py imports that the published tree has, and we have not."""
    return [i.name for i in required(path) if i.is_only_there]
