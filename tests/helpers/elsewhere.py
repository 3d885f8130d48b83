"""Runs scripts in processes where our package does not exist."""

import subprocess
import sys

from tests.helpers import places

PUBLISHED_TREE = places.ROOT / 'tests' / 'published_tree'

# An installed `baselines` would be found, wherever the process runs; so its
# name is made unknown.
_PRELUDE = """
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == 'baselines':
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
del sys.argv[0]
sys.path[:0] = sys.argv.pop(0).split(':')
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def start(script: str, *arguments, path=()) -> subprocess.Popen:
    """Starts a script of `published_tree`; `path` goes before it on sys.path."""
    folders = [*map(str, path), str(PUBLISHED_TREE)]
    return subprocess.Popen(
        [
            sys.executable,
            '-c',
            _PRELUDE,
            ':'.join(folders),
            str(PUBLISHED_TREE / script),
            *map(str, arguments),
        ],
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


def run(script: str, *arguments, path=()) -> str:
    """Runs a script of `published_tree` to its end."""
    return finish(start(script, *arguments, path=path))
