"""House rules checked on the code, in addition to ruff and lint-imports.

Each test names the file, the line and the rule, so that who breaks one can tell
whether the code is wrong or the rule.
"""

import ast
import collections
import dataclasses
import functools
import re

from tests.helpers import places
from tests.helpers import processes

_MOST_LINES = 500
_ALL_TILE_MODELS = 'baselines/tiles/models.py'  # one drop-in file
_SCRIPTS = {
    'tiles_train.py',
    'layout_train.py',
    'tiles_gen_predictions_csv.py',
    'create_kaggle_csv.py',
    'echo_download_commands.py',
}


@dataclasses.dataclass(frozen=True)
class _Source:
    """A parsed file of the package, or a script."""

    name: str  # relative to the repository
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """Dotted name; of a package its own."""
        return self.name[: -len('.py')].replace('/', '.').replace('.__init__', '')


@functools.cache
def _sources() -> list[_Source]:
    """Reads the package's files and the scripts, sorted."""
    paths = [places.ROOT / name for name in sorted(_SCRIPTS)]
    for package in ('baselines', 'tpugraphs'):
        paths += sorted((places.ROOT / package).rglob('*.py'))
    result = []
    for path in paths:
        text = path.read_text(encoding='utf-8')
        # The oldest Python that setup.py allows reads it.
        tree = ast.parse(text, str(path), feature_version=(3, 10))
        result.append(_Source(str(path.relative_to(places.ROOT)), text, tree))
    return result


def _package() -> list[_Source]:
    return [source for source in _sources() if '/' in source.name]


def _report(broken: list[str]) -> None:
    assert not broken, '\n' + '\n'.join(broken)


# Who may know whom ------------------------------------------------------------


def test_top_level_holds_the_published_scripts_and_nothing_else():
    found = {path.name for path in places.ROOT.glob('*.py')}
    assert found - {'setup.py'} <= _SCRIPTS
    assert {'tiles_train.py', 'tiles_gen_predictions_csv.py'} <= found


def test_files_are_short():
    """A command is arguments, and one call of what does the work."""
    for source in _sources():
        most = _MOST_LINES
        if re.match('tpugraphs/commands/(?!_)', source.name):
            most = 120
            functions = {n.name for n in source.tree.body if hasattr(n, 'name')}
            assert {'add_arguments', 'run'} <= functions, source.name
        is_short = source.text.count('\n') <= most or source.name == _ALL_TILE_MODELS
        assert is_short, f'{source.name} has more than {most} lines'


# TensorFlow -------------------------------------------------------------------

# Those of graph models; trees and the estimate need not wait for it.
_RUNS_WITH_TENSORFLOW = {
    'baselines/runs/export.py',
    'baselines/runs/raw_scoring.py',
    'baselines/runs/weights.py',
    'baselines/trees/growing.py',
    'tpugraphs/handin/conformance.py',
}


def test_help_and_reports_do_not_wait_for_tensorflow():
    """Nor does an import define a flag, print, or start anything."""
    late = {'tiles', 'layout', 'training'}
    modules = sorted(
        source.module
        for source in _sources()
        if not late & set(source.module.split('.')[1:2])
        and source.name not in _RUNS_WITH_TENSORFLOW
        and not source.name.endswith('__main__.py')
    )
    done = processes.python('-c', _IMPORT_ALL, *modules)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')


_IMPORT_ALL = """
import importlib, sys, threading
from absl import app, flags
before = set(flags.FLAGS)
for name in sys.argv[1:]:
    importlib.import_module(name)
    loaded = [m for m in sys.modules if m.split('.')[0] == 'tensorflow']
    assert not loaded, f'{name} imports tensorflow'
    assert set(flags.FLAGS) == before, f'{name} defines flags'
    assert threading.active_count() == 1, f'{name} starts a thread'
"""


# Habits -----------------------------------------------------------------------


def test_columns_have_names():
    """Positions in the 140, 24 and 18 columns stand in hlo/schema.py alone."""
    broken = []
    for source in _package():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Subscript):
                continue
            name = getattr(node.value, 'attr', getattr(node.value, 'id', ''))
            numbers = [getattr(part, 'value', 0) for part in ast.walk(node.slice)]
            if 'feat' in name and any(isinstance(n, int) and n > 1 for n in numbers):
                broken.append(f'{source.name}:{node.lineno} numbers a column')
    _report([line for line in broken if 'baselines/hlo/schema.py' not in line])


def test_a_module_holds_definitions_and_constants():
    """But the package itself, before TensorFlow is imported (tests/test_package.py)."""
    allowed = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
    broken = []
    for source in _sources():
        for node in source.tree.body:
            is_text = isinstance(node, ast.Expr) and isinstance(
                node.value, ast.Constant
            )
            condition = ast.unparse(node.test) if isinstance(node, ast.If) else ''
            is_condition = condition in ("__name__ == '__main__'", 'TYPE_CHECKING')
            if isinstance(node, allowed) or is_text or is_condition:
                continue
            targets = getattr(node, 'targets', None) or [getattr(node, 'target', None)]
            if not all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets):
                broken.append(f'{source.name}:{node.lineno} does something')
    _report([line for line in broken if not line.startswith('baselines/__init__.py')])


def test_a_file_name_is_unique():
    """But of commands, and of twins of tiles and layouts."""
    paths = collections.defaultdict(set)
    for source in _package():
        folder, _, name = source.name.rpartition('/')
        if folder != 'tpugraphs/commands' and not name.startswith('__'):
            # Twins differ in the name of their folder alone.
            paths[name].add(re.sub(r'\b(tiles?|layout)\b', '*', folder))
    _report([f'{name}: {sorted(at)}' for name, at in paths.items() if len(at) > 1])


def test_what_is_public_is_explained():
    """One-liners may speak for themselves."""
    broken = []
    for source in _sources():
        if not ast.get_docstring(source.tree):
            broken.append(f'{source.name} has no docstring')
        for node in source.tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if node.name.startswith('_') or len(node.body) == 1:
                continue
            if not ast.get_docstring(node):
                broken.append(f'{source.name}:{node.lineno} {node.name}: no docstring')
    _report(broken)
