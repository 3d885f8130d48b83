"""Divides the wall time of tuning between timing, the kernels and the whole program."""

import math
import time

from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing

# The share of the time that is left in which the program, and then all kernels, are
# timed as XLA makes them; and the share that the kernels take in any case.
_TIMING_SHARE = 0.25
_KERNELS_SHARE = 0.5
# The share of the proof's time in which the kernels of the program are chosen.
_CHOOSING_SHARE = 0.5


class Spent(session_lib.WorkerError):
    """The budget ended before there were enough passes to compare times."""

    def __init__(self) -> None:
        super().__init__('no time left')


class Budget:
    """Seconds of wall time, counted from its creation.

    Args:
        seconds: infinite for as long as it takes.
    """

    def __init__(self, seconds: float = math.inf):
        self._seconds, self._began = seconds, time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the creation."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._seconds - self.spent)

    @property
    def ends(self) -> float:
        """The `time.monotonic()` at which nothing is left."""
        return self._began + self._seconds

    def for_timing(self) -> 'Budget':
        """Returns the part for timing the program, or its kernels, untuned."""
        return Budget(self.left * _TIMING_SHARE)

    def for_kernels(self, proof: float) -> 'Budget':
        """Returns the part for tuning kernels.

        Args:
            proof: seconds that timing the whole program will take, about.
        """
        return Budget(self.left - min(proof, self.left * (1 - _KERNELS_SHARE)))

    def for_choosing(self) -> 'Budget':
        """Returns the part for choosing the kernels that stay in the program."""
        return Budget(self.left * _CHOOSING_SHARE)

    def protocol(self, passes: int, compiling: float = math.inf) -> timing.Protocol:
        """Returns the protocol of so many passes that ends with the budget.

        Args:
            compiling: seconds after which nothing more is compiled.
        """
        return timing.Protocol(passes, passes, compiling=compiling, deadline=self.left)


def check_passes(measured: timing.Measured, least: int) -> timing.Measured:
    """Returns times that have at least so many passes; else raises Spent."""
    if len(measured.passes) < least:
        raise Spent()
    return measured
