"""Starts a worker process, sends it requests, and restarts it when XLA ends it.

with Session() as session:
    optimised = session.optimise(module)
    measured = session.measure(modules, inputs, seed, protocol)
"""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import math
import multiprocessing
import os
import subprocess
import tempfile
import time
from typing import Any

from baselines.hlo import protos
from tpugraphs_lab.measure.clock import backend
from tpugraphs_lab.measure.clock import machine
from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.programs import children
from tpugraphs_lab.programs import isolated

_WORKER = 'tpugraphs_lab.measure.clock.worker'
# A kernel is given up when the process has ended this often on it.
_MOST_CRASHES = 5
# Seconds of wall time for one compilation, or for all passes.
_SECONDS = 600.0
# Seconds that a request may go on after its deadline.
_GRACE = 5.0
# Seconds that a worker has to start, also where the deadline is over: a busy machine
# needs many, and the caller says better what was spent.
_START = 60.0

# Arguments of `values.draw_array`, one for each parameter.
Inputs = Sequence[dict[str, Any]]


class WorkerError(ValueError):
    """A module that XLA cannot compile, or that ended the process."""


class _Died(WorkerError):
    """The worker process has ended; the text says why."""


def optimise(module: bytes, seconds: int = 600) -> bytes:
    """Returns a serialised module after XLA's passes, in a process of its own.

    Args:
        module: a serialised HloModuleProto; see `kernels.preparation.prepare`.
        seconds: limit of CPU time.

    Raises:
        ValueError: XLA cannot compile it, or takes longer.
    """
    computations = protos.HloModuleProto.FromString(module).computations
    instructions = sum(len(computation.instructions) for computation in computations)
    function, title = f'{__name__}.optimise_here', f'compiling {instructions:,} '
    memory = isolated.PROGRAM_MEMORY
    _, content = isolated.call(
        function, [], module, memory, seconds, f'{title}instructions'
    )
    return content


def optimise_here(module: bytes) -> tuple[list[str], bytes]:
    """Returns no notes, and a serialised module after XLA's passes."""
    os.environ.update(backend.VARIABLES)
    # XLA makes other kernels for several cores.
    os.sched_setaffinity(0, {machine.chosen_core(-1)})
    return [], backend.Backend().compile(module, plain=True).optimised()


def clock_of(platform: str) -> str:
    """Returns the clock that times a platform, one of `timing.CLOCKS`."""
    return 'wall' if platform == 'gpu' else 'cpu'


class Session:
    """A worker process, started again when XLA has ended it.

    Args:
        core: core that it is pinned to, since XLA makes other kernels for several
            cores; -1 for the last.
        platform: 'cpu' or 'gpu'.
        ends: `time.monotonic()` soon after which a request is given up.

    Raises:
        ValueError: there is no such core.
    """

    def __init__(self, core: int = -1, platform: str = 'cpu', ends: float = math.inf):
        self._core, self._platform = machine.chosen_core(core), platform
        self._ends = ends
        self._log = tempfile.TemporaryFile()
        self._process: subprocess.Popen | None = None
        # The configuration that the worker compiles, by its last message.
        self._compiling: int | None = None

    def __enter__(self) -> Session:
        """Starts the first worker; raises ValueError if it does not start."""
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._log.close()

    def stop(self) -> None:
        """Ends the worker; the next request starts a new one."""
        if self._process is not None:
            self._pipe.close()
            children.end(self._process)
            self._process = None

    def optimise(self, module: bytes) -> bytes:
        """Returns a serialised module after XLA's passes; raises WorkerError."""
        return self._call('optimise', self._ends, module=module)

    def measure(
        self,
        modules: Sequence[bytes],
        inputs: Inputs,
        seed: int,
        protocol: timing.Protocol,
        tolerance: float = 0.0,
    ) -> timing.Measured:
        """Times modules that compute the same; arguments are as of `Worker.measure`.

        The clock of `protocol` is replaced by that of the platform.  A module on which
        the process ends is dropped, and the others are compiled again in a new process.
        The request is given up soon after the protocol's deadline.

        Raises:
            WorkerError: the default cannot be compiled, its arrays do not fit into
                memory, or the process ended too often.
        """
        default = protos.HloModuleProto.FromString(modules[0])
        _check_memory(default, inputs)
        ends = min(self._ends, time.monotonic() + protocol.deadline)
        protocol = dataclasses.replace(protocol, clock=clock_of(self._platform))
        request = dict(modules=modules, inputs=inputs, seed=seed, tolerance=tolerance)
        dropped: dict[int, str] = {}
        for _ in range(_MOST_CRASHES):
            self._compiling = None
            left = dataclasses.replace(protocol, deadline=ends - time.monotonic())
            tried = {'skip': list(dropped), 'protocol': left}
            try:
                measured = self._call('measure', ends, **request, **tried)
            except _Died as how:
                if self._compiling == 0:
                    raise WorkerError(f'{how} on the untiled kernel') from how
                if time.monotonic() > ends:
                    raise
                if self._compiling is not None:
                    dropped[self._compiling] = str(how)
                continue
            refused = {**dropped, **measured.dropped}
            return dataclasses.replace(measured, dropped=dict(sorted(refused.items())))
        raise WorkerError(f'{timing.DIED} {_MOST_CRASHES} times')

    def _call(self, method: str, ends: float, **arguments: object) -> Any:
        """Calls a method of `Worker` in the process, which is started if need be.

        The call is given up soon after the `time.monotonic()` that is `ends`.
        """
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._start()
        return self._request(method, ends, arguments)

    def _request(self, method: str, ends: float, arguments: dict[str, object]) -> Any:
        """Sends a request, and returns the result; raises WorkerError or _Died."""
        given_up = max(ends, time.monotonic()) + _GRACE
        seconds = min(_SECONDS, given_up - time.monotonic())
        died = f'{timing.TOO_LONG} {seconds:.0f} s'
        try:
            self._pipe.send((method, arguments))
            # Each message starts the seconds again, but not the request's own end.
            while self._pipe.poll(min(_SECONDS, given_up - time.monotonic())):
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
        self._process = children.start(
            f'{_WORKER}.serve',
            [str(theirs.fileno())],
            backend.VARIABLES,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        try:
            where = {'core': self._core, 'platform': self._platform}
            ends = max(self._ends, time.monotonic() + _START)
            self._request('start', ends, where)
        except _Died as how:
            self._log.seek(0)
            printed = self._log.read().decode(errors='replace').strip().splitlines()
            raise ValueError(
                f'the worker does not start: {printed[-1] if printed else how}'
            ) from how
        except WorkerError as error:
            self.stop()
            raise ValueError(str(error)) from error


def _check_memory(module: protos.HloModuleProto, inputs: Inputs) -> None:
    """Raises WorkerError if drawn inputs and results of a module are too large."""
    result = module.host_program_shape.result
    results = [shape.dimensions for shape in (*result.tuple_shapes, result)]
    # Inputs are drawn, and results compared, as float64.
    drawn = [spec['dims'] for spec in inputs]
    needed = sum(8 * math.prod(dims) for dims in (*drawn, *results))
    if needed > isolated.PROGRAM_MEMORY:
        raise WorkerError(
            f'arrays of {needed / 2**30:,.0f} GiB while they are checked; '
            f'{isolated.PROGRAM_MEMORY >> 30} GiB may be used'
        )
