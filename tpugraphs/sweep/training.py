"""The process that trains a model of a trial, and tells its parent the curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import traceback
from typing import Any

import tqdm

from baselines import config as config_lib
from baselines.core import text
from baselines.runs import finding

Curve = dict[str, list[Any]]
AfterEpoch = Callable[[Curve], None]
Train = Callable[[config_lib.AnyConfig, AfterEpoch], Curve]


def train_model(config: config_lib.AnyConfig, after_epoch: AfterEpoch) -> Curve:
    """Trains a model, or goes on with it; returns its curve.

    Args:
        after_epoch: called with the curve after each epoch.

    Raises:
        ValueError: the settings or the data are unusable.
        OSError: something cannot be written.
    """
    from baselines.training import jobs

    model_dir = jobs.train(config, after_epoch=lambda state: after_epoch(state.curve))
    return finding.load(model_dir).info['train_curve']


def work(
    train: Train,
    config: config_lib.AnyConfig,
    cores: Sequence[int],
    log: str,
    sender: multiprocessing.connection.Connection,
) -> None:
    """Trains a model; called in a process of its own, which prints into `log`.

    Sends the curve after each epoch and at the end, or why it failed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # By default it is shared by processes, and would be left when this one is killed.
    tqdm.tqdm.set_lock(threading.RLock())
    if cores and hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, cores)
    with open(log, 'ab', buffering=0) as stream:
        for output in (sys.stdout, sys.stderr):
            os.dup2(stream.fileno(), output.fileno())
    try:
        sender.send(train(config, sender.send))
    except Exception as error:
        traceback.print_exc()
        # TensorFlow's own error, by its name: this module does not import TensorFlow.
        is_full = 'ResourceExhausted' in type(error).__name__
        name = '' if isinstance(error, (ValueError, OSError)) else type(error).__name__
        is_full = is_full or isinstance(error, MemoryError)
        sender.send('out of memory' if is_full else text.one_line(error, name))


def _end_with_parent() -> None:
    """Ends this process at once when the one that started it has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
