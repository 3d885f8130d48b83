"""Searches for a kernel's fastest configuration, and tests whether it is a gain.

The best of many noisy times is mostly luck.  So the best few are measured again: half
of the new passes choose among them, and the other half measure the speed-up of the
chosen one, next to that of the default over itself.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Sequence
import dataclasses
import math
import time

import numpy as np

from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing
from tpugraphs.kernels import cutting
from tpugraphs.kernels import rounding
from tpugraphs.kernels import tile_choices
from tpugraphs.records import machine_records
from tpugraphs.tuning import budget as budget_lib

# (log times over the default's so far, unusable configurations, a count) -> numbers of
# configurations to measure, the most promising first.
Propose = Callable[[dict[int, float], Collection[int], int], Sequence[int]]

# Two compilations of one program can differ by this ratio beyond their intervals.
LEAST_GAIN = 1.03
_ROUNDS = 3
_FINALISTS = 3
_SEARCH_PASSES = 15
_FINAL_PASSES = 40
# Passes below which times are not compared, when the time is spent.
_LEAST_PASSES = 5
# The log time that configurations too slow to be timed are given.
_SLOW = math.log(10)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The measured speed-up of a program over the default.

    If no gain is claimed, the figures are the default's own.
    """

    claimed: bool  # whether the program is significantly faster than the default
    speedup: float  # over the default, median of paired ratios
    low: float  # lower end of its 95 % interval
    high: float  # upper end
    default_ns: int  # the default's time, nanoseconds
    best_ns: int  # the chosen program's time, nanoseconds
    null: timing.Ratio  # the default compiled again over the default
    tried: timing.Ratio  # the best program over the default, claimed or not


@dataclasses.dataclass(frozen=True)
class Found(Verdict):
    """The outcome of tuning a kernel."""

    name: str  # of the kernel
    measured: int  # configurations measured, without the default
    recorded: int  # how many of these came from records
    candidates: int  # configurations to choose from
    config: tile_choices.Config  # the chosen configuration
    dropped: dict[str, int]  # reason -> candidates that could not be used


@dataclasses.dataclass(frozen=True, eq=False)
class _Timer:
    """Times configurations of a kernel, and records the times."""

    kernel: cutting.Kernel
    candidates: tile_choices.Candidates
    session: session_lib.Session
    records: machine_records.MachineRecords
    budget: budget_lib.Budget

    def times(
        self,
        numbers: Sequence[int],
        passes: int,
        seed: int,
        search_s: float = 0.0,
        **options: object,
    ) -> timing.Measured:
        """Times the default and configurations, by their numbers, together.

        Args:
            search_s: seconds that choosing them took, for the records.
            **options: of `Session.measure`.

        Raises:
            session_lib.WorkerError: the default cannot be measured.
            budget.Spent: there was no time for enough passes.
        """
        module, numbers = self.kernel.module, [0, *numbers]
        measured = self.session.measure(
            self.kernel.name,
            [self.candidates.module(i) for i in numbers],
            cutting.inputs_of(module),
            seed,
            self.budget.protocol(passes),
            tolerance=rounding.tolerance_of(module),
            **options,
        )
        configs = [self.candidates.configs[i] for i in numbers]
        name, opcodes = self.kernel.name, self.kernel.opcodes
        self.records.add(name, configs, measured, opcodes, search_s)
        return budget_lib.check_passes(measured, min(passes, _LEAST_PASSES))


def tune(
    kernel: cutting.Kernel,
    candidates: tile_choices.Candidates,
    propose: Propose,
    session: session_lib.Session,
    measure: int,
    seed: int,
    records: machine_records.MachineRecords,
    budget: budget_lib.Budget,
    distinct: bool = True,
) -> Found:
    """Measures the most promising configurations of a kernel, in rounds.

    Args:
        propose: returns the configurations to measure in the next round.
        measure: number of distinct configurations to measure.
        records: tuning records; recorded configurations count and are not measured
            again, and new measurements are added.
        budget: the wall time that is left for the search.
        distinct: whether to leave out configurations that compile to the same program.

    Raises:
        session_lib.WorkerError: the default cannot be measured.
        budget.Spent: there was no time for enough passes.
    """
    timer = _Timer(kernel, candidates, session, records, budget)
    # What is on record counts as measured in an earlier round.
    ratios, dropped = records.ratios(kernel.name, candidates.configs)
    log_times = {0: 0.0, **ratios}
    for goal in np.cumsum(rounds_of(measure)).tolist():
        missing = max(0, goal - (len(log_times) - 1))
        slow = {i: _SLOW for i, why in dropped.items() if why == timing.TOO_SLOW}
        # Spare ones replace those that are wrong or compile to an earlier program.
        count = 4 * missing + 8 if missing else 0
        began = time.monotonic()
        order = list(propose({**log_times, **slow}, dropped, count))
        if not order:
            continue
        search_s = time.monotonic() - began
        measured = timer.times(
            order, _SEARCH_PASSES, seed, search_s, distinct=distinct, most=missing
        )
        logs = np.log(measured.times / measured.times[0])
        log_times.update((order[i - 1], t) for i, t in zip(measured.kept, logs) if i)
        dropped.update((order[i - 1], why) for i, why in measured.dropped.items())
    finalists = sorted(list(log_times)[1:], key=lambda i: log_times[i])[:_FINALISTS]
    session.stop()
    place, verdict = judge(timer.times(finalists, _FINAL_PASSES, seed + 1))
    number = [0, *finalists][place]
    reasons = collections.Counter(why.partition(':')[0] for why in dropped.values())
    return Found(
        **vars(verdict),
        name=kernel.name,
        measured=len(log_times) - 1,
        recorded=len(ratios),
        candidates=len(candidates.configs),
        config={'number': number, **candidates.configs[number]},
        dropped=dict(reasons),
    )


def rounds_of(measure: int) -> list[int]:
    """Divides a number of configurations into rounds, larger ones first: 4, 3, 3."""
    return [len(range(turn, measure, _ROUNDS)) for turn in range(_ROUNDS)]


def judge(measured: timing.Measured) -> tuple[int, Verdict]:
    """Chooses a program by every other pass, and judges it by the rest.

    Returns:
        The number of the chosen program, 0 for the default if no gain is claimed; and
        the verdict.
    """
    # [passes / 2, kept] each: what is chosen by luck in one half is not lucky in the
    # other.
    chooses, judges = measured.passes[::2], measured.passes[1::2]
    default = judges[:, 0]
    # Two copies of one program differ by chance, alignment and noise alone.
    null = timing.compare(default, measured.again[1::2])
    place = 0
    if len(measured.kept) > 1:
        place = 1 + int(np.median(chooses[:, 1:], axis=0).argmin())
    tried = timing.compare(default, judges[:, place])
    claimed = bool(place) and is_gain(tried, null)
    kept = place if claimed else 0
    interval = tried if claimed else null
    return measured.kept[kept], Verdict(
        claimed=claimed,
        speedup=tried.speedup if claimed else 1.0,
        low=interval.low,
        high=interval.high,
        default_ns=int(np.median(default)),
        best_ns=int(np.median(judges[:, kept])),
        null=null,
        tried=tried,
    )


def is_gain(ratio: timing.Ratio, null: timing.Ratio) -> bool:
    """Returns whether a speed-up is larger than the differences of equal programs.

    Args:
        ratio: the speed-up of the program.
        null: the speed-up of the default compiled again.
    """
    return ratio.low > max(null.high, 1 / null.low, LEAST_GAIN)
