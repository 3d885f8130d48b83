"""The fastest of a kernel's configurations, and whether it is a gain at all.

The best of many noisy times is mostly luck.  So the best few are measured again;
half of the new passes choose among them, and the other half says how much faster
the chosen one is, beside what the default measured against itself shows.
"""

import collections
import dataclasses
import math
import os
import time
from typing import Any, Callable, Collection, Dict, List, Optional, Sequence

import numpy as np

from baselines import files
from tpugraphs.measure import memory as memory_lib
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import timing

# Two compilations of one program differ by as much, whatever their intervals.
LEAST_GAIN = 1.03
_FINALISTS = 3
_SEARCH_PASSES = 15
_FINAL_PASSES = 40
# What a search is told of those that are too slow to be timed.
_SLOW = math.log(10)


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What tuning a kernel came to."""

    name: str  # of the kernel
    # whether a configuration is faster than the default for sure; if not, the following
    # are the default's own
    claimed: bool
    speedup: float  # over the default, median of paired ratios
    low: float  # lower end of its 95 % interval
    high: float  # upper end
    default_ns: int  # the default's time, nanoseconds
    best_ns: int  # the chosen configuration's
    measured: int  # configurations measured besides the default
    candidates: int  # configurations that there were to choose from
    config: Dict[str, Any]  # the configuration
    null: List[float]  # the default against itself: speedup, low, high
    tried: List[float]  # the best candidate, claimed or not: speedup, low, high
    default_hlo: str = ''  # path of the default's HloModuleProto
    best_hlo: str = ''  # path of the configuration's
    # reason -> candidates that could not be used
    dropped: Dict[str, int] = dataclasses.field(default_factory=dict)
    recorded: int = 0  # of those measured, how many were on record

    def line(self) -> str:
        """Returns the result in words."""
        found = f'{self.measured} of {self.candidates:,} configurations measured'
        if self.recorded:
            found += f', {self.recorded} of them before'
        if not self.claimed:
            best = f'{self.tried[0]:.2f} x ({self.tried[1]:.2f} to {self.tried[2]:.2f})'
            return f'default kept; the best of {found} is {best}'
        return (
            f'{self.speedup:.2g} x faster ({self.low:.2g} to {self.high:.2g}), found '
            f'with {found}'
        )


def tune(
    item: Any,
    batch: tiles.Batch,
    propose: Callable[[Dict[int, float], Collection[int], int], Sequence[int]],
    session: session_lib.Session,
    measure: int,
    seed: int,
    rounds: int = 1,
    distinct: bool = True,
    memory: Optional[memory_lib.Memory] = None,
) -> Tuned:
    """Measures the most promising configurations of a kernel.

    Args:
        item: the kernel or program.
        batch: its configurations, the default first.
        propose: log times over the default's so far, what is of no use, how many
            -> configurations to measure, the most promising first.
        session: measures.
        measure: how many distinct ones to measure.
        seed: of inputs and order.
        rounds: in how many rounds; before each, `propose` is asked.
        distinct: whether to leave out what compiles to the same program.
        memory: what is on record is not measured again, and counts; what is measured
            goes on record.

    Raises:
        session_lib.WorkerError: the default cannot be measured.
    """
    memory = memory or memory_lib.Memory()

    def timed(
        numbers: Sequence[int], seed: int, passes: int, search_s: float = 0, **more: Any
    ):
        found = session.measure(
            item.name,
            [batch.module(i) for i in (0, *numbers)],
            item.inputs,
            seed,
            timing.Protocol(passes, passes),
            **more,
        )
        described = [batch.described[i] for i in (0, *numbers)]
        memory.add(item, described, found, search_s)
        return found

    ratios, dropped = memory.ratios(item, batch.described)
    known: Dict[int, float] = {0: 0.0, **ratios}
    recorded = len(ratios)
    for goal in np.cumsum(rounds_of(measure, rounds)).tolist():
        wanted = max(0, goal - (len(known) - 1))
        # Some may be wrong, or compile to what another does.
        slow = {i: _SLOW for i, why in dropped.items() if why.startswith('over')}
        more = 4 * wanted + 8 if wanted else 0
        began = time.monotonic()
        order = list(propose({**known, **slow}, dropped, more))
        search_s = time.monotonic() - began
        if not order:
            continue
        found = timed(
            order, seed, _SEARCH_PASSES, search_s, distinct=distinct, most=wanted
        )
        times = np.log(found.times / found.times[0])
        known.update((order[i - 1], t) for i, t in zip(found.kept, times) if i)
        dropped.update((order[i - 1], why) for i, why in found.dropped.items())
    finalists = sorted(list(known)[1:], key=known.get)[:_FINALISTS]
    session.restart()
    found = timed(finalists, seed + 1, _FINAL_PASSES)
    reasons = collections.Counter(why.partition(':')[0] for why in dropped.values())
    measured = len(known) - 1
    tuned = judged(item.name, batch, found, [0, *finalists], measured, dict(reasons))
    return dataclasses.replace(tuned, recorded=recorded)


def rounds_of(measure: int, rounds: int) -> List[int]:
    """Returns how many to measure in each round, the most first: 10 -> 4, 3, 3."""
    return [len(range(turn, measure, rounds)) for turn in range(rounds)]


def judged(name, batch, found, numbers, measured, reasons) -> Tuned:
    """Chooses by every other pass, and judges by the rest."""
    chooses, judges = found.passes[::2], found.passes[1::2]
    default = judges[:, 0]
    null = timing.compare(default, found.again[1::2])
    place = 0
    if len(found.kept) > 1:
        place = 1 + int(np.median(chooses[:, 1:], axis=0).argmin())
    ratio = timing.compare(default, judges[:, place])
    claimed = bool(place) and gains(ratio, null)
    kept = place if claimed else 0
    shown = ratio if claimed else null
    number = numbers[found.kept[kept]]
    return Tuned(
        name=name,
        claimed=claimed,
        speedup=shown.speedup if claimed else 1.0,
        low=shown.low,
        high=shown.high,
        default_ns=int(np.median(default)),
        best_ns=int(np.median(judges[:, kept])),
        measured=measured,
        candidates=len(batch.described),
        config={'number': number, **batch.described[number]},
        null=list(null),
        tried=list(ratio),
        dropped=reasons,
    )


def gains(ratio: timing.Ratio, null: timing.Ratio) -> bool:
    """Whether a ratio is a gain that the clock can tell from none.

    Args:
        ratio: the default over the configuration.
        null: the default over itself.
    """
    most = max(null.high, 1 / null.low, LEAST_GAIN)
    return ratio.low > most


def write_modules(tuned: Tuned, batch: tiles.Batch, folder: str) -> Tuned:
    """Writes the default and the chosen configuration as HloModuleProtos."""
    paths = []
    for kind, number in (('default', 0), ('best', tuned.config['number'])):
        paths.append(files.expand(os.path.join(folder, f'{tuned.name}.{kind}.pb')))
        with files.write_atomically(paths[-1], 'wb') as stream:
            stream.write(batch.module(number))
    return dataclasses.replace(tuned, default_hlo=paths[0], best_hlo=paths[1])
