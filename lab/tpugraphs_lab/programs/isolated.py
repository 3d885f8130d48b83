"""Runs code that untrusted input can crash, or keep busy forever, in a child process.

notes, content = call('tpugraphs_lab.programs.conversion.convert', ['HLO text'], data)

The child writes a line of JSON, {"notes": [...]} or {"error": "..."}, and then the
content.  XLA ends its process on certain texts, a short text can describe an array of
any size, and a user's file can do anything.
"""

from collections.abc import Sequence
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from baselines.core import phases
from tpugraphs_lab.programs import causes
from tpugraphs_lab.programs import children

MEMORY = 1 << 30  # bytes that a conversion may use
# Bytes that a process may use that runs programs, or a user's file, which may build a
# model of some size.
PROGRAM_MEMORY = 12 << 30
SECONDS = 30  # CPU time that a conversion may take
_WALL = 4  # seconds of wall time for each second of CPU time
_RAISE = '--seconds raises the limit'
_PATIENCE = 5  # seconds of wall time without a sign of progress


class Ended(ValueError):
    """A process that ended, or was ended, without an answer; the text says how."""


def call(
    function: str,
    arguments: Sequence[str],
    data: bytes = b'',
    memory: int = MEMORY,
    seconds: int = SECONDS,
    title: str = 'reading',
) -> tuple[list[str], bytes]:
    """Calls a function in a child process.

    Args:
        function: with its module; takes the arguments and data, returns notes and
            bytes.
        arguments: its first arguments.
        data: its last argument.
        memory: bytes that the process may use.
        seconds: limit of its CPU time.
        title: name of the work, for the progress that is shown from `_PATIENCE` on.

    Returns:
        The function's notes for the user, and its bytes.

    Raises:
        Ended: the function took too much memory or time, or ended the process.
        ValueError: the function raised an error; has its cause.
    """
    # No pipes: a process that a user's file leaves behind would keep them open.
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as written,
        tempfile.TemporaryFile() as log,
    ):
        given.write(data)
        given.seek(0)
        process = children.start(
            f'{__name__}.answer',
            [function, *arguments],
            {'TF_CPP_MIN_LOG_LEVEL': '3'},
            memory,
            seconds,
            stdin=given,
            stdout=written,
            stderr=log,
        )
        try:
            with phases.Phase(
                f'{title} (--seconds={seconds})', seconds, 'second', delay=_PATIENCE
            ) as phase:
                code = children.wait(process, _WALL * seconds, phase.update)
        except subprocess.TimeoutExpired:
            raise Ended(
                f'took over {_WALL * seconds:,} s of wall time, where {seconds:,} s of '
                f'processor time are the limit; {_RAISE}'
            ) from None
        written.seek(0)
        head, line_end, content = written.read().partition(b'\n')
        if code or not line_end:
            log.seek(0)
            raise Ended(_how_it_ended(code, log.read(), memory, seconds))
    answer = json.loads(head)
    if 'error' in answer:
        raise ValueError(answer['error'])
    return answer['notes'], content


def _how_it_ended(code: int, printed: bytes, memory: int, seconds: int) -> str:
    """Says why a process ended without an answer."""
    if code >= 0:
        return f'ended the process with exit code {code}'
    if -code == signal.SIGXCPU:
        return f'took over {seconds:,} s of processor time; {_RAISE}'
    if b'bad_alloc' in printed or b'out of memory' in printed.lower():
        return f'took over {memory / 2**30:.0f} GiB of memory'
    # Real-time signals have no name.
    name = next((s.name for s in signal.Signals if s == -code), f'signal {-code}')
    return f'ended the process ({name}; {memory / 2**30:.0f} GiB of memory are allowed)'


def answer(function: str, *arguments: str) -> None:
    """Calls a function with standard input, and writes its answer."""
    import resource

    # What a user's file prints goes to standard error, not into the answer.
    out = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    content = b''
    try:
        module, _, name = function.rpartition('.')
        called = getattr(importlib.import_module(module), name)
        notes, content = called(*arguments, sys.stdin.buffer.read())
        head = {'notes': notes}
    except MemoryError:
        most, _ = resource.getrlimit(resource.RLIMIT_DATA)
        head = {'error': f'took over {most / 2**30:.0f} GiB of memory'}
    except BaseException as error:  # a user's file can raise any
        head = {'error': causes.name_cause(error)}
    out.write(json.dumps(head).encode() + b'\n' + content)
    out.close()
