"""Presents the outcome of tuning a program: a table, and figures for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses

from baselines.core import text
from tpugraphs.clock import timing
from tpugraphs.kernels import removal
from tpugraphs.tuning import kernel_search
from tpugraphs.tuning import states
from tpugraphs.tuning import whole_program


@dataclasses.dataclass
class TuningResult:
    """A tuned program.

    Attributes:
        kernels: those that can be tuned, the ones with the longest times first.
        proof: verdict on the whole program; None if it could not be measured.
        problem: why the program could not be measured; '' if it could.
        origin: the origin of the configurations, human-readable.
        skipped: reason -> kernels that cannot be tuned.
        program_ns: nanoseconds of one run of the original; 0 if it could not be
            measured.
        cut_out: operations that cannot run here -> how many.
    """

    kernels: list[states.State]
    proof: whole_program.Proof | None
    problem: str
    origin: str
    skipped: Mapping[str, int]
    program_ns: int
    cut_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def changed(self) -> list[str]:
        """The names of the kernels that are replaced in the tuned program."""
        return self.proof.kernels if self.proof else []

    def share(self, kernel: states.State) -> float:
        """Returns a kernel's share of the program's time, 0 to 1.

        Kernels are timed alone: if their sum is longer than the program's time, it is
        the share of the sum.
        """
        if not self.program_ns:
            return 0.0
        # Kernels that cannot be tuned have no time here, so the sum may also be less.
        total_ns = sum(map(states.total_ns, self.kernels))
        return states.total_ns(kernel) / max(self.program_ns, total_ns)

    def lines(self) -> Iterator[str]:
        """Yields the table of kernels and the line of the program."""
        yield from text.table(
            [
                ['kernel', 'places', 'share', 'us', 'best us', 'x', '95 %', 'outcome'],
                *map(self._cells, self.kernels),
            ],
            '<>',
            rules=[1],
        )
        if self.cut_out:
            yield f'cut out: {removal.described(self.cut_out)}'
        if self.skipped:
            yield f'not tuned: {text.counted(self.skipped)}'
        yield f'configurations: {self.origin}'
        yield f'program: {self.verdict()}'

    def verdict(self) -> str:
        """Returns the verdict on the whole program, human-readable."""
        if self.proof is None:
            return f'not measured: {self.problem}'
        verdict, unchanged = self.proof.verdict, self.proof.unchanged
        if not verdict.claimed:
            return (
                f'original kept; the best other one is {_ratio_text(verdict.tried)} as '
                f'fast, the original itself {_ratio_text(verdict.null)}'
            )
        gain = _ratio_text(verdict.tried, 'x faster')
        count = text.count(len(self.kernels), 'kernel')
        line = f'{gain}; {len(self.changed)} of {count} changed'
        if unchanged and unchanged.low >= kernel_search.LEAST_GAIN:
            line += (
                f'; {unchanged.speedup:.2f} x by compiling the optimised program again'
            )
        return line

    def _cells(self, state: states.State) -> list[str]:
        """Returns the cells of a kernel in the table."""
        name = state.kernel.name
        cells = [name, str(states.places(state))]
        cells += [f'{self.share(state):.1%}' if self.program_ns else '']
        if isinstance(state, states.Failed):
            return [*cells, '', '', '', '', state.problem]
        if isinstance(state, states.Untimed):
            return [*cells, '', '', '', '', 'no time left']
        cells += [f'{state.default_ns / 1e3:,.1f}']
        if isinstance(state, states.Timed):
            return [*cells, '', '', '', 'no time left']
        found, outcome = state.found, 'default kept'
        if found.claimed:
            outcome = 'taken out again' if self.proof else 'faster alone'
        if name in self.changed:
            outcome = 'changed'
        return [
            *cells,
            f'{found.best_ns / 1e3:,.1f}',
            f'{found.speedup:.2f}',
            f'{found.low:.2f} to {found.high:.2f}',
            outcome,
        ]

    def to_json(self) -> text.JsonObject:
        """Returns the figures for program.json."""
        tuned = [
            {
                **dataclasses.asdict(state.found),
                'places': states.places(state),
                'share': self.share(state),
                'in_program': state.kernel.name in self.changed,
            }
            for state in self.kernels
            if isinstance(state, states.Tuned)
        ]
        program: text.JsonObject = {'problem': self.problem}
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
            'coverage': sum(map(self.share, self.kernels)),
            'kernels': tuned,
            'kernels_left': len(self.kernels) - len(tuned),
            'origin': self.origin,
            'skipped': dict(self.skipped),
            'cut_out': dict(self.cut_out),
        }


def _ratio_text(ratio: timing.Ratio, unit: str = 'x') -> str:
    """Returns a ratio with its interval, human-readable."""
    return f'{ratio.speedup:.2f} {unit} ({ratio.low:.2f} to {ratio.high:.2f})'
