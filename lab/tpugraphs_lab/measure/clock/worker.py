"""Compiles and times configurations in a process of jaxlib and NumPy alone.

`serve` answers a `session.Session` at the other end of a pipe: (method of `Worker`,
arguments) -> ('done', result) or ('error', text).  XLA ends its process on certain
modules; so before each compilation the worker sends ('compile', number), and the last
number sent is the culprit.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
from multiprocessing import connection
import os
import time
from typing import Any

import numpy as np

from tpugraphs_lab.measure.clock import backend as backend_lib
from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.measure.clock import values
from tpugraphs_lab.programs import isolated
from tpugraphs_lab.programs import xla

# The share of a result's values that have to be finite: others cannot be compared.
_LEAST_FINITE = 0.99
_TAMER_DRAWS = 4  # tried when results are not finite
# Draws of inputs that show how much rounding changes a value.
_DRAWS = 3


class Worker:
    """Answers the requests of a session by its public methods.

    Args:
        send: sends a message to the session: (kind, content).

    Attributes:
        backend: XLA, once `start` was called.
    """

    backend: backend_lib.Backend

    def __init__(self, send: Callable[[tuple[str, object]], None]):
        self._send = send

    def start(self, core: int, platform: str) -> None:
        """Pins this process to a core, limits its memory, and starts XLA."""
        import resource

        import ml_dtypes  # noqa: F401  makes bfloat16 a type of NumPy's

        if core >= 0:
            os.sched_setaffinity(0, {core})
        resource.setrlimit(resource.RLIMIT_DATA, (isolated.PROGRAM_MEMORY,) * 2)
        self.backend = backend_lib.Backend(platform)

    def optimise(self, module: bytes) -> bytes:
        """Returns a serialised module after XLA's passes."""
        return self.backend.compile(module, plain=True).optimised()

    def measure(
        self,
        modules: list[bytes],
        inputs: list[dict[str, Any]],
        seed: int,
        skip: list[int],
        protocol: timing.Protocol,
        tolerance: float = 0.0,
    ) -> timing.Measured:
        """Compiles the configurations of a kernel, checks them and times them.

        Args:
            modules: serialised HloModuleProtos, the default first.
            inputs: arguments of `values.draw_array`, by parameter.
            seed: seed for the inputs and the order of timing.
            skip: numbers of modules to leave out.
            protocol: the number of passes, and the limits of time.
            tolerance: relative tolerance of results, see `kernels.rounding`.

        Raises:
            CompileError, RuntimeError: of XLA, for the default.
            ValueError: there are other modules, and the default's results cannot be
                compared; or the default takes too long for the protocol.
        """
        began = time.monotonic()
        rng = np.random.default_rng(seed)
        default: Default | None = None
        runs: dict[int, Callable[[], object]] = {}
        once: dict[int, int] = {}  # number of a slow configuration -> its one time
        dropped: dict[int, str] = {}
        most = len(modules)  # configurations to time
        # The default is compiled again as the last, however late it is: the difference
        # of its two times is what any other difference is compared with.
        for place, index in enumerate([*range(len(modules)), 0]):
            again = place == len(modules)
            timed = len(runs) + len(once)
            is_enough = timed >= most or not protocol.compiles_more(
                time.monotonic() - began, timed
            )
            if (index in skip or is_enough) and not again:
                continue
            self._send(('compile', index))
            started = time.monotonic()
            try:
                program = self.backend.compile(modules[index])
                compiling = time.monotonic() - started
                if default is None:
                    default = Default(program, inputs, rng, tolerance)
                    if len(modules) > 1:
                        default.check_comparable()
                    most = default.most_configs(protocol, compiling)
                    protocol = protocol.for_default(default.taken_ns)
                else:
                    default.check(program)
                    taken = default.time(program)
                    if taken > timing.ONCE * default.taken_ns and not again:
                        once[place] = taken
                        continue
                runs[place] = default.run_of(program)
            except (backend_lib.CompileError, RuntimeError, _Dropped) as error:
                if not index:
                    raise
                dropped[index] = _reason_of(error)
        self._send(('compile', None))
        passes = timing.measure(list(runs.values()), protocol, rng, began)
        again_ns = passes[:, -1]  # [passes], of the default compiled again
        repeated = np.tile(np.array([*once.values()], np.int64), (len(passes), 1))
        # [passes, kept]: those timed in every pass, then those that ran once.
        columns = np.concatenate([passes[:, :-1], repeated], axis=1)
        kept = [place for place in runs if place < len(modules)] + [*once]
        return timing.Measured(kept, columns, again_ns, dropped, [*once])


class _Dropped(Exception):
    """A configuration that is not timed; the text says why."""


