"""How times are taken, and what they are worth.

Shuffled passes over all configurations; in each, a configuration is warmed up
once and timed three times, and the least counts.  The minimum over passes is
its runtime.  Halves of the passes that rank alike say that it is not noise.
"""

import dataclasses
import math
import time
from typing import Callable, List, Sequence

import numpy as np

RUNS = 3
LEAST_PASSES = 15
MOST_PASSES = 45
TAU_WANTED = 0.8

# A run of several executions lasts at least so long, nanoseconds.
_LEAST_RUN = 100_000
_MOST_REPEATS = 8

CLOCKS = {'cpu': time.process_time_ns, 'wall': time.perf_counter_ns}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How long to measure.

    Attributes:
        least: passes that are made even if time is up.
        most: passes at most.
        seconds: of wall time after which no pass beyond `least` begins.
        deadline: seconds after which no pass begins at all.
        clock: 'cpu' (process time) or 'wall'.
    """

    least: int = LEAST_PASSES
    most: int = MOST_PASSES
    seconds: float = 1e9
    deadline: float = 1e9
    clock: str = 'cpu'


def measure(
    programs: Sequence[Callable[[], None]],
    protocol: Protocol,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Times programs in shuffled passes.

    Passes go on from `least` to `most` until halves rank alike.

    Args:
        programs: each runs one configuration; the first is the default.
        protocol: how long.
        rng: of the order.
        stop: asked before every pass; True ends at once.

    Returns:
        int64 [passes, programs], nanoseconds of one execution.
    """
    clock = CLOCKS[protocol.clock]
    began = time.monotonic()
    repeats = repeats_for(programs[0], clock)
    rows: List[np.ndarray] = []

    def spent() -> float:
        return time.monotonic() - began

    while len(rows) < protocol.most and not stop() and spent() < protocol.deadline:
        if len(rows) >= protocol.least:
            late = spent() > protocol.seconds
            if late or tau_of_halves(np.array(rows)) >= TAU_WANTED:
                break
        row = np.zeros(len(programs), np.int64)
        for index in rng.permutation(len(programs)):
            row[index] = _least_time(programs[index], clock, repeats)
        rows.append(row)
    return np.array(rows, np.int64).reshape(len(rows), len(programs))


def repeats_for(program: Callable[[], None], clock: Callable[[], int]) -> int:
    """Returns how many executions make up a run that the clock resolves."""
    least = _least_time(program, clock, 1)
    return min(_MOST_REPEATS, max(1, _LEAST_RUN // max(least, 1)))


def once(program: Callable[[], None]) -> int:
    """Returns the CPU time of one execution, nanoseconds."""
    before = time.process_time_ns()
    program()
    return max(1, time.process_time_ns() - before)


def _least_time(program, clock, repeats) -> int:
    program()
    least = None
    for _ in range(RUNS):
        before = clock()
        for _ in range(repeats):
            program()
        taken = clock() - before
        least = taken if least is None else min(least, taken)
    return max(1, least // repeats)


def tau_of_halves(passes: np.ndarray) -> float:
    """Returns Kendall's tau between the minima of every other pass.

    Args:
        passes: int64 [passes, configurations].

    Returns:
        1 for the same order; 0 for fewer than two passes or configurations.
    """
    if min(passes.shape) < 2:
        return 0.0
    return kendall_tau(passes[::2].min(0), passes[1::2].min(0))


def kendall_tau(a: np.ndarray, b: np.ndarray) -> float:
    """Returns Kendall's tau-b of two rows of numbers; 0 where one is constant."""
    upper = np.triu_indices(len(a), 1)
    first = np.sign(np.subtract.outer(a, a))[upper]
    second = np.sign(np.subtract.outer(b, b))[upper]
    scale = math.sqrt(float((first**2).sum()) * float((second**2).sum()))
    return float((first * second).sum()) / scale if scale else 0.0


def drift(times: np.ndarray) -> float:
    """Returns the largest by the least of the default's times over passes."""
    return float(times.max() / times.min()) if len(times) else 1.0


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A paired comparison: how many times one is faster than the other.

    Attributes:
        speedup: the median over passes.
        low: the lower end of its 95 % interval.
        high: the upper end.
    """

    speedup: float
    low: float
    high: float


def compare(slow: np.ndarray, fast: np.ndarray, seed: int = 0) -> Ratio:
    """Compares times of the same passes.

    The interval is a bootstrap over passes of the median log ratio; a pass
    that was disturbed then counts as one pass, whatever it took.

    Args:
        slow: int64 [passes], of the default.
        fast: int64 [passes], of the other.
        seed: of the bootstrap.
    """
    logs = np.log(np.asarray(slow, float)) - np.log(np.asarray(fast, float))
    rng = np.random.default_rng(seed)
    drawn = np.median(rng.choice(logs, (2000, len(logs))), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    middle = float(np.median(logs))
    return Ratio(math.exp(middle), math.exp(low), math.exp(high))
