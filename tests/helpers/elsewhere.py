"""Runs scripts in processes where our package does not exist."""

import json
import pathlib
import shutil
import subprocess
import sys

from tests.helpers import places

PUBLISHED_TREE = places.ROOT / 'tests' / 'published_tree'
_HELPERS = places.ROOT / 'tests' / 'helpers'  # tile_graphs knows none of our code

# An installed `baselines` would be found, wherever the process runs; so its
# name is made unknown.
_PRELUDE = """
import json, runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == 'baselines':
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
folders, *calls = map(json.loads, sys.argv[1:])
sys.path[:0] = folders
for call in calls:
    sys.argv = call
    runpy.run_path(call[0], run_name='__main__')
"""


def write_published_tree(folder: pathlib.Path) -> pathlib.Path:
    """Writes a clone of the published repository, as far as files here meet it.

    The course's script and its modules are in it, and our tiles/models.py, unchanged.
    """
    package = folder / 'tpu_graphs' / 'baselines' / 'tiles'
    package.mkdir(parents=True)
    for parent in (package, package.parent, package.parent.parent):
        (parent / '__init__.py').touch()
    for name in ('data', 'metrics', 'train_args', 'train_lib'):
        (package / f'{name}.py').touch()
    shutil.copy(PUBLISHED_TREE / 'implicit.py', package)
    shutil.copy(places.ROOT / 'baselines' / 'tiles' / 'models.py', package)
    script = folder / 'tiles_gen_predictions_csv.py'
    shutil.copy(PUBLISHED_TREE / 'course_script.py', script)
    for name in ('load_models.py', 'scale_and_merge.py'):
        shutil.copy(PUBLISHED_TREE / name, folder)
    shutil.copy(_HELPERS / 'tile_graphs.py', folder)
    return folder


def start(*calls, path=()) -> subprocess.Popen:
    """Starts scripts of `published_tree` one after the other, in one process.

    Args:
        *calls: the name of a script and its arguments, each.
        path: folders that go before it on sys.path.
    """
    folders = [*map(str, path), str(PUBLISHED_TREE), str(_HELPERS)]
    words = [[str(PUBLISHED_TREE / name), *map(str, args)] for name, *args in calls]
    return subprocess.Popen(
        [sys.executable, '-c', _PRELUDE, *map(json.dumps, [folders, *words])],
        cwd='/',
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen) -> str:
    """Waits for a process; fails with what it printed unless it ends well."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output
