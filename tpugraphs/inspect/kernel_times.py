"""Holds the times of a program's kernels, which are shown and exported as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from baselines.core import text
from tpugraphs.programs import extras

if TYPE_CHECKING:
    import pandas

# In which the program, and each kernel, is compiled and timed, by default.
SECONDS = 60.0
_MOST_ROWS = 20  # of a table that is shown
_MOST_SHAPE = 40  # characters


class KernelTime(NamedTuple):
    """A kernel of a program, timed alone.

    Attributes:
        name: of its last instruction after XLA's passes.
        times: how often it is in the program; in a loop, once.
        shape: of its result, such as 'f32[8,16]'.
        time_ns: of one execution, nanoseconds.
        share: of the program's time that all its executions take, 0..1; of the sum
            over kernels, where the program was not timed.
        bytes: of its inputs and its result.
        flops: of its dots and convolutions, two for a multiply-add.
        of_bandwidth: bytes/s relative to a copy of a large array; above 1 for arrays
            that are in a cache.
        of_compute: FLOP/s relative to a product of matrices.
    """

    name: str
    times: int
    shape: str
    time_ns: int
    share: float
    bytes: int
    flops: int
    of_bandwidth: float
    of_compute: float


class Profile(list[KernelTime]):
    """Where the time of a program goes: its kernels, the longest times first.

    Attributes:
        program: its name.
        time_ns: of one execution of the whole program; None if it was not timed.
        problem: why it was not timed, or ''.
        machine: what this core reaches: `bytes_per_second` of a copy,
            `flops_per_second` of a product of matrices; and `call_ns`, the time of an
            empty call, which was subtracted from all times.
        skipped: reason -> number of kernels that were not timed.
    """

    def __init__(
        self,
        kernels: Sequence[KernelTime],
        program: str,
        time_ns: int | None,
        problem: str,
        machine: dict[str, float],
        skipped: dict[str, int],
    ):
        super().__init__(kernels)
        self.program, self.time_ns, self.problem = program, time_ns, problem
        self.machine, self.skipped = machine, skipped

    @property
    def unexplained(self) -> float | None:
        """The share of the program's time that no kernel explains, at most 1.

        It is below 0 where kernels take longer alone than in the program, where their
        inputs are in a cache; None if the program was not timed.
        """
        if self.time_ns is None:
            return None
        return 1 - sum(kernel.share for kernel in self)

    def __repr__(self) -> str:
        reached = self.machine
        took = f'not timed: {self.problem}'
        if self.time_ns is not None:
            took = text.duration(self.time_ns)
        lines = [
            f'{self.program}: {took}',
            f'a copy reaches {reached["bytes_per_second"] / 1e9:.1f} GB/s, a product '
            f'of matrices {reached["flops_per_second"] / 1e9:.1f} GFLOP/s on this core',
            '',
            *text.table(self._cells(_MOST_ROWS), '<><>', rules=[1]),
        ]
        if len(self) > _MOST_ROWS:
            lines.append(f'... and {len(self) - _MOST_ROWS:,} more')
        if self.unexplained is not None:
            lines.append(f'no kernel explains {self.unexplained:.1%} of the time')
        if self.skipped:
            lines.append(f'not timed: {text.counted(self.skipped)}')
        return '\n'.join(lines)

    def _repr_html_(self) -> str:
        return text.html_table(self._cells(), _MOST_ROWS)

    def _cells(self, most: int | None = None) -> list[list[str]]:
        """Returns the headings of the table, and its first rows."""
        head = ['kernel', 'times', 'shape', 'time', 'share', 'bytes/s', 'FLOP/s']
        return [
            head,
            *(
                [
                    kernel.name,
                    f'{kernel.times:,}',
                    text.shortened(kernel.shape, _MOST_SHAPE),
                    text.duration(kernel.time_ns),
                    f'{kernel.share:.1%}',
                    f'{kernel.of_bandwidth:.0%}',
                    f'{kernel.of_compute:.0%}' if kernel.flops else '-',
                ]
                for kernel in self[:most]
            ),
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas.DataFrame with a row for each kernel.

        Raises:
            ValueError: pandas is not installed.
        """
        return extras.import_pandas().DataFrame(list(self), columns=KernelTime._fields)

    def to_json(self) -> text.JsonObject:
        """Returns the object of `tpugraphs show --time --json`."""
        return {
            'program': self.program,
            'time_ns': self.time_ns,
            'problem': self.problem,
            'unexplained': self.unexplained,
            'machine': self.machine,
            'kernels': [kernel._asdict() for kernel in self],
            'skipped': self.skipped,
        }
