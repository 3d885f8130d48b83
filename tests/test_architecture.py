"""The rules of the house, read off the code: who may import whom, and habits.

Each test names the file, the line and the rule, so that who breaks one can tell
whether the code is wrong or the rule.
"""

import ast
import subprocess
import sys
from typing import List

from baselines import registry
from tests.helpers import sources

_MOST_LINES = 500
_ALL_TILE_MODELS = 'baselines/tiles/models.py'  # one drop-in file


def _package() -> List[sources.Source]:
    return [
        source
        for source in sources.all_sources()
        if source.name.startswith(('baselines/', 'tpugraphs/'))
    ]


def _report(broken: List[str]) -> None:
    assert not broken, '\n' + '\n'.join(broken)


# Who may know whom ------------------------------------------------------------


def test_top_level_holds_the_published_scripts_and_nothing_else():
    found = {path.name for path in sources.ROOT.glob('*.py')}
    assert found - {'setup.py'} <= sources.SCRIPTS
    assert {'tiles_train.py', 'tiles_gen_predictions_csv.py'} <= found


def test_a_command_is_one_short_file():
    """Arguments, and one call of what does the work."""
    found = [s for s in _package() if s.name.startswith('tpugraphs/commands/')]
    for source in found:
        if not source.name.startswith('tpugraphs/commands/__'):
            functions = {n.name for n in source.tree.body if hasattr(n, 'name')}
            assert {'add_arguments', 'run'} <= functions, source.name
            assert source.text.count('\n') <= 120, source.name


def test_only_the_registry_imports_models_that_users_may_replace():
    """It does so by name, as it does with the zoo."""
    _report(
        [
            f'{source.name}:{line} imports {imported}; ask the registry'
            for source in sources.all_sources()
            for line, imported in source.imports()
            if imported.startswith('baselines.') and imported.endswith('.models')
        ]
    )


def test_two_models_of_one_name_say_how_they_differ():
    tiles, layouts = registry.tile_models(), registry.layout_models()
    _report(
        [
            f'{name}: the first line of the layout model does not mention the tile one'
            for name in sorted(set(tiles) & set(layouts))
            if 'the tile model' not in layouts[name].__doc__.splitlines()[0]
        ]
    )


# TensorFlow -------------------------------------------------------------------

# Those of graph models; trees and the estimate need not wait for it.
_RUNS_WITH_TENSORFLOW = {
    f'baselines/runs/{name}.py' for name in ('export', 'serving', 'weights')
}


def test_the_training_loop_touches_no_file():
    names = ('loop', 'progress', 'steps')
    loop = {f'baselines/training/{name}.py' for name in names}
    files = {'os', 'io', 'pathlib', 'tempfile', 'shutil', 'gzip', 'baselines'}
    allowed = {f'baselines.training.{name}' for name in names}
    # What it is given: the data, and what scores them.
    allowed |= {'baselines.training.task_data', 'baselines.runs.tasks'}
    allowed |= {'baselines.config', 'baselines.text', 'baselines.training.devices'}
    allowed |= {'baselines.evaluation.metrics'}
    for source in _package():
        if source.name in loop:
            _report(
                [
                    f'{source.name}:{line} imports {imported}'
                    for line, imported in source.imports()
                    if imported.split('.')[0] in files and imported not in allowed
                ]
            )
            _report(
                [
                    f'{source.name}:{node.lineno} opens a file'
                    for node, name in source.calls()
                    if name == 'open'
                ]
            )


def test_help_and_reports_do_not_wait_for_tensorflow():
    """Nor does an import define a flag, print, or start anything."""
    late = {'tiles', 'layout', 'training', 'tune_program', 'distribute'}
    modules = sorted(
        source.module
        for source in sources.all_sources()
        if source.layer not in late
        and source.name not in _RUNS_WITH_TENSORFLOW
        and not source.name.endswith('__main__.py')
    )
    done = subprocess.run(
        [sys.executable, '-c', _IMPORT_ALL, *modules],
        cwd=sources.ROOT,
        capture_output=True,
        text=True,
    )
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


def test_flags_are_defined_by_running_scripts_only():
    broken = []
    in_functions = (*sources.SCRIPTS, 'baselines/scripts.py')
    for source in sources.all_sources():
        at_import = set(map(id, sources.not_in_functions(source.tree)))
        for node, name in source.calls():
            if '.DEFINE_' in name or name.startswith('DEFINE_'):
                if source.name not in in_functions or id(node) in at_import:
                    broken.append(f'{source.name}:{node.lineno} defines a flag')
        for line, imported in source.imports():
            if imported == 'absl.flags' and source.name not in in_functions:
                broken.append(f'{source.name}:{line} imports absl.flags')
    _report(broken)


def _is_number(node, least: int) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and node.value >= least
    )


def test_columns_have_names():
    """Positions in the 140, 24 and 18 columns stand in hlo/schema.py alone."""
    broken = []
    for source in _package():
        if source.name == 'baselines/hlo/schema.py':
            continue
        for node in source.nodes:
            if (
                isinstance(node, ast.Subscript)
                and 'feat' in sources.dotted(node.value).rpartition('.')[2]
            ):
                if any(_is_number(part, 2) for part in ast.walk(node.slice)):
                    broken.append(f'{source.name}:{node.lineno} numbers a column')
        for node in sources.not_in_functions(source.tree):
            called = sources.dotted(getattr(node, 'func', node))
            if isinstance(node, ast.Call) and called in ('slice', 'range'):
                if len(node.args) > 1 and _is_number(node.args[1], 2):
                    broken.append(f'{source.name}:{node.lineno} numbers columns')
    _report(broken)


def _is_main_block(node) -> bool:
    return isinstance(node, ast.If) and '__main__' in ast.dump(node.test)


def test_nothing_happens_on_import():
    """A module holds definitions and constants; a constant is plain data.

    Only the package itself does something: what must be settled before TensorFlow is
    imported, by whichever module that may be (tests/test_package.py).
    """
    broken = []
    for source in sources.all_sources():
        if source.name == 'baselines/__init__.py':
            continue
        for node in source.tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            if isinstance(
                node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
            ) or _is_main_block(node):
                continue
            if not isinstance(node, (ast.Assign, ast.AnnAssign)):
                broken.append(f'{source.name}:{node.lineno} does something')
                continue
            targets = getattr(node, 'targets', None) or [node.target]
            for target in targets:
                if not isinstance(target, (ast.Name, ast.Tuple)):
                    broken.append(f'{source.name}:{node.lineno} changes something')
            for call in ast.walk(node.value) if node.value else ():
                name = sources.dotted(getattr(call, 'func', call))
                if isinstance(call, ast.Call) and _outer(name):
                    broken.append(f'{source.name}:{node.lineno} calls {name}')
    _report(broken)


def _outer(name: str) -> bool:
    """Whether a call leaves Python: files, processes, TensorFlow, the terminal."""
    return name in ('open', 'print', 'input') or name.split('.')[0] in (
        'os',
        'sys',
        'pathlib',
        'shutil',
        'subprocess',
        'tf',
        'tfgnn',
        'time',
        'threading',
        'socket',
        'random',
        'flags',
        'logging',
    )


def test_files_are_short():
    _report(
        [
            f'{source.name} has more than {_MOST_LINES} lines'
            for source in sources.all_sources()
            if source.text.count('\n') > _MOST_LINES and source.name != _ALL_TILE_MODELS
        ]
    )


def test_what_is_public_is_explained():
    """One-liners may speak for themselves."""
    broken = []
    for source in sources.all_sources():
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
