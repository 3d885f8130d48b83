"""Times configurations, and compares and checks their times.

A pass times all configurations in random order.  In a pass, a configuration is warmed
up once and timed three times, and the least time counts; one that takes milliseconds
is timed once, as cold caches hardly matter to it.  Its runtime is the minimum over
passes.  Kendall's tau between halves of the passes shows how much of it is noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np

from baselines.evaluation import metrics

RUNS = 3
LEAST_PASSES = 6
MOST_PASSES = 30
# Kendall's tau between halves of the passes at which measuring ends: the first before
# `_EARLY_PASSES` passes, the second from then on.
TAU_EARLY = 0.9
TAU_WANTED = 0.8
_EARLY_PASSES = 15

# Nanoseconds from which a configuration is run only once in a pass.
_LONG = 2_000_000

# Nanoseconds that a timed run should last; short programs are executed several times.
_LEAST_RUN = 100_000
_MOST_REPEATS = 8

# Times the default's time from which a configuration is not timed.
LIMIT = 10
# Times the default's time from which a configuration is not run again: its one time
# counts in every pass.
ONCE = 5
# A default that takes longer, in nanoseconds, makes fewer passes: noise is a smaller
# part of its time.
_LARGE = 3_000_000
LARGE_PASSES = 4
# Runs of a configuration, each of twice the default's time: two to check it, and one
# warm-up and one timed run in each of the least passes.
_RUNS_EACH = 2 * (2 + 2 * LARGE_PASSES)
# The largest part of a kernel's seconds that one run of its default may take.
_LARGEST_PART = 0.01
# Reasons for not timing a configuration; XLA's error follows a colon.
REFUSED = 'XLA'
FAILED = 'running'
WRONG = 'wrong result'
TOO_SLOW = f'over {LIMIT} times the time of the default'
TOO_LARGE = 'one run takes over a hundredth of the seconds of a kernel'
NOT_COMPARABLE = 'not comparable'  # why follows
TOO_LONG = 'took more than'  # the number of seconds follows
DIED = 'XLA ended the process'

CLOCKS = {'cpu': time.process_time_ns, 'wall': time.perf_counter_ns}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """The passes to make, the limits of time, and the clock."""

    least: int = LEAST_PASSES  # passes made even after `seconds`
    most: int = MOST_PASSES  # passes at most
    seconds: float = 1e9  # wall time after which no pass beyond `least` begins
    compiling: float = 1e9  # wall time after which nothing more is compiled
    deadline: float = 1e9  # seconds after which nothing is compiled and no pass begins
    clock: str = 'cpu'  # 'cpu' (process time) or 'wall'
    # configurations that are compiled and timed even after `compiling` seconds, unless
    # that takes twice `seconds`
    least_configs: int = 2

    def most_configs(self, default_ns: int, compiling: float) -> int:
        """Returns how many configurations of a kernel its seconds are enough for.

        Args:
            default_ns: nanoseconds of one run of the default.
            compiling: seconds that the default took to compile.

        Returns:
            0 if one run of the default takes too large a part of the seconds.
        """
        if default_ns / 1e9 > self.seconds * _LARGEST_PART:
            return 0
        each = compiling + _RUNS_EACH * default_ns / 1e9
        return max(self.least_configs, int(self.seconds / each))

    def compiles_more(self, spent: float, timed: int) -> bool:
        """Returns whether another configuration of a kernel is compiled.

        Args:
            spent: seconds since the first one was begun.
            timed: number of configurations to time so far, with the default.
        """
        if spent > self.deadline and timed > 1:
            return False
        if spent <= self.compiling:
            return True
        return timed < self.least_configs and spent < 2 * self.seconds

    @property
    def fewest(self) -> int:
        """The passes that a slow kernel gets at least.

        An exact number of passes stays.
        """
        return min(self.least, LARGE_PASSES) if self.least < self.most else self.least

    def for_default(self, default_ns: int) -> Protocol:
        """Returns the protocol with fewer passes if a kernel's default is slow."""
        if default_ns < _LARGE:
            return self
        return dataclasses.replace(self, least=self.fewest)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """The times of a kernel's configurations."""

    kept: list[int]  # numbers of the timed configurations, the default (0) first
    passes: np.ndarray  # int64 [passes, kept], nanoseconds
    again: np.ndarray  # int64 [passes], nanoseconds of the default compiled again
    dropped: dict[int, str]  # number -> why the configuration was not timed
    # numbers of those that ran once, and whose one time is repeated in every pass
    once: list[int] = dataclasses.field(default_factory=list)


