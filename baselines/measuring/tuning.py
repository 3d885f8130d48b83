"""The fastest of a kernel's configurations, and whether it is a gain at all.

The best of many noisy times is mostly luck.  So the best few are measured again;
half of the new passes choose among them, and the other half says how much faster
the chosen one is, beside what the default measured against itself shows.
"""

import dataclasses
import math
import os
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

from baselines import files
from baselines.measuring import session as session_lib
from baselines.measuring import tiles
from baselines.measuring import timing

# Two compilations of one program differ by as much, whatever their intervals.
LEAST_GAIN = 1.03
_FINALISTS = 3
_SEARCH_PASSES = 15
_FINAL_PASSES = 40


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What tuning a kernel came to.

    Attributes:
        name: of the kernel.
        claimed: whether a configuration is faster than the default for sure;
            if not, the following are the default's own.
        speedup: over the default, median of paired ratios.
        low: lower end of its 95 % interval.
        high: upper end.
        default_ns: the default's time, nanoseconds.
        best_ns: the chosen configuration's.
        measured: configurations measured besides the default.
        candidates: configurations that there were to choose from.
        config: the configuration.
        null: the default against itself: speedup, low, high.
        tried: the best candidate, claimed or not: speedup, low, high.
        default_hlo: path of the default's HloModuleProto.
        best_hlo: path of the configuration's.
        dropped: reason -> candidates that could not be used.
    """

    name: str
    claimed: bool
    speedup: float
    low: float
    high: float
    default_ns: int
    best_ns: int
    measured: int
    candidates: int
    config: Dict[str, Any]
    null: List[float]
    tried: List[float]
    default_hlo: str = ''
    best_hlo: str = ''
    dropped: Dict[str, int] = dataclasses.field(default_factory=dict)

    def line(self) -> str:
        """Returns the result in words."""
        found = f'{self.measured} of {self.candidates:,} configurations measured'
        if not self.claimed:
            best = f'{self.tried[0]:.2f} x ({self.tried[1]:.2f} to {self.tried[2]:.2f})'
            return f'default kept; the best of {found} is {best}'
        return (
            f'{self.speedup:.2g} x faster ({self.low:.2g} to {self.high:.2g}), found '
            f'with {found}'
        )


Chooser = Callable[[Dict[int, float]], Sequence[int]]


def tune(
    item: Any,
    batch: tiles.Batch,
    choose: Chooser,
    session: session_lib.Session,
    measure: int,
    seed: int,
    rounds: int = 1,
    clock: str = 'cpu',
    distinct: bool = True,
) -> Tuned:
    """Measures the most promising configurations of a kernel.

    Args:
        item: the kernel or program.
        batch: its configurations, the default first.
        choose: log times over the default's so far -> all configurations, the
            most promising first.
        session: measures.
        measure: how many distinct ones to measure.
        seed: of inputs and order.
        rounds: in how many rounds; after each, `choose` is asked again.
        clock: see `timing.Protocol`.
        distinct: whether to leave out what compiles to the same program.

    Raises:
        session_lib.WorkerError: the default cannot be measured.
    """
    known: Dict[int, float] = {}
    dropped: Dict[int, str] = {}
    for turn in range(rounds):
        goal = math.ceil(measure * (turn + 1) / rounds)
        seen = {0, *known, *dropped}
        order = [int(i) for i in choose(known) if int(i) not in seen]
        if not order or goal == len(known):
            continue
        # Some may be wrong, or compile to what another does.
        order = order[: 4 * (goal - len(known)) + 8]
        found = session.measure(
            item.name,
            [batch.modules[i] for i in (0, *order)],
            batch.inputs,
            seed,
            timing.Protocol(_SEARCH_PASSES, _SEARCH_PASSES, clock=clock),
            distinct=distinct,
            most=goal - len(known),
        )
        places = dict(enumerate(order, 1))
        dropped.update((places[i], why) for i, why in found.dropped.items())
        times = np.log(found.times / found.times[0]).tolist()
        known.update((places[i], times[k]) for k, i in enumerate(found.kept) if i)
    reasons: Dict[str, int] = {}
    for why in dropped.values():
        why = why.partition(':')[0].rstrip(' 0123456789')
        reasons[why] = reasons.get(why, 0) + 1
    finalists = sorted(known, key=known.get)[:_FINALISTS]
    session.restart()
    found = session.measure(
        item.name,
        [batch.modules[i] for i in (0, *finalists)],
        batch.inputs,
        seed + 1,
        timing.Protocol(_FINAL_PASSES, _FINAL_PASSES, clock=clock),
    )
    return _judged(item.name, batch, found, [0, *finalists], len(known), reasons)


def _judged(name, batch, found, numbers, measured, reasons) -> Tuned:
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
        candidates=len(batch.modules),
        config={'number': number, **batch.described[number]},
        null=[null.speedup, null.low, null.high],
        tried=[ratio.speedup, ratio.low, ratio.high],
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
            stream.write(batch.modules[number])
    return dataclasses.replace(tuned, default_hlo=paths[0], best_hlo=paths[1])
