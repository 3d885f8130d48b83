"""Runs commands in processes of their own, with a fault.

A process is forked from one that has imported what commands import, so that a call
takes no longer than its work.
"""

import gc
import multiprocessing
import os
import resource
import runpy
import signal
import sys
from typing import NamedTuple

from tests.helpers import places
from tpugraphs import commands

FORKS = multiprocessing.get_context('forkserver')
FORKS.set_forkserver_preload(
    [
        *('lightgbm', 'matplotlib.backends.backend_svg', 'matplotlib.figure', 'optuna'),
        *('scipy.stats', 'tensorflow_gnn', 'baselines.runs.export'),
        *('baselines.scoring.prediction', 'baselines.training.run_training'),
        *('tests.faults.calls', 'tpugraphs.extract.extraction'),
        *('tpugraphs.inspect.showing', 'tpugraphs.ranking.sources'),
        *('tpugraphs.report.page', 'tpugraphs.run_reports', 'tpugraphs.sweep.trials'),
    ]
)
_STAGES = ('fsync', 'replace', 'rename', 'mkdir')


class Done(NamedTuple):
    """The end of a call: exit code (a signal is negative), and what was printed."""

    code: int
    out: str
    err: str


class Call:
    """A command that runs in a folder.

    Args:
        words: of the command line; the first is a command, a script, or Python's -c.
        fault: a function, which the process calls before, and its arguments.

    Attributes:
        process: of the command.
    """

    def __init__(self, folder, words, *fault):
        self._streams, ends = zip(*(FORKS.Pipe(duplex=False) for _ in range(2)))
        args = str(folder), words, ends, fault
        self.process = FORKS.Process(target=_work, args=args)
        self.process.start()
        for end in ends:
            end.close()

    def done(self):
        """Waits for the end."""
        handles = [stream.fileno() for stream in self._streams]
        texts = [open(n, encoding='utf-8', closefd=False).read() for n in handles]
        self.process.join(60)
        return Done(self.process.exitcode, *texts)


def run(folder, words, *fault):
    """Runs a command to its end; see `Call`."""
    return Call(folder, words, *fault).done()


def _work(folder, words, streams, fault):
    """Runs a command in this process, and ends it."""
    gc.freeze()  # a collection would write to, and so copy, all memory that is shared
    gc.set_threshold(50_000, 10, 10)
    os.chdir(folder)
    os.environ['HOME'] = folder
    for number, (name, stream) in enumerate(zip(('stdout', 'stderr'), streams), 1):
        os.dup2(stream.fileno(), number)
        setattr(sys, name, open(number, 'w', encoding='utf-8', closefd=False))
    os.fsync = os.fstat  # there is no power cut here
    if fault:
        fault[0](*fault[1:])
    name, *others = words
    if name == '-c':
        sys.argv, sys.path[:0] = [name, *others[1:]], ['']
        exec(others[0], {'__name__': '__main__'})
    elif name.endswith('.py'):
        sys.argv = [str(places.ROOT / name), *others]
        sys.orig_argv = [sys.executable, *sys.argv]
        runpy.run_path(sys.argv[0], run_name='__main__')
    else:
        sys.exit(commands.run(name, others))


def full_disk(size):
    """Lets no file grow beyond `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def kill():
    """Kills the process."""
    os.kill(os.getpid(), signal.SIGKILL)


def at_stage(stage, fault, *args):
    """Has a fault come before change number `stage` of a file's name or content."""
    left = [stage]

    def counted(function):
        def call(*call_args, **kwargs):
            left[0] -= 1
            if left[0] == -1:
                fault(*args)
            return function(*call_args, **kwargs)

        return call

    for name in _STAGES:
        setattr(os, name, counted(getattr(os, name)))


def set_variable(name, value):
    """Sets a variable of the environment."""
    os.environ[name] = value


def two_devices():
    """Divides this machine into two virtual devices; saves weights alone."""
    import tensorflow as tf

    from baselines.runs import saved
    from tests.helpers import finished_runs

    [cpu] = tf.config.list_physical_devices('CPU')
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    saved.save_model = finished_runs.save_weights


def close(name):
    """Starts without a standard stream."""
    os.close({'stdout': 1, 'stderr': 2}[name])
    setattr(sys, name, None)


def fill(name):
    """Has a standard stream take nothing."""
    number = {'stdout': 1, 'stderr': 2}[name]
    os.dup2(os.open('/dev/full', os.O_WRONLY), number)


def more_memory(size):
    """Lets the process take `size` bytes beyond what it has."""
    with open('/proc/self/status', encoding='ascii') as stream:
        [line] = [line for line in stream if line.startswith('VmData:')]
    limit = 1024 * int(line.split()[1]) + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
