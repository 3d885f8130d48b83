"""Runs commands and scripts: exit codes, and errors of one line.

Mistakes of the user (`ValueError`, `OSError`) become one line on stderr and
exit code 1, of a `UsageError` 2; set TPUGRAPHS_DEBUG=1 to see where they came
from.  Anything else is a bug of this package and keeps its traceback.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import logging
import os
import shlex
import shutil
import sys
from typing import Any, TextIO, cast

from baselines.core import phases
from baselines.core import text


class UsageError(ValueError):
    """Raised for flags that do not go together: exit code 2, as for unknown flags."""


def refuse_arguments(argv: Sequence[str]) -> None:
    """Exits with an error for stray arguments: `--flag value` typed as `flag value`."""
    if len(argv) > 1:
        sys.exit(f'error: {argv[1]!r} is not a flag; see {argv[0]} --help')


@contextlib.contextmanager
def log_progress(short: bool = False) -> Iterator[None]:
    """Prints the progress of long work on stderr while the block runs.

    A terminal shows bars, a log gets lines.

    Args:
        short: whether to print also the beginnings of phases, and the ends of phases
            shorter than half a minute.
    """
    handler = logging.StreamHandler()
    logger = phases.get_logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if short else logging.INFO)
    logger.propagate = False  # absl prints what reaches the root
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = True


class _Output:
    """Standard output: passes on `text.escape_lines`.

    Attributes:
        is_lost: whether something could not be written.
    """

    def __init__(self, stream: TextIO, is_closed: bool):
        self._stream, self._is_closed = stream, is_closed
        self.is_lost = False

    def write(self, content: str) -> int:
        """Writes text; returns its number of characters."""
        self.is_lost |= self._is_closed
        self._stream.write(text.escape_lines(content))
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Messages(_Output):
    """Standard error: text that it cannot take is dropped, and the work goes on."""

    def write(self, content: str) -> int:
        self.is_lost |= self._is_closed
        try:
            self._stream.write(content)
            self._stream.flush()
        except OSError as error:
            self.is_lost |= not isinstance(error, BrokenPipeError)
            _discard_output(self._stream)
        return len(content)


def run_guarded(work: Callable[[], int | None]) -> int:
    """Runs `work` and returns an exit code; user errors become one line.

    Control characters in its output are escaped, since it may quote an untrusted file.
    The code is 1 if something could not be written.
    """
    closed = _open_closed_streams()
    output = _Output(sys.stdout, 'stdout' in closed)
    messages = _Messages(sys.stderr, 'stderr' in closed)
    with contextlib.redirect_stdout(cast(TextIO, output)):
        with contextlib.redirect_stderr(cast(TextIO, messages)):
            code = _run_work(work)
            if output.is_lost:
                text.note('standard output is closed')
    return code or int(output.is_lost or messages.is_lost)


def _run_work(work: Callable[[], int | None]) -> int:
    """Runs `work` and returns its exit code; user errors become one line."""
    try:
        if hasattr(sys.stdout, 'reconfigure'):
            sys.stdout.reconfigure(line_buffering=True)  # a log is read while it grows
        code = work() or 0
        _flush_output()
        return code
    except BrokenPipeError:
        # The reader (`head`, a pager) has left; nothing is wrong.
        _discard_output(sys.stdout)
        return 141  # 128 + SIGPIPE, as in a shell
    except (KeyboardInterrupt, Exception) as error:
        if text.is_interrupt(error):
            message = 'interrupted'
            if isinstance(error, text.Interrupted):
                message = f'{error}; go on with: {format_command(*error.flags)}'
            print(f'\n{message}', file=sys.stderr)
            return 130  # 128 + SIGINT
        is_of_user = isinstance(error, (ValueError, OSError))
        if not is_of_user or os.environ.get('TPUGRAPHS_DEBUG'):
            raise
        print(f'error: {text.one_line(error)}', file=sys.stderr)
        with contextlib.suppress(OSError):
            _flush_output()  # or drops what a full disk does not take
        return 2 if isinstance(error, UsageError) else 1


def _open_closed_streams() -> list[str]:
    """Opens standard streams that the process was started without, as by `>&-`.

    Otherwise the next files that are opened would take the numbers of these streams,
    and libraries would print into them.

    Returns:
        Their names.
    """
    closed = []
    for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # takes the lowest free number
            os.set_inheritable(stream.fileno(), True)  # as standard streams are
            setattr(sys, name, stream)
            closed.append(name)
    return closed


def format_command(*flags: str) -> str:
    """Returns the command line of this process, quoted, with `flags` added to it."""
    started = sys.orig_argv
    # A console script is run by Python, but its user has typed its name.
    name = os.path.basename(sys.argv[0])
    if len(started) > 1 and shutil.which(name) == started[1]:
        started = [name, *started[2:]]
    return shlex.join([*started, *(flag for flag in flags if flag not in started)])


def _flush_output() -> None:
    """Flushes standard output before Python does, where an error is handled."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output(sys.stdout)
        raise


def _discard_output(stream: TextIO) -> None:
    """Prevents Python from writing, and failing, again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
