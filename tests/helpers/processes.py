"""Commands in this process, scripts in others, and how to end one in the middle."""

import os
import re
import shlex
import signal
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


def start(script, *flags):
    """Starts a script of the repository's root."""
    environment = {**os.environ, 'PYTHONUNBUFFERED': '1'}
    environment.pop('TF_CPP_MIN_LOG_LEVEL', None)
    return subprocess.Popen(
        [sys.executable, str(_ROOT / script), *flags],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def listing(folder):
    """Lists the files in a folder, sorted, as relative paths."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()
    )


def interrupt(out_dir, script, *flags):
    """Trains in a process, ends it with Ctrl-C, and checks what it keeps and says."""
    limits = f'--out_dir={out_dir}', '--early_stop=100000', '--epochs=100000'
    process = start(script, *flags, *limits)
    deadline = time.monotonic() + 120
    while len(curve_kept(out_dir)['epoch']) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, 'no epoch in two minutes'
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert [name[:11] for name in listing(out_dir)] == ['unfinished_']
    count = len(curve_kept(out_dir)['epoch'])
    # An epoch is kept before its row is printed.
    assert count - 1 <= len(re.findall(r'(?m)^ *\d+/\d+ ', stdout)) <= count
    # The command that was given, and --resume.
    kept, command = stderr.splitlines()[-1].split('; go on with: ')
    assert kept == f'kept {count} epochs', stderr
    assert shlex.split(command) == [*process.args, '--resume']


def curve_kept(out_dir):
    """Reads the curve in the state of an unfinished training."""
    for path in out_dir.glob('unfinished_*.npz'):
        return checkpoints.read_state(str(path))[1]['curve']
    return {'epoch': []}