def _reason_of(error: Exception) -> str:
    """Returns the reason for dropping a configuration: a line of the error."""
    if isinstance(error, backend_lib.CompileError):
        return f'{timing.REFUSED}: {error}'
    if isinstance(error, RuntimeError):  # XLA's own, such as too little memory
        return f'{timing.FAILED}: {error}'
    return str(error)


class Default:
    """The results and the time of the default, which other programs are checked by.

    Args:
        program: the compiled default.
        inputs: arguments of `values.draw_array`, by parameter.
        rng: generator of the inputs.
        tolerance: relative tolerance of results.

    Attributes:
        taken_ns: nanoseconds of one run.
    """

    def __init__(
        self,
        program: xla.CompiledModule,
        inputs: list[dict[str, Any]],
        rng: np.random.Generator,
        tolerance: float,
    ):
        self._program, self._rng, self._tolerance = program, rng, tolerance
        self._inputs = inputs
        for self._tamings in range(_TAMER_DRAWS + 1):
            self._take(self._draw_inputs())
            if self._finite >= _LEAST_FINITE:
                break
        self.taken_ns = timing.time_once(self.run_of(program))

    def _draw_inputs(self) -> list[np.ndarray]:
        """Draws inputs, made tamer `_tamings` times."""
        arrays = [values.draw_array(self._rng, **spec) for spec in self._inputs]
        for attempt in range(self._tamings):
            arrays = [values.tamer(array, attempt) for array in arrays]
        return arrays

    def _take(self, arrays: list[np.ndarray]) -> None:
        """Runs the default on inputs."""
        self._arrays = arrays
        self._buffers = self._program.place(arrays)
        self._expected = self._program.outputs(self._buffers)
        self._finite = min(map(values.finite_share, self._expected), default=1.0)

    @functools.cached_property
    def _limits(self) -> list[np.ndarray]:
        """For each value of the results how far another program's may be from it.

        Where large terms cancel, rounding errors are large relative to the result.  So
        a value may change by a share of itself, and as much as it does when inputs
        change by that share.
        """
        limits = [self._tolerance * np.abs(values.widen(a)) for a in self._expected]
        changes = [np.zeros(a.shape) for a in self._expected]
        for _ in range(_DRAWS):
            arrays = [
                values.perturbed(self._rng, a, self._tolerance) for a in self._arrays
            ]
            outputs = self._program.outputs(self._program.place(arrays))
            for change, before, after in zip(changes, self._expected, outputs):
                with np.errstate(invalid='ignore'):  # inf - inf
                    found = np.abs(values.widen(after) - values.widen(before))
                # The square root of 0 and the like may be NaN next to it.
                np.maximum(change, np.nan_to_num(found, nan=np.inf), out=change)
        return [limit + change for limit, change in zip(limits, changes)]

    def run_of(self, program: xla.CompiledModule) -> Callable[[], object]:
        """Returns a function that runs a program once with the default's inputs."""
        return functools.partial(program.run, self._buffers)

    def most_configs(self, protocol: timing.Protocol, compiling: float) -> int:
        """Returns how many configurations to time; raises ValueError for none."""
        most = protocol.most_configs(self.taken_ns, compiling)
        if not most:
            raise ValueError(timing.TOO_LARGE)
        return most

    def check_comparable(self) -> None:
        """Raises ValueError if agreement with the results would show nothing.

        More than a hundredth of them is not finite, or they are the same for other
        inputs.
        """
        if self._finite < _LEAST_FINITE:
            raise ValueError(
                f'{timing.NOT_COMPARABLE}: only {self._finite:.0%} of a result are '
                'finite numbers'
            )
        # The maximum of many numbers is the same in every draw of one size.
        arrays = [values.halved(array) for array in self._draw_inputs()]
        others = self._program.outputs(self._program.place(arrays))
        if any(a.tobytes() == b.tobytes() for a, b in zip(self._expected, others)):
            raise ValueError(
                f'{timing.NOT_COMPARABLE}: a result does not change with the inputs'
            )

    def check(self, program: xla.CompiledModule) -> None:
        """Raises _Dropped if a program's results differ from the default's."""
        if not values.are_close(
            self._expected, program.outputs(self._buffers), self._limits
        ):
            raise _Dropped(timing.WRONG)

    def time(self, program: xla.CompiledModule) -> int:
        """Returns the nanoseconds of one run; raises _Dropped if it takes too long."""
        run, slow = self.run_of(program), timing.LIMIT * self.taken_ns
        taken = timing.time_once(run)
        if taken > slow and min(timing.time_once(run) for _ in range(3)) > slow:
            raise _Dropped(timing.TOO_SLOW)
        return taken


def serve(handle: str) -> None:
    """Serves requests on a pipe until the session closes it."""
    pipe = connection.Connection(int(handle))
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
