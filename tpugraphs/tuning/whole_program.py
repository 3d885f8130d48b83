"""Selects the tuned kernels that make the whole program faster, and measures it.

A kernel that is faster alone may not be faster in its program, where its inputs are in
the cache, or XLA fused it with its neighbours.  So the program is assembled with all
of them and without one part after the other, and timed next to the original; parts that
do not help are taken out.  New passes judge the rest, as in `kernel_search`, and its
results are compared with the original's on new inputs.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from baselines.hlo import protos
from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing
from tpugraphs.kernels import assembly
from tpugraphs.kernels import cutting
from tpugraphs.kernels import rounding
from tpugraphs.tuning import budget as budget_lib
from tpugraphs.tuning import kernel_search
from tpugraphs.tuning import states

# Parts of the faster kernels that are left out in turn, and rounds of leaving out.
_PARTS = 6
_ROUNDS = 3


class _Limits(NamedTuple):
    """Limits of the passes over a few programs."""

    least: int  # passes
    most: int  # passes
    seconds: float  # of all passes, about


_CHOOSING = _Limits(5, 15, 20.0)
_JUDGING = _Limits(9, 40, 60.0)
# Added to the seed for the inputs on which the chosen program is compared; measuring
# takes the first ones.
_SEEDS = (2, 3, 4)
# The time of a proof in compilations of the original.  At most, it is compiled twice in
# each of two processes, and so are the whole, the parts, and the program without any
# winner; two are compared in the end.  What is assembled of optimised kernels takes
# about twice as long to compile.
COMPILATIONS = 2 * _PARTS + 13


@dataclasses.dataclass(frozen=True, eq=False)
class Proof:
    """The verdict on a whole program."""

    verdict: kernel_search.Verdict
    kernels: list[str]  # names of those that are replaced in the program
    module: bytes  # its HloModuleProto: the original, if no gain is claimed
    # reason -> programs that could not be used
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    # speed-up of the optimised module with its own kernels, which XLA may compile in
    # another way than the original; None if it was not measured
    unchanged: timing.Ratio | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class WholeProgram:
    """A program to time."""

    name: str  # of the program
    original: protos.HloModuleProto
    session: session_lib.Session  # the worker process that compiles and times
    seed: int  # of inputs and order
    # the program's arguments; None for random ones
    arrays: list[np.ndarray] | None = None

    def measure(
        self, protocol: timing.Protocol, others: Sequence[bytes] = (), seed: int = 0
    ) -> timing.Measured:
        """Times the original and other programs in one process, interleaved.

        Args:
            others: serialised HloModuleProtos that compute the same.
            seed: added to the seed of inputs and order.

        Raises:
            session_lib.WorkerError: the original cannot be measured.
        """
        return self.session.measure(
            self.name,
            [self.original.SerializeToString(), *others],
            self._inputs,
            self.seed + seed,
            protocol,
            tolerance=rounding.tolerance_of(self.original),
        )

    def differences(self, other: bytes, seconds: float) -> str:
        """Returns why another program's results are not those of the original, or ''.

        They are compared on several new draws of inputs.

        Args:
            other: a serialised HloModuleProto.
            seconds: after which, plus a grace period, it is given up.
        """
        try:
            return self.session.compare(
                [self.original.SerializeToString(), other],
                self._inputs,
                [self.seed + number for number in _SEEDS],
                rounding.tolerance_of(self.original),
                seconds,
            )
        except session_lib.WorkerError as error:
            return str(error)

    @property
    def _inputs(self) -> session_lib.Inputs:
        """The arguments, or how to draw them."""
        if self.arrays is not None:
            return self.arrays
        return cutting.inputs_of(self.original, balanced=True)


class _Trial:
    """Times a program with sets of its faster kernels, next to the original.

    A set is a list of numbers of `faster`.

    Args:
        optimised: the HloModuleProto that the kernels were cut from.
        once_ns: nanoseconds of one run of the original, about.

    Attributes:
        dropped: sets that could not be used -> why.
        round_s: seconds that the last call of `gains` took.
    """

    def __init__(
        self,
        program: WholeProgram,
        optimised: protos.HloModuleProto,
        faster: Sequence[states.Tuned],
        once_ns: float,
    ):
        self._program, self._optimised, self._faster = program, optimised, faster
        self._once_ns = once_ns
        self.dropped: dict[tuple[int, ...], str] = {}
        self.round_s = 0.0

    def assembled(self, numbers: Sequence[int]) -> bytes:
        """Returns the program with a set of the faster kernels, serialised."""
        chosen = [self._faster[number] for number in numbers]
        parse = protos.HloModuleProto.FromString
        modules = [(state.kernel, parse(state.best)) for state in chosen]
        return assembly.assemble(self._optimised, modules).SerializeToString()

    def times(
        self,
        sets: Sequence[Sequence[int]],
        limits: _Limits,
        seed: int,
        budget: budget_lib.Budget,
        compiling: float = math.inf,
    ) -> timing.Measured:
        """Times the original, and the program with each of the sets.

        Args:
            compiling: seconds after which no further set is compiled.

        Raises:
            session_lib.WorkerError: the original cannot be measured, or time is up.
        """
        programs = len(sets) + 2  # the original is compiled twice
        # As many as the seconds allow, if all programs take as long as the original.
        passes = limits.seconds * 1e9 / (self._once_ns * programs)
        passes = int(np.clip(passes, limits.least, limits.most))
        modules = [self.assembled(numbers) for numbers in sets]
        protocol = budget.protocol(passes, compiling)
        measured = self._program.measure(protocol, modules, seed)
        for number, why in measured.dropped.items():
            self.dropped[tuple(sets[number - 1])] = why
        return budget_lib.check_passes(measured, limits.least)

    def gains(
        self, budget: budget_lib.Budget, sets: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log speed-ups of the program with sets of faster kernels.

        That of a set which cannot be used is minus infinity.
        """
        before = budget.spent
        measured = self.times(sets, _CHOOSING, 0, budget, budget.left / 2)
        self.round_s = budget.spent - before
        logs = np.log(measured.passes)  # [passes, kept], the original first
        gains = np.median(logs[:, :1] - logs, axis=0)  # [kept]
        speedups = dict(zip(measured.kept, gains.tolist()))
        return [speedups.get(number, -math.inf) for number in range(1, len(sets) + 1)]


