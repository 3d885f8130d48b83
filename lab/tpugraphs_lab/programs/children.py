"""Starts child processes, and ends them with all that they have started.

process = start('package.module.function', ['argument'], stdout=file)
code = wait(process, 60.0)

The current folder is not on the path of modules of a child.  A process of ours starts
the child in a process group and with a temporary folder of its own, and waits for it;
then, or when it is told to end, or when the command ends in whatever way, it ends the
group and removes the folder.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import ctypes
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any

import baselines

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
_GRACE = 1.0  # seconds until a process that was told to end is killed
# `python -m` would put the current folder on the path, and so does -c, as ''.
_CODE = (
    'import sys; sys.path[:] = filter(None, sys.path); '
    f'from {__name__} import main; main(*sys.argv[1:])'
)


def start(
    function: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    memory: int = 0,
    seconds: int = 0,
    **streams: IO[Any] | int | Sequence[int],
) -> subprocess.Popen:
    """Starts a child process that calls a function.

    Args:
        function: with the names of its packages and module.
        arguments: arguments of the function.
        variables: variables of its environment, in addition to ours.
        memory: bytes that it may use; 0 for any number.
        seconds: limit of CPU time, after which SIGXCPU ends it; 0 for none.
        **streams: stdin, stdout, stderr and pass_fds of `subprocess.Popen`.

    Returns:
        A process to pass to `wait` or `end`, which ends as the child does.
    """
    own = [str(os.getpid()), str(memory), str(seconds), function]
    return subprocess.Popen(
        [sys.executable, '-c', _CODE, *own, *arguments],
        env={**make_environment(), **variables},
        start_new_session=True,  # Ctrl-C is ours to handle
        **streams,  # type: ignore[call-overload]
    )


def make_environment() -> dict[str, str]:
    """Returns the variables of a process that is to import the toolkit."""
    root = str(pathlib.Path(baselines.__file__).resolve().parents[1])
    # An empty entry would be the current folder.
    given = filter(None, os.environ.get('PYTHONPATH', '').split(os.pathsep))
    return {**os.environ, 'PYTHONPATH': os.pathsep.join([root, *given])}


def wait(
    process: subprocess.Popen,
    seconds: float,
    each_second: Callable[[], object] = lambda: None,
) -> int:
    """Waits for the end of a child, and returns its exit code.

    Args:
        each_second: is called after each second of waiting.

    Raises:
        subprocess.TimeoutExpired: it took longer than `seconds`, and was ended.
    """
    try:
        while seconds > 1:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(1)
            seconds -= 1
            each_second()
        return process.wait(seconds)
    finally:
        end(process)


def end(process: subprocess.Popen) -> None:
    """Ends a child, if it is running, and all that it has started."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(
    parent: str, memory: str, seconds: str, function: str, *arguments: str
) -> None:
    """Calls a function in a child of this process, and ends as that child ends."""
    import resource

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _end_with(int(parent), signal.SIGTERM)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(
        prefix='tpugraphs_', ignore_cleanup_errors=True
    ) as folder:
        own = os.getpid()
        child = os.fork()
        if not child:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setpgrp()
            _end_with(own, signal.SIGKILL)
            os.environ['TMPDIR'] = tempfile.tempdir = folder
            if int(memory):
                resource.setrlimit(resource.RLIMIT_DATA, (int(memory),) * 2)
            if int(seconds):
                limits = int(seconds), int(seconds) + 1
                resource.setrlimit(resource.RLIMIT_CPU, limits)
            _call(function, arguments)
        try:
            _, status, usage = os.wait4(child, 0)
        finally:
            with contextlib.suppress(OSError):  # nothing is left of the group
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)  # it may be writing into the folder
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    if -code == signal.SIGKILL and 0 < int(seconds) <= usage.ru_utime + usage.ru_stime:
        code = -signal.SIGXCPU  # it did not listen to the first signal
    with contextlib.suppress(OSError):  # nothing handles SIGKILL
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def _call(function: str, arguments: Sequence[str]) -> None:
    """Calls a function, and ends the process."""
    code = 1
    try:
        module, _, name = function.rpartition('.')
        getattr(importlib.import_module(module), name)(*arguments)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)  # threads that are left do not keep the process


def _end_with(parent: int, number: int) -> None:
    """Asks Linux to send this process a signal when its parent ends."""
    with contextlib.suppress(AttributeError, OSError):  # there on Linux alone
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)
