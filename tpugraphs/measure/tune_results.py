"""Presents the outcome of tuning a program: a table, and figures for JSON."""

import dataclasses
from typing import Any, Dict, Iterator, List, Mapping, Optional

from baselines import text
from tpugraphs.measure import timing
from tpugraphs.measure import tuning
from tpugraphs.measure import whole_program


@dataclasses.dataclass
class Result:
    """A tuned program.

    Attributes:
        rows: kernels that can be tuned, those with the longest times first.
        proof: verdict on the whole program; None if it could not be measured.
        problem: why the program could not be measured; '' if it could.
        origin: the origin of the configurations, for people.
        skipped: reason -> kernels that cannot be tuned.
        program_ns: nanoseconds of one run of the original; 0 if it could not be
            measured.
    """

    rows: List[tuning.Row]
    proof: Optional[whole_program.Proof]
    problem: str
    origin: str
    skipped: Mapping[str, int]
    program_ns: int

    @property
    def changed(self) -> List[str]:
        """The names of the kernels that are replaced in the tuned program."""
        return self.proof.kernels if self.proof else []

    def share(self, row: tuning.Row) -> float:
        """Returns a kernel's share of the program's time, 0 to 1.

        Kernels are timed alone: if their sum is longer than the program's time, it is
        the share of the sum.
        """
        if not self.program_ns:
            return 0.0
        return row.total_ns / max(self.program_ns, sum(r.total_ns for r in self.rows))

    def lines(self) -> Iterator[str]:
        """Yields the table of kernels and the line of the program."""
        yield from text.table(
            [
                ['kernel', 'places', 'share', 'us', 'best us', 'x', '95 %', 'outcome'],
                *(self._cells(row) for row in self.rows),
            ],
            '<>',
            rules=[1],
        )
        if self.skipped:
            yield f'not tuned: {text.counted(self.skipped)}'
        yield f'configurations: {self.origin}'
        yield f'program: {self.verdict()}'

    def verdict(self) -> str:
        """Returns the verdict on the whole program, for people."""
        if self.proof is None:
            return f'not measured: {self.problem}'
        verdict, unchanged = self.proof.verdict, self.proof.unchanged
        if not verdict.claimed:
            return (
                f'original kept; the best other one is {_ratio_text(verdict.tried)} as '
                f'fast, the original itself {_ratio_text(verdict.null)}'
            )
        gain = _ratio_text(verdict.tried, 'x faster')
        count = text.count(len(self.rows), 'kernel')
        line = f'{gain}; {len(self.changed)} of {count} changed'
        if unchanged and unchanged.low >= tuning.LEAST_GAIN:
            line += (
                f'; {unchanged.speedup:.2f} x by compiling the optimised program again'
            )
        return line

    def _cells(self, row: tuning.Row) -> List[str]:
        """Returns the cells of a kernel in the table."""
        tuned, name = row.tuned, row.kernel.name
        cells = [name, str(row.places)]
        cells += [f'{self.share(row):.1%}' if self.program_ns else '']
        cells += [f'{row.default_ns / 1e3:,.1f}' if row.default_ns else '']
        if tuned is None:
            return [*cells, '', '', '', row.problem or 'no time left']
        outcome = 'default kept'
        if tuned.claimed:
            outcome = 'taken out again' if self.proof else 'faster alone'
        if name in self.changed:
            outcome = 'changed'
        return [
            *cells,
            f'{tuned.best_ns / 1e3:,.1f}',
            f'{tuned.speedup:.2f}',
            f'{tuned.low:.2f} to {tuned.high:.2f}',
            outcome,
        ]

    def to_json(self) -> Dict[str, Any]:
        """Returns the figures for program.json."""
        tuned = [
            {
                **dataclasses.asdict(row.tuned),
                'places': row.places,
                'share': self.share(row),
                'in_program': row.kernel.name in self.changed,
            }
            for row in self.rows
            if row.tuned is not None
        ]
        program: Dict[str, Any] = {'problem': self.problem}
        if self.proof is not None:
            program = {
                **dataclasses.asdict(self.proof.verdict),
                'kernels': self.changed,
                'dropped': self.proof.dropped,
                'unchanged': self.proof.unchanged,
            }
        return {
            'program': program,
            # the share of the program's time in kernels that can be tuned
            'coverage': sum(map(self.share, self.rows)),
            'kernels': tuned,
            'kernels_left': len(self.rows) - len(tuned),
            'origin': self.origin,
            'skipped': dict(self.skipped),
        }


def _ratio_text(ratio: timing.Ratio, unit: str = 'x') -> str:
    """Returns a ratio with its interval, for people."""
    return f'{ratio.speedup:.2f} {unit} ({ratio.low:.2f} to {ratio.high:.2f})'