def prove(
    program: WholeProgram,
    optimised: protos.HloModuleProto,
    faster: Sequence[states.Tuned],
    once_ns: float,
    budget: budget_lib.Budget,
) -> Proof:
    """Puts kernels into a program, takes out idle ones, and times the result.

    Args:
        optimised: the HloModuleProto that the kernels were cut from.
        once_ns: nanoseconds of one run, about.

    Raises:
        session_lib.WorkerError: the original cannot be measured, or time is up.
        cutting.Unsupported: the program cannot be assembled from its kernels.
    """
    faster = sorted(faster, key=lambda state: -state.saving_ns)
    trial = _Trial(program, optimised, faster, once_ns)
    choosing = budget.for_choosing()
    gains = functools.partial(trial.gains, choosing)
    kept = kernels_to_keep(len(faster), gains, lambda: choosing.left > trial.round_s)
    if kept:  # checked before the last measurement, which takes the time that is left
        problem = program.differences(trial.assembled(kept), budget.left)
        if problem:
            trial.dropped[tuple(kept)] = problem
            kept = []
    sets = [kept, []] if kept else [[]]
    program.session.stop()
    measured = trial.times(sets, _JUDGING, 1, budget)
    number, verdict = kernel_search.judge(measured)
    unchanged = None
    if len(sets) in measured.kept:
        times = measured.passes[:, measured.kept.index(len(sets))]
        unchanged = timing.compare(measured.passes[:, 0], times)
    chosen: Sequence[int] = []
    # Number 0 of `judge` is the original: no gain is claimed.
    module = program.original.SerializeToString()
    if number:
        chosen = sets[number - 1]
        module = trial.assembled(chosen)
    reasons = (why.partition(':')[0] for why in trial.dropped.values())
    return Proof(
        verdict,
        [faster[i].kernel.name for i in chosen],
        module,
        dict(collections.Counter(reasons)),
        unchanged,
    )


def kernels_to_keep(
    count: int,
    gains: Callable[[Sequence[Sequence[int]]], list[float]],
    goes_on: Callable[[], bool] = lambda: True,
) -> list[int]:
    """Returns the numbers of the faster kernels that remain in a program.

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
        try:
            whole, *without = gains([kept, *rests])
        except session_lib.WorkerError:
            break  # such as for lack of time; what is left is judged as it is
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


def _parts(numbers: list[int]) -> list[list[int]]:
    """Divides numbers into parts: the first alone, the last in larger parts."""
    alone = len(numbers) if len(numbers) <= _PARTS else _PARTS // 2
    parts = [[number] for number in numbers[:alone]]
    if numbers[alone:]:
        chunks = np.array_split(numbers[: alone - 1 : -1], _PARTS - alone)
        # Kernels that save more are in the smaller parts.
        parts += [sorted(chunk.tolist()) for chunk in reversed(chunks)]
    return parts
