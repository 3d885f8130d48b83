"""The process that compiles and times: jaxlib and NumPy, no TensorFlow.

`python -m tpugraphs.measure.worker HANDLE` answers a `session.Session` at the
other end of a pipe: (method of `Worker`, arguments) -> ('done', result) or
('error', text).  XLA ends its process on some modules; so before each compilation
it says ('compile', number), and the last one is the culprit.
"""

import contextlib
import ctypes
import functools
import math
from multiprocessing import connection
import os
import re
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np

from tpugraphs.measure import backend as backend_lib
from tpugraphs.measure import timing
from tpugraphs.programs import conversion
from tpugraphs.programs import extras

# Relative to the largest value: rounding differs with the order of additions.
TOLERANCE = {
    'float32': 1e-4,
    'complex64': 1e-4,
    'float16': 1e-2,
    'bfloat16': 5e-2,
    'float64': 1e-9,
    'complex128': 1e-9,
}

# Of a network's weights, the least deviation.
_LEAST_WEIGHT = 0.02
_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


class Worker:
    """Answers requests.

    Args:
        say: sends a kind of message and its content.
    """

    def __init__(self, say: Callable[[Tuple[str, Any]], None]):
        self._say = say
        self._seen: Dict[str, Set[str]] = {}

    def start(self, core: int, platform: str) -> str:
        """Pins this process to a core, limits its memory, and finds the platform.

        Returns:
            XLA's name of the device.
        """
        import resource

        if core >= 0:
            os.sched_setaffinity(0, {core})
        resource.setrlimit(resource.RLIMIT_DATA, (conversion.MEMORY, conversion.MEMORY))
        self._backend = backend_lib.Backend(platform)
        return self._backend.device

    def check(self, kernel: bytes, constrained: bytes, tiled: bytes) -> None:
        """Tests XLA; see `session.checked`.

        Raises:
            ValueError: it ignores layouts, or tiles change a result.
        """
        plain, moved, loop = map(self._backend.compile, (kernel, constrained, tiled))
        copies = [
            len(re.findall(r' (?:copy|transpose)\(', program.text()))
            for program in (plain, moved)
        ]
        if copies[0] >= copies[1]:
            raise ValueError(
                f'the XLA of this jaxlib ignores LayoutConstraint; run {extras.INSTALL}'
            )
        array = np.arange(48, dtype=np.float32).reshape(8, 6)
        results = [program.outputs(program.place([array])) for program in (plain, loop)]
        if not same(*results):
            raise ValueError(
                'the XLA of this jaxlib computes a loop over tiles wrongly; run '
                f'{extras.INSTALL}'
            )

    def optimise(self, module: bytes) -> bytes:
        """Returns what XLA makes of a module."""
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
    ) -> Tuple[List[int], np.ndarray, Dict[int, str], Dict[int, float]]:
        """Compiles the configurations of a kernel, checks them and times them.

        Args:
            kernel: its name.
            modules: serialised HloModuleProtos, the default first.
            inputs: of each parameter: type, dims, high (of integers).
            seed: of inputs and order.
            skip: modules to leave out.
            protocol: how long.
            distinct: leave out what compiles to the same program as another, of
                this request or one before.
            most: configurations to time at most, besides the default.
            arrays: inputs in place of random ones.
            tolerance: of results, relative to the largest value, where it is more than
                that of their type.

        Returns:
            Numbers of what was timed; int64 [passes, timed + 1], nanoseconds, the
            last column the default compiled again; number -> why it was dropped;
            number -> seconds that it took to compile.
        """
        began = time.monotonic()
        rng = np.random.default_rng(seed)
        drawn = arrays is None
        if drawn:
            arrays = _arrays(rng, inputs)
        runs: Dict[int, Callable[[], None]] = {}
        dropped: Dict[int, str] = {}
        compiling: Dict[int, float] = {}
        expected = slow = buffers = None
        for place, index in enumerate([*range(len(modules)), 0]):
            again = place == len(modules)
            if (index in skip or len(runs) > most) and not again:
                continue
            spent = time.monotonic() - began
            late = spent > min(protocol.compiling, protocol.deadline)
            if late and len(runs) > 1 and not again:
                break
            self._say(('compile', index))
            started = time.monotonic()
            try:
                program = self._backend.compile(modules[index])
            except backend_lib.CompileError as error:
                if not index:
                    raise
                dropped[index] = f'{timing.REFUSED}: {error}'
                continue
            finally:
                compiling.setdefault(index, time.monotonic() - started)
            if distinct:
                seen = self._seen.setdefault(kernel, set())
                body = program.text().partition('\n')[2]  # without its name
                if index and body in seen:
                    dropped[index] = 'the same program as another'
                    continue
                seen.add(body)
            buffers = buffers or program.place(arrays)
            run = functools.partial(program.run, buffers)
            try:
                outputs = program.outputs(buffers)
                if drawn and expected is None and not _finite(outputs):
                    buffers = program.place([_scaled(array) for array in arrays])
                    run = functools.partial(program.run, buffers)
                    outputs = program.outputs(buffers)
            except RuntimeError as error:  # XLA's own, such as too little memory
                if not index:
                    raise
                dropped[index] = f'{timing.FAILED}: {error}'
                continue
            taken = timing.once(run)
            if expected is None:
                expected, slow = outputs, timing.LIMIT * taken
            elif not same(expected, outputs, tolerance):
                dropped[index] = timing.WRONG
                continue
            elif taken > slow and min(timing.once(run) for _ in range(3)) > slow:
                dropped[index] = timing.TOO_SLOW
                continue
            runs[place] = run
        self._say(('compile', None))
        parent = os.getppid()
        passes = timing.measure(
            list(runs.values()), protocol, rng, lambda: os.getppid() != parent, began
        )
        kept = [place for place in runs if place < len(modules)]
        return kept, passes, dropped, compiling


