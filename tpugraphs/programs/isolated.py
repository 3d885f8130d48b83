"""Runs code that untrusted input can crash, or keep busy forever, in a child process.

notes, content = call('tpugraphs.programs.conversion', 'convert', ['HLO text'], data)

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

from baselines.core import files
from baselines.core import text

MEMORY = 1 << 30  # bytes that a conversion may use
SECONDS = 30  # of CPU time that a conversion may take
_WALL = 4  # seconds of wall time for each second of CPU time


class Ended(ValueError):
    """A process that ended, or was ended, without an answer; the text says how."""


def call(
    module: str,
    function: str,
    arguments: Sequence[str],
    data: bytes = b'',
    memory: int = MEMORY,
    seconds: int = SECONDS,
) -> tuple[list[str], bytes]:
    """Calls a function in a child process.

    Args:
        module: the module of the function.
        function: its name; takes the arguments and data, returns notes and bytes.
        arguments: its first arguments.
        data: its last argument.
        memory: bytes that the process may use.
        seconds: of CPU time that it may take.

    Returns:
        The function's notes for the user, and its bytes.

    Raises:
        Ended: the function took too much memory or time, or ended the process.
        ValueError: the function raised an error; has its cause.
    """
    command = [sys.executable, '-m', __name__, module, function]
    limits = [str(memory), str(seconds)]
    # No pipe: a process that a user's file leaves behind would keep it open.
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.run(
                [*command, *limits, *arguments],
                input=data,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=_WALL * seconds,
                env={**files.environment(), 'TF_CPP_MIN_LOG_LEVEL': '3'},
            )
        except subprocess.TimeoutExpired:
            raise Ended(f'took over {_WALL * seconds} s') from None
        head, line_end, content = process.stdout.partition(b'\n')
        if process.returncode or not line_end:
            log.seek(0)
            raise Ended(_how_it_ended(process.returncode, log.read(), memory, seconds))
    answer = json.loads(head)
    if 'error' in answer:
        raise ValueError(answer['error'])
    return answer['notes'], content


def _how_it_ended(code: int, printed: bytes, memory: int, seconds: int) -> str:
    """Says why a process ended without an answer."""
    if code >= 0:
        return f'ended the process with exit code {code}'
    name = signal.Signals(-code).name
    if name in ('SIGXCPU', 'SIGKILL'):
        return f'took over {seconds} s'
    if b'bad_alloc' in printed or b'out of memory' in printed.lower():
        return f'took over {memory / 2**30:.0f} GiB of memory'
    return f'ended the process ({name}; {memory / 2**30:.0f} GiB of memory are allowed)'


def _limit(memory: int, seconds: int) -> None:
    """Limits memory and CPU time of this process."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _main(
    module: str, function: str, memory: str, seconds: str, *arguments: str
) -> None:
    """Calls the function with standard input, and writes its answer."""
    # What a user's file prints goes to standard error, not into the answer.
    out = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    content = b''
    try:
        _limit(int(memory), int(seconds))
        called = getattr(importlib.import_module(module), function)
        notes, content = called(*arguments, sys.stdin.buffer.read())
        head = {'notes': notes}
    except MemoryError:
        head = {'error': f'took over {int(memory) / 2**30:.0f} GiB of memory'}
    except BaseException as error:  # a user's file can raise any
        head = {'error': text.cause_of(error)}
    out.write(json.dumps(head).encode() + b'\n' + content)
    out.close()
    os._exit(0)  # threads that a user's file started do not keep the process


if __name__ == '__main__':
    _main(*sys.argv[1:])
