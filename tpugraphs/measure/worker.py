"""Compiles and times configurations in a process of jaxlib and NumPy alone.

`python -m tpugraphs.measure.worker HANDLE` answers a `session.Session` at the
other end of a pipe: (method of `Worker`, arguments) -> ('done', result) or
('error', text).  XLA ends its process on certain modules; so before each compilation
the worker sends ('compile', number), and the last number sent is the culprit.
"""

import collections
import contextlib
import ctypes
import functools
import math
from multiprocessing import connection
import os
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np

from tpugraphs.measure import backend as backend_lib
from tpugraphs.measure import timing
from tpugraphs.programs import conversion

# Largest difference of two results, relative to the largest value: rounding depends
# on the order of additions.
TOLERANCE = {
    'float32': 1e-4,
    'complex64': 1e-4,
    'float16': 1e-2,
    'bfloat16': 5e-2,
    'float64': 1e-9,
    'complex128': 1e-9,
}

# The least standard deviation of drawn weights.
_LEAST_DEVIATION = 0.02
_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


class Worker:
    """Answers the requests of a session by its public methods.

    Args:
        send: sends a message to the session: (kind, content).
    """

    def __init__(self, send: Callable[[Tuple[str, Any]], None]):
        self._send = send
        # The optimised modules of a kernel's configurations as text, by the kernel.
        self._texts: Dict[str, Set[str]] = collections.defaultdict(set)

    def start(self, core: int, platform: str) -> str:
        """Pins this process to a core, limits its memory, and starts XLA on a platform.

        Returns:
            XLA's name of the device.
        """
        import resource

        if core >= 0:
            os.sched_setaffinity(0, {core})
        resource.setrlimit(resource.RLIMIT_DATA, (conversion.MEMORY, conversion.MEMORY))
        self._backend = backend_lib.Backend(platform)
        return self._backend.device

    def optimise(self, module: bytes) -> bytes:
        """Returns a serialised module after XLA's passes."""
        return self._backend.compile(module, plain=True).optimised()

    def measure(
        self,
        kernel: str,
        modules: List[bytes],
        inputs: List[dict],
        seed: int,
        skip: List[int],
        protocol: timing.Protocol,
        distinct: bool = False,
        most: int = 1 << 30,
        arrays: Optional[List[np.ndarray]] = None,
        tolerance: float = 0.0,
    ) -> timing.Measured:
        """Compiles the configurations of a kernel, checks them and times them.

        Args:
            kernel: the kernel's name.
            modules: serialised HloModuleProtos, the default first.
            inputs: arguments of `draw_array`, by parameter.
            seed: of the inputs and the order of timing.
            skip: numbers of modules to leave out.
            protocol: the number of passes, and the limits of time.
            distinct: leave out a configuration that compiles to the same program as an
                earlier one, of this request or one before.
            most: configurations to time at most, besides the default.
            arrays: inputs in place of random ones.
            tolerance: of results, relative to the largest value; that of their type
                holds where it is larger.

        Raises:
            CompileError, RuntimeError: of XLA, for the default.
        """
        began = time.monotonic()
        rng = np.random.default_rng(seed)
        drawn = arrays is None
        if arrays is None:
            arrays = [draw_array(rng, **spec) for spec in inputs]
        default: Optional[_Default] = None
        runs: Dict[int, Callable[[], Any]] = {}
        dropped: Dict[int, str] = {}
        compiling: Dict[int, float] = {}
        # The default is compiled again as the last.
        for place, index in enumerate([*range(len(modules)), 0]):
            again = place == len(modules)
            if (index in skip or len(runs) > most) and not again:
                continue
            spent = time.monotonic() - began
            is_late = spent > min(protocol.compiling, protocol.deadline)
            if is_late and len(runs) > 1 and not again:
                break
            self._send(('compile', index))
            started = time.monotonic()
            try:
                program = self._backend.compile(modules[index])
                compiling.setdefault(index, time.monotonic() - started)
                if distinct:
                    self._check_distinct(kernel, program, index)
                if default is None:
                    default = _Default(program, arrays, drawn)
                else:
                    default.check(program, tolerance)
                runs[place] = default.run_of(program)
            except (backend_lib.CompileError, RuntimeError, _Dropped) as error:
                if not index:
                    raise
                dropped[index] = _reason_of(error)
        self._send(('compile', None))
        passes = timing.measure(list(runs.values()), protocol, rng, began)
        kept = [place for place in runs if place < len(modules)]
        return timing.Measured(
            kept, passes[:, : len(kept)], passes[:, -1], dropped, compiling
        )

    def _check_distinct(
        self, kernel: str, program: backend_lib.Compiled, index: int
    ) -> None:
        """Raises _Dropped if an earlier configuration compiled to the same program."""
        body = program.text().partition('\n')[2]  # without its name
        if index and body in self._texts[kernel]:
            raise _Dropped('the same program as another')
        self._texts[kernel].add(body)


class _Dropped(Exception):
    """A configuration that is not timed; the text says why."""


