"""Imports TensorFlow, LightGBM and the work of commands when they are first needed."""

from collections.abc import Callable
import ctypes
import gc
import importlib
import importlib.util
import os
import sys
import types
from typing import Any

from baselines.core import text


def import_on_use(package: str) -> Callable[[str], types.ModuleType]:
    """Returns a `__getattr__` (PEP 562) that imports a package's modules on first use.

    So a command imports the package alone, and its --help waits for nothing else.
    """

    def load(name: str) -> types.ModuleType:
        module = f'{package}.{name}'
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Another module is missing: one that this module imports.
            if error.name != module:
                raise
        raise AttributeError(f'module {package!r} has no attribute {name!r}')

    return load


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_cpu() -> str:
    """Describes the processor for messages: 'CPU, 2 cores'."""
    return f'CPU, {text.count(count_cores(), "core")}'


def start_tensorflow() -> None:
    """Imports TensorFlow, if it is not imported yet, without its log messages.

    On a terminal it says so at once: this takes seconds.

    A model's operations are small: run side by side they use the cores better
    than split up (benchmarks/tile_speed.py).  TensorFlow's own variables
    TF_NUM_INTRAOP_THREADS and TF_NUM_INTEROP_THREADS take precedence.

    Raises:
        ValueError: it was imported with a Keras that TF-GNN cannot use.
    """
    is_ours = 'tensorflow' not in sys.modules
    if is_ours and sys.stderr.isatty():
        print('starting TensorFlow ...', file=sys.stderr, flush=True)
    # The objects of an import all stay: collecting garbage is a quarter of its time.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        import tensorflow as tf

        model_class = tf.keras.Model  # imports Keras
    finally:
        if is_collecting:
            gc.enable()
    tf.get_logger().setLevel('ERROR')  # hints to authors, whoever imported it
    if model_class.__module__.startswith('keras.src.models'):  # of Keras 3
        raise ValueError(
            'TensorFlow was imported before tpugraphs, with Keras 3, and TF-GNN needs '
            'Keras 2: import tpugraphs first'
        )
    if not is_ours:
        return
    number, threading = count_cores(), tf.config.threading
    # Threads cannot be set any more after the first operation, so this comes here.
    if not os.environ.get('TF_NUM_INTRAOP_THREADS'):
        threading.set_intra_op_parallelism_threads(max(1, number // 2))
    if not os.environ.get('TF_NUM_INTEROP_THREADS'):
        threading.set_inter_op_parallelism_threads(number)


def has_lightgbm() -> bool:
    """Returns whether LightGBM is installed; does not import it."""
    return importlib.util.find_spec('lightgbm') is not None


def import_lightgbm() -> Any:
    """Imports LightGBM, with threads that sleep soon after work; raises ImportError.

    GNU's OpenMP lets a waiting thread spin 300,000 times.  On a busy machine it keeps
    the thread that it waits for from running: growing trees took ten times as long.
    1,000 times cost nothing on an idle machine.  The user's GOMP_SPINCOUNT or
    OMP_WAIT_POLICY takes precedence.
    """
    if 'OMP_WAIT_POLICY' not in os.environ:
        os.environ.setdefault('GOMP_SPINCOUNT', '1000')  # read when it is loaded
    import lightgbm

    return lightgbm


def return_memory() -> None:
    """Returns memory that is free to the system, where the C library can (glibc).

    It keeps what TensorFlow has freed, often more than half of what a process has, and
    large arrays do not use it.
    """
    if sys.platform == 'linux':
        trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
        if trim is not None:
            trim(0)
