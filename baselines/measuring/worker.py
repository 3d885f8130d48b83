"""The process that compiles and times: jaxlib and NumPy, no TensorFlow.

`python -m baselines.measuring.worker` reads requests, one JSON object a line,
and answers in lines.  XLA ends its process on some modules; so a line is written
to the journal before each compilation, and the last one names the culprit.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, List

import numpy as np

from baselines.measuring import backend as backend_lib
from baselines.measuring import timing

# Relative to the largest value: rounding differs with the order of additions.
_TOLERANCE = {'float16': 1e-2, 'bfloat16': 5e-2, 'float64': 1e-9}
_FLOAT_TOLERANCE = 1e-4

# A configuration that takes so many times the default's time is not timed.
_TOO_SLOW = 10


class Worker:
    """Answers requests.

    Args:
        backend: compiles and runs.
        say: sends an answer.
    """

    def __init__(self, backend: backend_lib.Backend, say: Callable[[dict], None]):
        self._backend = backend
        self._say = say

    def optimise(self, module: str, output: str, **_: Any) -> None:
        """Compiles a module and writes what XLA made of it."""
        with open(module, 'rb') as stream:
            program = self._backend.compile(stream.read(), plain=True)
        with open(output, 'wb') as stream:
            stream.write(program.optimised())
        self._say({'done': True})

    def measure(
        self,
        modules: List[str],
        inputs: List[dict],
        seed: int,
        journal: str,
        kernel: str,
        skip: List[int],
        protocol: dict,
        distinct: bool = False,
        most: int = 1 << 30,
        **_: Any,
    ) -> None:
        """Compiles the configurations of a kernel, checks them and times them.

        The first module is the default.  `passes` in the answer has a column
        for each of `kept`, and as the last one the default, compiled again.

        Args:
            modules: files with serialised HloModuleProtos.
            inputs: of each parameter: type, dims, high (of integers).
            seed: of inputs and order.
            journal: file that is told what is being compiled.
            kernel: its name there.
            skip: modules to leave out.
            protocol: fields of `timing.Protocol`.
            distinct: leave out what compiles to the same program as another.
            most: configurations to time at most, besides the default.
        """
        rng = np.random.default_rng(seed)
        arrays = [_array(rng, **spec) for spec in inputs]
        runs: Dict[int, Callable[[], None]] = {}
        dropped: Dict[int, str] = {}
        texts: Dict[str, int] = {}
        expected = least = buffers = None
        for place, index in enumerate([*range(len(modules)), 0]):
            again = place == len(modules)
            if (index in skip or len(runs) > most) and not again:
                continue
            _note(journal, {'kernel': kernel, 'compile': index})
            try:
                with open(modules[index], 'rb') as stream:
                    program = self._backend.compile(stream.read())
            except backend_lib.CompileError as error:
                if not index:
                    raise
                dropped[index] = f'XLA: {error}'
                continue
            if distinct and not again:
                same = texts.setdefault(_body(program.text()), index)
                if same != index:
                    dropped[index] = f'the same program as {same}'
                    continue
            buffers = buffers or program.place(arrays)
            run = _runner(program, buffers)
            outputs = [backend_lib.to_numpy(b) for b in program.run(buffers)]
            taken = timing.once(run)
            if expected is None:
                expected, least = outputs, taken
            elif not _same(expected, outputs):
                dropped[index] = 'wrong result'
                continue
            elif taken > _TOO_SLOW * least:
                dropped[index] = f'over {_TOO_SLOW} times the time of the default'
                continue
            runs[place] = run
        _note(journal, {'kernel': kernel, 'compile': None})
        limits = timing.Protocol(**protocol)
        parent = os.getppid()
        passes = timing.measure(
            list(runs.values()), limits, rng, lambda: os.getppid() != parent
        )
        kept = [place for place in runs if place < len(modules)]
        self._say(
            {'done': True, 'kept': kept, 'passes': passes.tolist(), 'dropped': dropped}
        )


def _runner(program: backend_lib.Program, buffers: list) -> Callable[[], None]:
    def run() -> None:
        program.run(buffers)

    return run


def _body(text: str) -> str:
    """Returns a module's text without its name."""
    return text.partition('\n')[2]


def _array(rng, type: str, dims: List[int], high: int = 2) -> np.ndarray:
    """Returns values for which no operation is unusually fast or slow."""
    if type == 'bool':
        return rng.random(dims) < 0.5
    if type.startswith(('int', 'uint')):
        return rng.integers(0, min(high, 100) if '8' in type else high, dims).astype(
            type
        )
    values = rng.uniform(0.1, 1.1, dims).astype(np.float32)
    if type == 'bfloat16':
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(type)


def _same(expected: List[np.ndarray], found: List[np.ndarray]) -> bool:
    return len(expected) == len(found) and all(map(_same_array, expected, found))


def _same_array(expected: np.ndarray, found: np.ndarray) -> bool:
    name = expected.dtype.name
    if expected.shape != found.shape or name != found.dtype.name:
        return False
    if expected.dtype.kind in 'biu':
        return bool((expected == found).all())
    a, b = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    scale = np.abs(a[finite]).max()
    limit = _TOLERANCE.get(name, _FLOAT_TOLERANCE)
    return bool(np.abs(a[finite] - b[finite]).max() <= limit * scale)


def _note(path: str, line: dict) -> None:
    with open(path, 'a', encoding='utf-8') as stream:
        stream.write(json.dumps(line) + '\n')


def prepare(core: int, memory_gb: float) -> None:
    """Pins this process to a core and limits its memory."""
    import resource

    if core >= 0:
        os.sched_setaffinity(0, {core})
    size = int(memory_gb * (1 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def main() -> int:
    """Serves requests from stdin until it is closed."""
    answers = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # whatever XLA prints is no answer

    def say(answer: dict) -> None:
        answers.write(json.dumps(answer) + '\n')
        answers.flush()

    start = json.loads(sys.stdin.readline())
    try:
        prepare(start['core'], start['memory_gb'])
        worker = Worker(backend_lib.Backend(start['platform']), say)
    except (ValueError, OSError) as error:
        say({'error': str(error)})
        return 1
    say({'done': True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            getattr(worker, request.pop('do'))(**request)
        except (ValueError, MemoryError, OSError) as error:
            text = str(error) or type(error).__name__
            say({'error': ' '.join(text.split())})
    return 0


if __name__ == '__main__':
    sys.exit(main())
