"""Processes of a sweep, which end with the one that started them."""

import multiprocessing
import os
import signal
import threading
from typing import Any, Callable


def start(work: Callable[..., None], *arguments: Any) -> Any:
    """Starts a process with an interpreter of its own.

    Ctrl-C reaches all processes of a terminal: this one ignores it, and ends when
    the process that started it ends or terminates it, which raises
    KeyboardInterrupt here.

    Args:
        work: a function of a module, which the process calls.
        *arguments: what with; they are pickled.

    Returns:
        The `multiprocessing.Process`.
    """
    # A forked child would share open databases and locks.
    context = multiprocessing.get_context('spawn')
    process = context.Process(target=_call, args=(work, arguments))
    process.start()
    return process


def _call(work: Callable[..., None], arguments: Any) -> None:
    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work(*arguments)


def _end_with_parent() -> None:
    """Ends this process at once when the one that started it has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def ending(exit_code: int) -> str:
    """Says how a process ended.

    Args:
        exit_code: of the process; negative for a signal.
    """
    if exit_code >= 0:
        return f'ended with exit code {exit_code}'
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal
        name = f'signal {-exit_code}'
    return f'was ended by {name}'
