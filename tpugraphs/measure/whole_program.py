"""Selects the tuned kernels that make the whole program faster, and measures it.

A kernel that is faster alone may not be faster in its program, where its inputs are in
the cache, or XLA fused it with its neighbours.  So the program is assembled with all
of them and without one part after the other, and timed beside the original; parts that
do not help are taken out.  New passes judge the rest, as in `tuning`.
"""

import collections
import dataclasses
import math
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from baselines.hlo import protos
from tpugraphs.measure import assembly
from tpugraphs.measure import building
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import timing
from tpugraphs.measure import tuning
from tpugraphs.measure import worker

# Parts of the faster kernels that are left out in turn, and rounds of leaving out.
_PARTS = 6
_ROUNDS = 3
# Least and most passes of choosing and of judging, and their seconds, about.
_CHOOSING = (5, 15, 20.0)
_JUDGING = (9, 40, 60.0)
# Programs that are compiled at most: the original twice, in each of two processes,
# beside the whole, the parts, and the program without any winner.
COMPILED = _PARTS + 8


@dataclasses.dataclass(frozen=True, eq=False)
class Proof:
    """The verdict on a whole program."""

    verdict: tuning.Verdict
    kernels: List[str]  # names of those that are replaced in the program
    module: bytes  # its HloModuleProto: the original, if no gain is claimed
    # reason -> programs that could not be used
    dropped: Dict[str, int] = dataclasses.field(default_factory=dict)
    # speed-up of the optimised module with its own kernels, which XLA may compile in
    # another way than the original; None if it was not measured
    unchanged: Optional[timing.Ratio] = None


@dataclasses.dataclass(frozen=True, eq=False)
class WholeProgram:
    """A program to time.

    Attributes:
        name: of the program.
        original: its HloModuleProto.
        session: the worker process that compiles and times.
        seed: of inputs and order.
        arrays: the program's arguments; None for random ones.
    """

    name: str
    original: Any
    session: session_lib.Session
    seed: int
    arrays: Optional[List[np.ndarray]] = None

    def measure(
        self,
        others: Sequence[bytes] = (),
        seed: int = 0,
        passes: int = 1,
        seconds: float = math.inf,
    ) -> timing.Measured:
        """Times the original and other programs in one process, interleaved.

        Args:
            others: serialised HloModuleProtos that compute the same.
            seed: added to the seed of inputs and order.
            passes: number of passes.
            seconds: of wall time after which no other program is compiled.

        Raises:
            session_lib.WorkerError: the original cannot be measured.
        """
        return self.session.measure(
            self.name,
            [self.original.SerializeToString(), *others],
            self.seed + seed,
            timing.Protocol(passes, passes, compiling=seconds),
            arrays=self.arrays,
            balanced=True,
            tolerance=tolerance_of(self.original),
        )


def tolerance_of(module: Any) -> float:
    """Returns the tolerance of results for the narrowest floats of a program."""
    types = {i.shape.element_type for c in module.computations for i in c.instructions}
    names = [building.NUMPY_TYPES.get(number, '') for number in types]
    narrow = ('float16', 'bfloat16')
    return max((worker.TOLERANCE[name] for name in names if name in narrow), default=0)


