"""Starts a worker process, sends it requests, and restarts it when XLA ends it.

with Session() as session:
    optimised = session.optimise(module)
    measured = session.measure('kernel', modules, seed, protocol)
"""

import dataclasses
import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from baselines import files
from baselines.hlo import protos
from tpugraphs.measure import backend
from tpugraphs.measure import kernels
from tpugraphs.measure import machine
from tpugraphs.measure import timing
from tpugraphs.programs import conversion

# A kernel is given up when the process has ended this often on it.
_MOST_CRASHES = 5
# Seconds that a request may go on after the session's end.
_GRACE = 10.0


class WorkerError(Exception):
    """A module that XLA cannot compile, or that ended the process."""


class _Died(WorkerError):
    """The worker process has ended; the text says why."""


def clock_of(platform: str) -> str:
    """Returns the clock that times a platform, one of `timing.CLOCKS`."""
    return 'wall' if platform == 'gpu' else 'cpu'


class Session:
    """A worker process, started again when XLA has ended it.

    Args:
        core: the core that it is pinned to, since XLA makes other kernels for several
            cores; -1 for the last.
        platform: 'cpu' or 'gpu'.
        ends: the `time.monotonic()` soon after which a request is given up.
        seconds: of wall time for one compilation, or for all passes.

    Attributes:
        device: XLA's name of the device, once a worker has started.

    Raises:
        ValueError: there is no such core.
    """

    def __init__(
        self,
        core: int = -1,
        platform: str = 'cpu',
        ends: float = math.inf,
        seconds: float = 600,
    ):
        self._core, self._platform = machine.chosen_core(core), platform
        self._ends, self._seconds = ends, seconds
        self._log = tempfile.TemporaryFile()
        self._process: Optional[subprocess.Popen] = None
        # The configuration that the worker compiles, by its last message.
        self._compiling: Optional[int] = None
        self.device = ''

    def __enter__(self) -> 'Session':
        """Starts the first worker.

        Raises:
            ValueError: the worker does not start.
        """
        self._start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        self._log.close()

    def stop(self) -> None:
        """Ends the worker; the next request starts a new one."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def optimise(self, module: bytes) -> bytes:
        """Returns a serialised module after XLA's passes.

        Raises:
            WorkerError: XLA cannot compile it, or ended the process.
        """
        return self._call('optimise', module=module)

    def measure(
        self,
        kernel: str,
        modules: Sequence[bytes],
        seed: int,
        protocol: timing.Protocol,
        arrays: Optional[List[np.ndarray]] = None,
        balanced: bool = False,
        **options: Any,
    ) -> timing.Measured:
        """Times the configurations of a kernel; arguments are as of `Worker.measure`.

        The clock of `protocol` is replaced by that of the platform.  A configuration on
        which the process ends is dropped, and the others are compiled again in a new
        process.  Random inputs may be `balanced`, see `worker.draw_array`.

        Raises:
            WorkerError: the default cannot be compiled, its arrays do not fit into
                memory, or the process ended too often.
        """
        default = protos.protos().HloModuleProto.FromString(modules[0])
        inputs = kernels.inputs_of(default, balanced) if arrays is None else []
        _check_memory(default, inputs)
        request = dict(
            kernel=kernel,
            modules=modules,
            inputs=inputs,
            arrays=arrays,
            seed=seed,
            protocol=dataclasses.replace(protocol, clock=clock_of(self._platform)),
            **options,
        )
        dropped: Dict[int, str] = {}
        for _ in range(_MOST_CRASHES):
            self._compiling = None
            try:
                measured = self._call('measure', skip=list(dropped), **request)
            except _Died as how:
                if self._compiling == 0:
                    raise WorkerError(f'{how} on the untiled kernel') from how
                if time.monotonic() > self._ends:
                    raise
                if self._compiling is not None:
                    dropped[self._compiling] = str(how)
                continue
            refused = {**dropped, **measured.dropped}
            return dataclasses.replace(measured, dropped=dict(sorted(refused.items())))
        raise WorkerError(f'{timing.DIED} {_MOST_CRASHES} times')

    def _call(self, method: str, **arguments: Any) -> Any:
        """Calls a method of `Worker` in the process, which is started if need be."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._start()
        return self._request(method, arguments)

    def _request(self, method: str, arguments: Dict[str, Any]) -> Any:
        """Sends a request, and returns the result; raises WorkerError or _Died."""
        left = max(0.0, self._ends - time.monotonic()) + _GRACE
        seconds = min(self._seconds, left)
        died = f'{timing.TOO_LONG} {seconds:.0f} s'
        try:
            self._pipe.send((method, arguments))
            while self._pipe.poll(seconds):
                kind, content = self._pipe.recv()
                if kind == 'done':
                    return content
                if kind == 'error':
                    raise WorkerError(content)
                self._compiling = content
        except (EOFError, ConnectionError):
            died = timing.DIED
        self.stop()
        raise _Died(died)

    def _start(self) -> None:
        """Starts a process; raises ValueError, with its last output, if it fails."""
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'tpugraphs.measure.worker', str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**files.environment(), **backend.VARIABLES},
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        theirs.close()
        try:
            where = {'core': self._core, 'platform': self._platform}
            self.device = self._request('start', where)
        except _Died as how:
            self._log.seek(0)
            printed = self._log.read().decode(errors='replace').strip().splitlines()
            raise ValueError(
                f'the worker does not start: {printed[-1] if printed else how}'
            ) from how
        except WorkerError as error:
            self.stop()
            raise ValueError(str(error)) from error


def _check_memory(module: Any, inputs: List[dict]) -> None:
    """Raises WorkerError if drawn inputs and results of a module are too large."""
    result = module.host_program_shape.result
    results = [shape.dimensions for shape in (*result.tuple_shapes, result)]
    # Inputs are drawn, and results compared, as float64.
    arrays = (*(array['dims'] for array in inputs), *results)
    needed = sum(8 * math.prod(dims) for dims in arrays)
    if needed > conversion.MEMORY:
        raise WorkerError(
            f'arrays of {needed / 2**30:,.0f} GiB while they are checked; '
            f'{conversion.MEMORY >> 30} GiB may be used'
        )