def _reason_of(error: Exception) -> str:
    """Returns the reason for dropping a configuration: a line of the error."""
    if isinstance(error, backend_lib.CompileError):
        return f'{timing.REFUSED}: {error}'
    if isinstance(error, RuntimeError):  # XLA's own, such as too little memory
        return f'{timing.FAILED}: {error}'
    return str(error)


class _Default:
    """The results and the time of the default, which other programs are checked by."""

    def __init__(
        self, program: backend_lib.Compiled, arrays: List[np.ndarray], drawn: bool
    ):
        """Runs the default; random inputs are scaled if its results are not finite."""
        self._buffers = program.place(arrays)
        self._expected = program.outputs(self._buffers)
        if drawn and not all(np.isfinite(_wide(a)).all() for a in self._expected):
            self._buffers = program.place([scaled(array) for array in arrays])
            self._expected = program.outputs(self._buffers)
        self._slow_ns = timing.LIMIT * timing.time_once(self.run_of(program))

    def run_of(self, program: backend_lib.Compiled) -> Callable[[], Any]:
        """Returns a function that runs a program once with the default's inputs."""
        return functools.partial(program.run, self._buffers)

    def check(self, program: backend_lib.Compiled, tolerance: float) -> None:
        """Raises _Dropped if results differ from the default's, or take too long."""
        run, slow = self.run_of(program), self._slow_ns
        outputs, taken = program.outputs(self._buffers), timing.time_once(run)
        if not are_close(self._expected, outputs, tolerance):
            raise _Dropped(timing.WRONG)
        if taken > slow and min(timing.time_once(run) for _ in range(3)) > slow:
            raise _Dropped(timing.TOO_SLOW)


def draw_array(
    rng: np.random.Generator,
    type: str,
    dims: List[int],
    high: int = 2,
    balanced: bool = False,
) -> np.ndarray:
    """Returns values for which no operation is unusually fast or slow.

    Args:
        rng: draws them.
        type: NumPy's name of the type.
        dims: of the array.
        high: the bound that integers are below.
        balanced: whether matrices have both signs and a deviation with which values
            neither grow nor become alike from layer to layer; sums of positive ones
            enlarge rounding errors.
    """
    if type == 'bool':
        return rng.random(dims) < 0.5
    if type.startswith(('int', 'uint')):
        high = min(high, 100) if '8' in type else high
        return rng.integers(0, high, dims).astype(type)
    values: np.ndarray = rng.uniform(0.1, 1.1, dims).astype(np.float32)
    if balanced and len(dims) > 1:
        inputs = max(1, math.prod(dims[:-1]))
        values = rng.normal(0, max(_LEAST_DEVIATION, inputs**-0.5), dims)
    return values.astype(type)  # jaxlib makes bfloat16 a type of NumPy's


def _wide(array: np.ndarray) -> np.ndarray:
    """Returns an array in twice the precision or more, to calculate with."""
    return array.astype(np.complex128 if array.dtype.kind == 'c' else np.float64)


def scaled(array: np.ndarray) -> np.ndarray:
    """Returns positive floats with which sums of products do not grow.

    They are positive since training steps take square roots.
    """
    if array.ndim < 2 or array.dtype.kind in 'biu':
        return array
    inputs = math.prod(array.shape[:-1])
    return (np.abs(array) / max(1, inputs)).astype(array.dtype)


def are_close(expected: List[Any], actual: List[Any], tolerance: float = 0.0) -> bool:
    """Tells whether results agree: integers exactly, floats but for rounding.

    Args:
        expected: arrays.
        actual: arrays.
        tolerance: relative to the largest value; `TOLERANCE` holds where it is larger.
    """
    return len(expected) == len(actual) and all(
        _are_arrays_close(a, b, tolerance) for a, b in zip(expected, actual)
    )


def _are_arrays_close(
    expected: np.ndarray, actual: np.ndarray, tolerance: float
) -> bool:
    """Tells whether two arrays agree; see `are_close`."""
    name = expected.dtype.name
    if expected.shape != actual.shape or name != actual.dtype.name:
        return False
    if expected.dtype.kind in 'biu':
        return bool((expected == actual).all())
    a, b = _wide(expected), _wide(actual)
    scale = np.abs(a[np.isfinite(a)]).max(initial=0)
    most = max(TOLERANCE[name], tolerance) * scale
    return np.allclose(b, a, rtol=0, atol=most, equal_nan=True)


def _end_with_parent() -> None:
    """Asks Linux to kill this process when its parent process ends."""
    parent = os.getppid()
    with contextlib.suppress(AttributeError, OSError):  # there on Linux alone
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main(handle: int) -> None:
    """Serves requests on a pipe until the session closes it."""
    _end_with_parent()
    pipe = connection.Connection(handle)
    worker = Worker(pipe.send)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = ('done', getattr(worker, method)(**arguments))
        except Exception as error:  # else the session would report that XLA has died
            text = str(error) or type(error).__name__
            if not isinstance(error, (ValueError, MemoryError, OSError)):
                text = f'{type(error).__name__}: {text}'
            answer = ('error', ' '.join(text.split()))
        pipe.send(answer)


if __name__ == '__main__':
    main(int(sys.argv[1]))
