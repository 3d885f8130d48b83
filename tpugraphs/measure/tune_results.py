"""What tuning a program came to: rows, lines, JSON."""

import dataclasses
from typing import Any, Dict, Iterator, List, Mapping, Optional

from baselines import text
from tpugraphs.measure import tuning
from tpugraphs.measure import whole


@dataclasses.dataclass
class Row:
    """A kernel with tiles, or a program with layouts."""

    item: Any  # `tiles.TileItem` or `layouts.LayoutItem`
    default_ns: int = 0  # of one run as XLA makes it; 0 where it could not be measured
    tuned: Optional[tuning.Tuned] = None  # None: there was no time for it
    module: bytes = b''  # the HloModuleProto of the chosen configuration

    @property
    def places(self) -> int:
        """How often it runs in the program; loops count once."""
        return max(1, len(self.item.places))

    @property
    def total_ns(self) -> int:
        """Nanoseconds in a run of the program."""
        return self.default_ns * self.places

    @property
    def saving_ns(self) -> float:
        """Nanoseconds that its configuration saves in a run of the program."""
        if self.tuned is None or not self.tuned.claimed:
            return 0.0
        return self.total_ns * (1 - 1 / self.tuned.speedup)


@dataclasses.dataclass
class Result:
    """A tuned program.

    Attributes:
        rows: kernels that can be tuned, what takes longest first.
        proof: of the whole; None if it could not be measured.
        problem: why it could not.
        module: the HloModuleProto of the tuned program; the original, if no gain is
            claimed.
        origin: where the configurations came from.
        skipped: reason -> kernels that cannot be tuned.
        program_ns: one run of the original; 0 if it could not be measured.
    """

    rows: List[Row]
    proof: Optional[whole.Proof]
    problem: str
    module: Any
    origin: str
    skipped: Mapping[str, int]
    program_ns: int = 0

    @property
    def changed(self) -> List[str]:
        """Names of the kernels that are others in the tuned program."""
        if self.proof is None or not self.proof.tuned.claimed:
            return []
        return self.proof.tuned.config.get('kernels', [])

    @property
    def coverage(self) -> float:
        """The share of the program's time in kernels that can be tuned."""
        return sum(map(self.share, self.rows))

    def share(self, row: Row) -> float:
        """Returns a kernel's share of the program's time.

        Kernels are timed alone: where that takes longer than the program, of their sum.
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
            parts = ', '.join(f'{n} {why}' for why, n in sorted(self.skipped.items()))
            yield f'not tuned: {parts}'
        yield f'configurations: {self.origin}'
        yield self.line()

    def line(self) -> str:
        """Returns what came of the program, in words."""
        if self.proof is None:
            return f'program: not measured: {self.problem}'
        tuned = self.proof.tuned
        if tuned.claimed:
            gain = f'{tuned.speedup:.2f} x faster ({tuned.low:.2f} to {tuned.high:.2f})'
            of = text.count(len(self.rows), 'kernel')
            return f'program: {gain}; {len(self.changed)} of {of} changed{self._own()}'
        tried, low, high = tuned.tried
        null, least, most = tuned.null
        return (
            f'program: original kept; the best other one is {tried:.2f} x as fast '
            f'({low:.2f} to {high:.2f}), the original itself {null:.2f} '
            f'({least:.2f} to {most:.2f})'
        )

    def _own(self) -> str:
        """Returns what the program gains without other kernels, where it does."""
        unchanged = self.proof and self.proof.unchanged
        if not unchanged or unchanged[1] < tuning.LEAST_GAIN:
            return ''
        return f'; {unchanged[0]:.2f} x comes of compiling the optimised program again'

    def _cells(self, row: Row) -> List[str]:
        share = f'{self.share(row):.1%}' if self.program_ns else ''
        name, places = row.item.name, str(row.places)
        if row.tuned is None:
            time = f'{row.default_ns / 1e3:,.1f}' if row.default_ns else ''
            outcome = 'no time left' if row.default_ns else 'cannot be measured'
            return [name, places, share, time, '', '', '', outcome]
        tuned = row.tuned
        outcome = 'default kept'
        if tuned.claimed:
            outcome = 'changed' if name in self.changed else 'taken out again'
        return [
            name,
            places,
            share,
            f'{tuned.default_ns / 1e3:,.1f}',
            f'{tuned.best_ns / 1e3:,.1f}',
            f'{tuned.speedup:.2f}',
            f'{tuned.low:.2f} to {tuned.high:.2f}',
            outcome,
        ]

    def to_json(self) -> Dict[str, Any]:
        """Returns the figures."""
        tuned = [
            {
                **dataclasses.asdict(row.tuned),
                'places': row.places,
                'share': self.share(row),
                'in_program': row.item.name in self.changed,
            }
            for row in self.rows
            if row.tuned is not None
        ]
        program: Dict[str, Any] = {'problem': self.problem}
        if self.proof is not None:
            program = dataclasses.asdict(self.proof.tuned)
            program['unchanged'] = self.proof.unchanged
        return {
            'program': program,
            'coverage': self.coverage,
            'kernels': tuned,
            'kernels_left': len(self.rows) - len(tuned),
            'origin': self.origin,
            'skipped': dict(self.skipped),
        }
