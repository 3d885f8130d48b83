"""The state of a kernel while its program is tuned: one of four classes.

A kernel is untimed; then timed as XLA makes it, or failed; then tuned, or failed.
"""

import dataclasses

from tpugraphs.kernels import cutting
from tpugraphs.tuning import kernel_search


@dataclasses.dataclass(frozen=True, eq=False)
class Untimed:
    """A kernel that has not been timed yet."""

    kernel: cutting.Kernel


@dataclasses.dataclass(frozen=True, eq=False)
class Failed:
    """A kernel that cannot be measured."""

    kernel: cutting.Kernel
    problem: str  # why, one line


@dataclasses.dataclass(frozen=True, eq=False)
class Timed:
    """A kernel that was timed untiled."""

    kernel: cutting.Kernel
    default_ns: int  # nanoseconds of one run


@dataclasses.dataclass(frozen=True, eq=False)
class Tuned:
    """A kernel with the outcome of its search."""

    kernel: cutting.Kernel
    found: kernel_search.Found
    best: bytes  # the HloModuleProto of the chosen configuration

    @property
    def default_ns(self) -> int:
        """Nanoseconds of one run of the untiled kernel."""
        return self.found.default_ns

    @property
    def saving_ns(self) -> float:
        """Nanoseconds that the chosen configuration saves in a run of the program."""
        if not self.found.claimed:
            return 0.0
        # The default's time less the chosen one's, at all places of the kernel.
        return total_ns(self) * (1 - 1 / self.found.speedup)


State = Untimed | Failed | Timed | Tuned


def places(state: State) -> int:
    """Returns the number of a kernel's places in its program; loops count once."""
    return max(1, len(state.kernel.places))


def total_ns(state: State) -> int:
    """Returns nanoseconds of the untiled kernel in a run of its program, 0 if unknown.

    A kernel that is `Untimed` or `Failed` has no time.
    """
    if isinstance(state, (Timed, Tuned)):
        return state.default_ns * places(state)
    return 0
