"""The files of the package and the scripts, parsed, for tests that read them."""

import ast
import dataclasses
import functools
from typing import Iterator, List, Sequence, Tuple

from tests.helpers import places

ROOT = places.ROOT
SCRIPTS = {
    'tiles_train.py',
    'layout_train.py',
    'tiles_gen_predictions_csv.py',
    'create_kaggle_csv.py',
}


@dataclasses.dataclass(frozen=True)
class Source:
    """A parsed file of the package, or a script."""

    name: str  # relative to the repository
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """Dotted name; of a package its own."""
        name = self.name[: -len('.py')].replace('/', '.')
        return name[: -len('.__init__')] if name.endswith('.__init__') else name

    @property
    def layer(self) -> str:
        """The part of the package that the file is in; '' for the root's own."""
        parts = self.module.split('.')
        return parts[1] if len(parts) > 1 else ''

    @functools.cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """The tree and all that is in it; most rules go through them."""
        return tuple(ast.walk(self.tree))

    def imports(self) -> Iterator[Tuple[int, str]]:
        """(line, dotted name) of every import, also of those in functions."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                package = node.module or ''
                if node.level:
                    parents = self.module.split('.')
                    is_package = self.name.endswith('__init__.py')
                    keep = len(parents) - node.level + is_package
                    parts = package.split('.') if package else []
                    package = '.'.join(parents[:keep] + parts)
                for alias in node.names:
                    yield node.lineno, f'{package}.{alias.name}'

    def calls(self) -> Iterator[Tuple[ast.Call, str]]:
        """Every call, and what is called as it is written."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield node, dotted(node.func)


def not_in_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """What is executed when a module is imported."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            yield from not_in_functions(node)


def dotted(node: ast.AST) -> str:
    """A name with its attributes as it is written, '?' for anything else in it."""
    if isinstance(node, ast.Attribute):
        return f'{dotted(node.value)}.{node.attr}'
    return node.id if isinstance(node, ast.Name) else '?'


@functools.lru_cache(maxsize=None)
def all_sources() -> List[Source]:
    """The package's files and the scripts, sorted."""
    paths = sorted((ROOT / 'baselines').rglob('*.py'))
    paths += sorted((ROOT / 'tpugraphs').rglob('*.py'))
    paths += [ROOT / name for name in sorted(SCRIPTS) if (ROOT / name).exists()]
    result = []
    for path in paths:
        text = path.read_text(encoding='utf-8')
        # The oldest Python that setup.py allows reads it.
        tree = ast.parse(text, str(path), feature_version=(3, 9))
        result.append(Source(str(path.relative_to(ROOT)), text, tree))
    return result
