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
    """All files in a folder, sorted, as relative paths."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()
    )


def interrupt_and_kill(out_dir, script, *flags):
    """Trains, twice; checks that Ctrl-C and kill -9 lose an epoch at most."""
    flags = [*flags, f'--out_dir={out_dir}', '--early_stop=100000']
    interrupted = start(script, *flags, '--epochs=100000')
    _, stderr = _end(interrupted, out_dir, signal.SIGINT, after=2)
    assert interrupted.returncode == 130, stderr
    assert [name[:11] for name in listing(out_dir)] == ['unfinished_']
    first = len(_kept(out_dir)['epoch'])
    # The command that was given, and --resume.
    said, go_on = stderr.splitlines()[-1].split('; go on with: ')
    assert said == f'kept {first} epochs', stderr
    assert shlex.split(go_on) == [*interrupted.args, '--resume']

    killed = start(script, *flags, '--epochs=100000', '--resume')
    stdout, stderr = _end(killed, out_dir, signal.SIGKILL, after=first + 2)
    assert killed.returncode == -signal.SIGKILL and 'error' not in stderr
    assert f'resuming after epoch {first}\n' in stdout
    second = len(_kept(out_dir)['epoch'])
    # An epoch is kept before its row is printed.
    assert second - 1 <= _epochs(stdout) + first <= second


def _end(process, out_dir, signal_number, after):
    """Ends a training once `after` epochs are kept; returns its output."""
    deadline = time.monotonic() + 120
    while len(_kept(out_dir)['epoch']) < after:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, 'no epoch in two minutes'
        time.sleep(0.05)
    process.send_signal(signal_number)
    return process.communicate(timeout=60)


def _epochs(stdout):
    """How many rows of epochs were printed."""
    return len(re.findall(r'^ *\d+/\d+ ', stdout, re.MULTILINE))


def _kept(out_dir):
    """The curve in the state that is kept."""
    for path in out_dir.glob('unfinished_*.npz'):
        return checkpoints.read(str(path))[1]['curve']
    return {'epoch': []}
