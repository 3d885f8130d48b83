"""Commands in this process, Python in others, and what both leave."""

import os
import subprocess
import sys
import time

from baselines.training import checkpoints
from tests.helpers import places
from tpugraphs import commands

_ROOT = places.ROOT


def command(name, *words):
    """Runs a command in this process; returns its exit code."""
    return commands.run(name, [str(word) for word in words])


def python(*words, stdout=subprocess.PIPE, **environment):
    """Runs Python in the repository's root: words are its arguments."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=_ROOT,
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def list_files(folder):
    """Lists the files in a folder, sorted, as relative paths."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()
    )


def read_kept_curve(out_dir):
    """Reads the curve in the state of an unfinished training."""
    for path in out_dir.glob('unfinished_*.npz'):
        return checkpoints.read_state(str(path))[1]['curve']
    return {'epoch': []}


def wait_for_epochs(call, out_dir, count):
    """Waits until a training, a `calls.Call`, has kept the state of so many epochs."""
    deadline = time.monotonic() + 120
    while len(read_kept_curve(out_dir)['epoch']) < count:
        assert call.process.is_alive(), call.done()
        assert time.monotonic() < deadline, f'no {count} epochs in two minutes'
        time.sleep(0.05)