def measure(
    programs: Sequence[Callable[[], object]],
    protocol: Protocol,
    rng: np.random.Generator,
    began: float | None = None,
) -> np.ndarray:
    """Times programs in shuffled passes, until halves of the passes rank alike.

    Args:
        programs: functions that run one configuration; the first runs the default.
        began: the `time.monotonic()` that the protocol's seconds count from.

    Returns:
        int64 [passes, programs], nanoseconds of one execution.
    """
    clock = CLOCKS[protocol.clock]
    began = time.monotonic() if began is None else began
    # Several executions in a row are long enough for the clock's resolution.
    # The default stands for all: others are at most `LIMIT` times as long.
    once_ns = _least_time(programs[0], clock, 1)
    repeats = min(_MOST_REPEATS, max(1, _LEAST_RUN // once_ns))
    long = np.zeros(len(programs), bool)  # [programs], run once in a pass from now on
    rows: list[np.ndarray] = []
    while len(rows) < protocol.most:
        spent = time.monotonic() - began
        if spent >= protocol.deadline:
            break
        if len(rows) >= protocol.least:
            least_tau = TAU_EARLY if len(rows) < _EARLY_PASSES else TAU_WANTED
            agree = tau_of_halves(np.array(rows)) >= least_tau
            if agree or spent > protocol.seconds:
                break
        row = np.zeros(len(programs), np.int64)
        for index in rng.permutation(len(programs)):
            if long[index]:
                row[index] = _long_time(programs[index], clock)
            else:
                row[index] = _least_time(programs[index], clock, repeats)
        long |= row > _LONG
        rows.append(row)
    return np.array(rows, np.int64).reshape(len(rows), len(programs))


def time_once(program: Callable[[], object]) -> int:
    """Returns the CPU time of one execution, nanoseconds."""
    return max(1, _time(program, CLOCKS['cpu'], 1))


def _time(program: Callable[[], object], clock: Callable[[], int], repeats: int) -> int:
    """Returns the time of `repeats` executions in a row, nanoseconds."""
    before = clock()
    for _ in range(repeats):
        program()
    return clock() - before


def _long_time(program: Callable[[], object], clock: Callable[[], int]) -> int:
    """Returns the time of one run of a long program, nanoseconds.

    Clocks of virtual machines step back at times: such a run is repeated.
    """
    taken = 0
    for _ in range(RUNS):
        taken = _time(program, clock, 1)
        if 10 * taken > _LONG:
            break
    return max(1, taken)


def _least_time(
    program: Callable[[], object], clock: Callable[[], int], repeats: int
) -> int:
    """Returns the least time of one execution among `RUNS` warm runs, nanoseconds."""
    program()
    taken = sorted(_time(program, clock, repeats) for _ in range(RUNS))
    # Clocks of virtual machines step back at times: such runs are left out.
    middle = taken[RUNS // 2]
    return max(1, next((t for t in taken if 10 * t > middle), middle) // repeats)


def tau_of_halves(passes: np.ndarray) -> float:
    """Returns Kendall's tau between the minima of every other pass.

    Args:
        passes: int64 [passes, configurations].

    Returns:
        1 for the same order; 0 where it is undefined, as for a single pass.
    """
    if min(passes.shape) < 2:
        return 0.0
    tau = metrics.kendall_tau(passes[::2].min(0), passes[1::2].min(0))
    return 0.0 if math.isnan(tau) else tau


class Ratio(NamedTuple):
    """A paired comparison of the times of two programs."""

    speedup: float  # times the speed of the slow one, the median over passes
    low: float  # the lower end of its 95 % interval
    high: float  # the upper end


def compare(slow: np.ndarray, fast: np.ndarray) -> Ratio:
    """Compares the times of two programs in the same passes.

    The interval is a bootstrap over passes of the median log ratio: a disturbed pass
    counts as one pass, however long it took.

    Args:
        slow: int64 [passes], nanoseconds of the default.
        fast: int64 [passes], nanoseconds of the other program.
    """
    # [passes]: the median of logs is, with its sign changed, that of inverse ratios.
    logs = np.log(np.asarray(slow, float)) - np.log(np.asarray(fast, float))
    middle = float(np.median(logs))
    ends = metrics.bootstrap_interval(logs, np.median, 'percentile')
    low, high = (middle if end is None else end for end in ends)
    return Ratio(math.exp(middle), math.exp(low), math.exp(high))
