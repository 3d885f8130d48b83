"""The other side of a worker: starts it, asks it, survives it.

with Session(folder, journal) as session:
    optimised = session.optimise(module)
    measured = session.measure('kernel', modules, inputs, seed, protocol)
"""

import dataclasses
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from baselines.measuring import backend
from baselines.measuring import timing

# A kernel on which the process ended so often is given up.
_MOST_CRASHES = 5
_DIED = 'XLA ended the process'


class WorkerError(Exception):
    """A module that XLA cannot compile, or that ended the process."""


class _Died(Exception):
    """The worker is gone; the text says how."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """What came of a kernel's configurations.

    Attributes:
        kept: numbers of those that were timed, the default first.
        passes: int64 [passes, kept], nanoseconds.
        again: int64 [passes], the default under its second name.
        dropped: number -> why it was not timed.
    """

    kept: List[int]
    passes: np.ndarray
    again: np.ndarray
    dropped: Dict[int, str]

    @property
    def times(self) -> np.ndarray:
        """The least of each over all passes, int64 [kept]."""
        return self.passes.min(0)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a worker may use.

    Attributes:
        core: the core it is pinned to; -1 for any.
        memory_gb: of memory.
        seconds: that one compilation or run of all passes may take.
        platform: 'cpu' or 'gpu'.
    """

    core: int = -1
    memory_gb: float = 12
    seconds: float = 600
    platform: str = 'cpu'


