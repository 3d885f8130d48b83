"""The other side of a worker: starts it, asks it, survives it.

with Session(journal) as session:
    optimised = session.optimise(module)
    measured = session.measure('kernel', modules, inputs, seed, protocol)
"""

import contextlib
import dataclasses
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from baselines import files
from tpugraphs.measure import backend
from tpugraphs.measure import building
from tpugraphs.measure import layouts
from tpugraphs.measure import tiling
from tpugraphs.measure import timing
from tpugraphs.measure import untrusted

# A kernel on which the process ended so often is given up.
_MOST_CRASHES = 5
# Seconds that a request may take after all time is spent.
_GRACE = 10.0


class WorkerError(Exception):
    """A module that XLA cannot compile, or that ended the process."""


class _Died(WorkerError):
    """The worker is gone; the text says how."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """What came of a kernel's configurations."""

    kept: List[int]  # numbers of those that were timed, the default first
    passes: np.ndarray  # int64 [passes, kept], nanoseconds
    again: np.ndarray  # int64 [passes], the default under its second name
    dropped: Dict[int, str]  # number -> why it was not timed
    # number -> seconds that it took to compile
    compiling: Dict[int, float] = dataclasses.field(default_factory=dict)

    @property
    def times(self) -> np.ndarray:
        """The least of each over all passes, int64 [kept]."""
        return self.passes.min(0)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a worker may use."""

    core: int = -1  # the core it is pinned to; -1 for any
    seconds: float = 600  # that one compilation, or all passes, may take
    platform: str = 'cpu'  # 'cpu' or 'gpu'

    @property
    def clock(self) -> str:
        """See `timing.Protocol`."""
        return 'wall' if self.platform == 'gpu' else 'cpu'


class Session:
    """A worker process, started again when XLA has ended it.

    Args:
        journal: file that says what is being compiled.
        limits: what it may use.
        ends: the `time.monotonic()` soon after which a request is given up.

    Attributes:
        device: XLA's name of what is measured on, once a worker has started.
    """

    def __init__(self, journal: str, limits: Limits = Limits(), ends: float = math.inf):
        self._journal = journal
        self._ends = ends
        self._limits = limits
        self._process: Optional[subprocess.Popen] = None
        self._compiling: Optional[int] = None
        self.device = ''

    def __enter__(self) -> 'Session':
        """Starts the first worker and lets it test XLA.

        Raises:
            ValueError: the worker does not start, or fails the test.
        """
        self._log = tempfile.TemporaryFile()
        try:
            self._start()
            self._exchange('check', checked())
        except (WorkerError, ValueError) as error:
            self.restart()
            raise ValueError(str(error)) from error
        return self

    def __exit__(self, *_: Any) -> None:
        self.restart()
        self._log.close()

    def restart(self) -> None:
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
        return self._ask('optimise', module=module)

    def measure(
        self,
        kernel: str,
        modules: Sequence[bytes],
        inputs: List[dict],
        seed: int,
        protocol: timing.Protocol,
        skip: Sequence[int] = (),
        **options: Any,
    ) -> Measured:
        """Times the configurations of a kernel by the clock of the platform.

        Arguments are as of `Worker.measure`.
        A configuration on which the process ends is dropped, and the others
        are compiled again in a new one.

        Raises:
            WorkerError: the default cannot be compiled, or the process ended
                too often.
        """
        protocol = dataclasses.replace(protocol, clock=self._limits.clock)
        dropped = dict.fromkeys(skip, timing.DIED)
        for _ in range(_MOST_CRASHES):
            self._compiling = None
            try:
                kept, passes, more, compiling = self._ask(
                    'measure',
                    kernel=kernel,
                    modules=modules,
                    inputs=inputs,
                    seed=seed,
                    protocol=protocol,
                    skip=list(dropped),
                    **options,
                )
            except _Died as how:
                culprit = self._compiling
                if culprit is not None:
                    note(self._journal, {'kernel': kernel, 'crashed': culprit})
                    dropped[culprit] = str(how)
                if culprit == 0:
                    raise WorkerError(f'{how} on the untiled kernel') from how
                if time.monotonic() > self._ends:
                    raise WorkerError(str(how)) from how
                continue
            dropped = dict(sorted({**dropped, **more}.items()))
            return Measured(
                kept, passes[:, : len(kept)], passes[:, -1], dropped, compiling
            )
        raise WorkerError(f'{timing.DIED} {_MOST_CRASHES} times')

    def _ask(self, do: str, **arguments: Any) -> Any:
        if self._process is None or self._process.poll() is not None:
            self.restart()
            self._start()
        return self._exchange(do, arguments)

    def _exchange(self, do: str, arguments: Dict[str, Any]) -> Any:
        left = max(0.0, self._ends - time.monotonic()) + _GRACE
        seconds = min(self._limits.seconds, left)
        died = f'{timing.TOO_LONG} {seconds:.0f} s'
        try:
            self._pipe.send((do, arguments))
            while self._pipe.poll(seconds):
                kind, content = self._pipe.recv()
                if kind == 'done':
                    return content
                if kind == 'error':
                    raise WorkerError(content)
                self._compiling = content
                note(self._journal, {'kernel': arguments['kernel'], kind: content})
        except (EOFError, ConnectionError):
            died = timing.DIED
        self.restart()
        raise _Died(died)

    def _start(self) -> None:
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
            core, platform = self._limits.core, self._limits.platform
            self.device = self._exchange('start', {'core': core, 'platform': platform})
        except _Died as how:
            self._log.seek(0)
            said = self._log.read().decode(errors='replace').strip().splitlines()
            raise ValueError(
                f'the worker does not start: {said[-1] if said else how}'
            ) from how
        except WorkerError as error:
            raise ValueError(str(error)) from error


def checked() -> Dict[str, bytes]:
    """Returns the arguments of `Worker.check`: serialised HloModuleProtos.

    `kernel` negates a float32 [8, 6], `constrained` does it in a layout that is not
    row-major, and `tiled` as a loop over four tiles.
    """
    module = building.Module('negate')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [8, 6]))
    entry.add('negate', x.shape, [x])
    kernel = module.finish(entry)
    found = {
        'kernel': kernel,
        'constrained': layouts.constrained(kernel, [1], [((0, 1), (0, 1))]),
        'tiled': tiling.tile(tiling.Plan(kernel), tiling.Tiles((4, 3), ())).module,
    }
    return {name: module.SerializeToString() for name, module in found.items()}


def note(path: str, line: dict) -> None:
    """Appends a line to a journal; one that was cut short stays by itself.

    Raises:
        OSError: it cannot be written; names `path`.
    """
    try:
        with open(path, 'a', encoding='utf-8') as stream:
            stream.write(f'\n{json.dumps(line)}')
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def read_journal(path: str) -> List[dict]:
    """Returns the lines of a journal; those that were cut short are left out."""
    found = []
    if os.path.lexists(path):
        with files.open_regular(path) as stream:
            for line in stream:
                with contextlib.suppress(ValueError):
                    found.append(untrusted.loads(line))
    return [line for line in found if isinstance(line, dict)]