def _arrays(rng: np.random.Generator, inputs: List[dict]) -> List[np.ndarray]:
    """Draws inputs.

    Raises:
        ValueError: they do not fit into memory.
    """
    needed = sum(8 * math.prod(spec['dims']) for spec in inputs)
    if needed > conversion.MEMORY:
        raise ValueError(
            f'inputs of {needed / 2**30:.0f} GiB while they are drawn; '
            f'{conversion.MEMORY >> 30} GiB may be used'
        )
    return [_array(rng, **spec) for spec in inputs]


def _array(
    rng, type: str, dims: List[int], high: int = 2, balanced: bool = False
) -> np.ndarray:
    """Returns values for which no operation is unusually fast or slow.

    Args:
        rng: draws them.
        type: NumPy's name.
        dims: of the array.
        high: integers are below it.
        balanced: whether matrices are of both signs, and such that values neither grow
            nor become alike from layer to layer; positive ones blow up rounding.
    """
    if type == 'bool':
        return rng.random(dims) < 0.5
    if type.startswith(('int', 'uint')):
        high = min(high, 100) if '8' in type else high
        return rng.integers(0, high, dims).astype(type)
    values = rng.uniform(0.1, 1.1, dims).astype(np.float32)
    if balanced and len(dims) > 1:
        inputs = max(1, math.prod(dims[:-1]))
        values = rng.normal(0, max(_LEAST_WEIGHT, inputs**-0.5), dims)
    if type == 'bfloat16':
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(type)


def _finite(arrays: List[np.ndarray]) -> bool:
    """Whether no value is infinite or not a number."""
    return all(np.isfinite(_real(array)).all() for array in arrays)


def _real(array: np.ndarray) -> np.ndarray:
    """Returns an array as float64, both parts of complex numbers."""
    if array.dtype.kind == 'c':
        array = np.stack([array.real, array.imag])
    return array.astype(np.float64)


def _scaled(array: np.ndarray) -> np.ndarray:
    """Returns positive floats with which sums of products do not grow.

    Training steps take roots of some.
    """
    if array.ndim < 2 or array.dtype.kind in 'biu':
        return array
    inputs = math.prod(array.shape[:-1])
    return (np.abs(array) / max(1, inputs)).astype(array.dtype)


def same(expected: List[Any], found: List[Any], tolerance: float = 0.0) -> bool:
    """Whether results agree, integers exactly, and others but for rounding.

    Args:
        expected: arrays.
        found: arrays.
        tolerance: relative to the largest value, where it is more than that of a type.
    """
    return len(expected) == len(found) and all(
        _same_array(a, b, tolerance) for a, b in zip(expected, found)
    )


def _same_array(expected: np.ndarray, found: np.ndarray, tolerance: float) -> bool:
    name = expected.dtype.name
    if expected.shape != found.shape or name != found.dtype.name:
        return False
    if expected.dtype.kind in 'biu':
        return bool((expected == found).all())
    a, b = _real(expected), _real(found)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.abs(a[finite]).max(initial=0)
    worst = np.abs(a[finite] - b[finite]).max(initial=0)
    return bool(worst <= max(TOLERANCE[name], tolerance) * scale)


def _end_with_parent() -> None:
    """Has Linux end this process when the one that started it ends, however it does."""
    parent = os.getppid()
    with contextlib.suppress(AttributeError, OSError):  # there on Linux alone
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main(handle: int) -> None:
    """Serves requests until the other side is gone."""
    _end_with_parent()
    pipe = connection.Connection(handle)
    worker = Worker(pipe.send)
    while True:
        try:
            do, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = ('done', getattr(worker, do)(**arguments))
        except Exception as error:  # or the other side would say that XLA has died
            text = str(error) or type(error).__name__
            if not isinstance(error, (ValueError, MemoryError, OSError)):
                text = f'{type(error).__name__}: {text}'
            answer = ('error', ' '.join(text.split()))
        pipe.send(answer)


if __name__ == '__main__':
    main(int(sys.argv[1]))