class Session:
    """A worker process, started again when XLA has ended it.

    Args:
        journal: file that says what is being compiled.
        limits: what it may use.
    """

    def __init__(self, journal: str, limits: Limits = Limits()):
        self._journal = journal
        self._limits = limits
        self._process: Optional[subprocess.Popen] = None
        self._buffer = b''
        self._folder = ''

    def __enter__(self) -> 'Session':
        self._folder = tempfile.mkdtemp(prefix='tpugraphs_measure_')
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> Optional[int]:
        """The worker's process id, if it runs."""
        return self._process.pid if self._process else None

    def restart(self) -> None:
        """Ends the worker; the next request starts a new one."""
        self._stop()

    def optimise(self, module: bytes) -> bytes:
        """Returns a serialised module after XLA's passes.

        Raises:
            WorkerError: XLA cannot compile it, or ended the process.
        """
        [path] = self._write([module])
        output = os.path.join(self._folder, 'optimised')
        try:
            self._ask({'do': 'optimise', 'module': path, 'output': output})
        except _Died as how:
            raise WorkerError(str(how)) from how
        with open(output, 'rb') as stream:
            return stream.read()

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
        """Times the configurations of a kernel; the first is the default.

        A configuration on which the process ends is dropped, and the others
        are compiled again in a new one.

        Args:
            kernel: its name in the journal.
            modules: serialised HloModuleProtos.
            inputs: see `candidates.inputs_of`.
            seed: of inputs and order.
            protocol: how long.
            skip: configurations that ended a process before.
            **options: further arguments of `Worker.measure`.

        Raises:
            WorkerError: the default cannot be compiled, or the process ended
                too often.
            KeyboardInterrupt: Ctrl-C; nobody is blamed for it.
        """
        try:
            return self._measure(kernel, modules, inputs, seed, protocol, skip, options)
        except KeyboardInterrupt:
            note(self._journal, {'kernel': kernel, 'compile': None})
            raise

    def _measure(
        self, kernel, modules, inputs, seed, protocol, skip, options
    ) -> Measured:
        dropped = dict.fromkeys(skip, _DIED)
        paths = self._write(modules)
        for _ in range(_MOST_CRASHES):
            try:
                answer = self._ask(
                    {
                        'do': 'measure',
                        'kernel': kernel,
                        'modules': paths,
                        'inputs': inputs,
                        'seed': seed,
                        'journal': self._journal,
                        'skip': list(dropped),
                        'protocol': dataclasses.asdict(protocol),
                        **options,
                    }
                )
            except _Died as how:
                culprit = blamed(self._journal, kernel)
                if culprit is not None:
                    note(self._journal, {'kernel': kernel, 'crashed': culprit})
                if culprit == 0:
                    raise WorkerError(f'{how} on the untiled kernel') from how
                if culprit is not None:
                    dropped[culprit] = str(how)
                continue
            dropped.update({int(k): v for k, v in answer['dropped'].items()})
            passes = np.array(answer['passes'], np.int64)
            kept = answer['kept']
            return Measured(
                kept,
                passes[:, : len(kept)],
                passes[:, -1],
                dict(sorted(dropped.items())),
            )
        raise WorkerError(f'{_DIED} {_MOST_CRASHES} times')

    def _write(self, modules: Sequence[bytes]) -> List[str]:
        paths = []
        for index, module in enumerate(modules):
            paths.append(os.path.join(self._folder, f'{index:05}.hlo'))
            with open(paths[-1], 'wb') as stream:
                stream.write(module)
        return paths

    def _ask(self, request: dict) -> dict:
        if self._process is None or self._process.poll() is not None:
            self._start()
        try:
            return self._exchange(request)
        except BrokenPipeError as error:
            self._stop()
            raise _Died(_DIED) from error

    def _exchange(self, request: dict) -> dict:
        self._process.stdin.write(json.dumps(request).encode() + b'\n')
        self._process.stdin.flush()
        answer = json.loads(self._line())
        if 'error' in answer:
            raise WorkerError(answer['error'])
        return answer

    def _line(self) -> bytes:
        end = time.monotonic() + self._limits.seconds
        out = self._process.stdout.fileno()
        while b'\n' not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                self._stop()
                raise _Died(f'took more than {self._limits.seconds:g} s')
            part = os.read(out, 1 << 16)
            if not part:
                self._stop()
                raise _Died(_DIED)
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b'\n')
        return line

    def _start(self) -> None:
        root = str(pathlib.Path(__file__).parents[2])
        environment = backend.environment()
        known = environment.get('PYTHONPATH')
        environment['PYTHONPATH'] = os.pathsep.join(filter(None, [root, known]))
        with open(os.path.join(self._folder, 'log'), 'ab') as log:
            self._process = subprocess.Popen(
                [sys.executable, '-m', 'baselines.measuring.worker'],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._buffer = b''
        try:
            self._exchange(dataclasses.asdict(self._limits))
        except (_Died, BrokenPipeError) as error:
            raise ValueError(
                f'the worker does not start: {self._last_words()}'
            ) from error
        except WorkerError as error:
            raise ValueError(str(error)) from error

    def _last_words(self) -> str:
        with open(os.path.join(self._folder, 'log'), encoding='utf-8') as stream:
            lines = stream.read().strip().splitlines()
        return lines[-1] if lines else 'it said nothing'

    def _stop(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        for stream in (process.stdin, process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        process.kill()
        process.wait()


def note(path: str, line: dict) -> None:
    """Appends a line to a journal."""
    with open(path, 'a', encoding='utf-8') as stream:
        stream.write(json.dumps(line) + '\n')


def read_journal(path: str) -> List[dict]:
    """Returns the lines of a journal; a last one that is cut short is left out."""
    if not os.path.exists(path):
        return []
    found = []
    with open(path, encoding='utf-8') as stream:
        for line in stream:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def blamed(path: str, kernel: str) -> Optional[int]:
    """Returns the configuration in whose compilation the journal ends, if any."""
    last = None
    for line in read_journal(path):
        if line.get('kernel') == kernel and 'compile' in line:
            last = line['compile']
    return last


def crashed(path: str) -> Dict[str, List[int]]:
    """Returns the configurations of each kernel on which a process ended."""
    found: Dict[str, List[int]] = {}
    for line in read_journal(path):
        if 'crashed' in line:
            found.setdefault(line['kernel'], []).append(line['crashed'])
    return found