def prove(
    program: WholeProgram,
    optimised: Any,
    faster: Sequence[tuning.Row],
    once_ns: float,
    ends: float = math.inf,
) -> Proof:
    """Puts kernels into a program, takes out idle ones, and times the result.

    Args:
        program: the program.
        optimised: the HloModuleProto that the kernels were cut from.
        faster: the kernels that are faster alone.
        once_ns: nanoseconds of one run, about.
        ends: the `time.monotonic()` soon after which this function ends.

    Raises:
        session_lib.WorkerError: the original cannot be measured.
        kernels.Unsupported: the program cannot be assembled from its kernels.
    """
    faster = sorted(faster, key=lambda row: -row.saving_ns)
    dropped: Dict[Tuple[int, ...], str] = {}

    def assembled(numbers: Sequence[int]) -> bytes:
        """Returns the program with faster kernels, by their numbers, serialised."""
        modules = [
            (
                faster[i].kernel,
                protos.protos().HloModuleProto.FromString(faster[i].best),
            )
            for i in numbers
        ]
        return assembly.assemble(optimised, modules).SerializeToString()

    def timed(
        sets: Sequence[Sequence[int]],
        limits: Tuple[int, int, float],
        seed: int,
        compiling: float = math.inf,
    ) -> timing.Measured:
        """Times the original beside the program with sets of the faster kernels."""
        least, most, seconds = limits
        passes = np.clip(seconds * 1e9 / (once_ns * (len(sets) + 2)), least, most)
        modules = [assembled(numbers) for numbers in sets]
        measured = program.measure(modules, seed, int(passes), compiling)
        for number, why in measured.dropped.items():
            dropped[tuple(sets[number - 1])] = why
        return measured

    def gains(sets: Sequence[Sequence[int]]) -> List[float]:
        """Returns the log speed-ups of the program with sets of faster kernels."""
        left = max(0.0, ends - time.monotonic()) / 2
        measured = timed(sets, _CHOOSING, 0, left)
        logs = np.log(measured.passes)
        speedups = [-math.inf] * len(sets)
        for place, number in enumerate(measured.kept[1:], 1):
            speedups[number - 1] = float(np.median(logs[:, 0] - logs[:, place]))
        return speedups

    kept = kernels_to_keep(len(faster), gains, lambda: time.monotonic() < ends)
    sets = [kept, []] if kept else [[]]
    program.session.stop()
    measured = timed(sets, _JUDGING, 1)
    number, verdict = tuning.judge(measured)
    unchanged = None
    if len(sets) in measured.kept:
        times = measured.passes[:, measured.kept.index(len(sets))]
        unchanged = timing.compare(measured.passes[:, 0], times)
    chosen = sets[number - 1] if number else []
    return Proof(
        verdict,
        [faster[i].kernel.name for i in chosen],
        assembled(chosen) if number else program.original.SerializeToString(),
        dict(collections.Counter(why.partition(':')[0] for why in dropped.values())),
        unchanged,
    )


def kernels_to_keep(
    count: int,
    gains: Callable[[Sequence[Sequence[int]]], List[float]],
    goes_on: Callable[[], bool] = lambda: True,
) -> List[int]:
    """Returns the numbers of the faster kernels that stay in a program.

    In a round, the program is timed with all kernels that are left, and without one
    part of them after the other; parts without which it is as fast are taken out.

    Args:
        count: of faster kernels; number 0 saves most by itself.
        gains: lists of kernels -> the log speed-ups of the program with them; minus
            infinity for programs that cannot be used.
        goes_on: tells whether there is time for another round.
    """
    kept = list(range(count))
    for _ in range(_ROUNDS):
        if not kept or not goes_on():
            break
        parts = _parts(kept)
        rests = [[i for i in kept if i not in part] for part in parts]
        whole, *without = gains([kept, *rests])
        idle = [
            part
            for part, gain in zip(parts, without)
            if gain >= whole and math.isfinite(gain)
        ]
        if idle:
            kept = [i for i in kept if not any(i in part for part in idle)]
        elif math.isfinite(whole):
            break
        else:
            kept = kept[: len(kept) // 2]
    return kept


def _parts(numbers: List[int]) -> List[List[int]]:
    """Divides numbers into parts: the first alone, the last in larger parts."""
    alone = len(numbers) if len(numbers) <= _PARTS else _PARTS // 2
    parts = [[number] for number in numbers[:alone]]
    if numbers[alone:]:
        chunks = np.array_split(numbers[: alone - 1 : -1], _PARTS - alone)
        # Kernels that save more are in the smaller parts.
        parts += [sorted(chunk.tolist()) for chunk in reversed(chunks)]
    return parts
