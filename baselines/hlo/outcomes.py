"""Counts the results of reading raw files, and sums them up for the user."""

import collections
from collections.abc import Iterator
import contextlib
import dataclasses

from baselines.core import text


class Skip(Exception):
    """Raised for a module that is skipped; the text says why."""


@dataclasses.dataclass
class Outcome:
    """The results of reading raw files; plain values, so that it travels as JSON.

    Attributes:
        files: number of files read.
        modules: number of modules in them.
        written: names of the npz files written.
        existing: names of the npz files that existed before and stay.
        skipped: reason -> modules passed over for it.
        failed: messages about files and modules that are wrong.
        fatal: why extraction cannot go on (the output cannot be written).
        runs_kept: number of configurations in the modules written.
        runs_dropped: reason -> number of runs.
        unknown_opcodes: opcode -> number of nodes with it.
        notes: further remarks for the user.
        by_file: raw file -> names of its npz files.
    """

    files: int = 0
    modules: int = 0
    written: list[str] = dataclasses.field(default_factory=list)
    existing: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    failed: list[str] = dataclasses.field(default_factory=list)
    fatal: str = ''
    runs_kept: int = 0
    runs_dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    unknown_opcodes: dict[str, int] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    by_file: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def explain_nothing(self) -> str:
        """Returns why nothing can be ranked: the first error, or the skips."""
        if self.failed:
            return self.failed[0]
        return f'nothing to rank: {text.list_skipped(self.skipped)}'

    @contextlib.contextmanager
    def note_failures(self, path: str, module: str) -> Iterator[None]:
        """Records a `Skip` or ValueError of the block, which is about a module."""
        shown = text.quoted(module)
        try:
            yield
        except Skip as reason:
            self.skipped.setdefault(str(reason), []).append(shown)
        except ValueError as error:
            self.failed.append(text.one_line(error, f'{path}: module {shown}'))

    def add(self, other: 'Outcome') -> None:
        """Adds the counts and names of another outcome to this one."""
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if field.name == 'fatal':
                self.fatal = mine or theirs
            elif isinstance(mine, dict):
                for key, value in theirs.items():
                    # Values are counts or lists: 0 or [] to begin with.
                    mine[key] = mine.get(key, type(value)()) + value
            else:
                setattr(self, field.name, mine + theirs)


def format_summary(outcome: Outcome) -> str:
    """Returns the closing lines for the user on all files."""
    skipped = sum(len(names) for names in outcome.skipped.values())
    lines = [
        f'files    {outcome.files} read',
        f'modules  {outcome.modules} read, {len(outcome.written)} written, '
        f'{len(outcome.existing)} already there, {skipped} skipped, '
        f'{len(outcome.failed)} wrong',
    ]
    for reason, names in outcome.skipped.items():
        lines.append(f'skipped  {text.list_skipped({reason: names})}')
    dropped = sum(outcome.runs_dropped.values())
    why = ', '.join(f'{n} {why}' for why, n in outcome.runs_dropped.items())
    lines.append(
        f'runs     {outcome.runs_kept} kept, {dropped} dropped{why and f" ({why})"}'
    )
    if outcome.unknown_opcodes:
        lines.append(
            'opcodes  outside the table (number 0): '
            + text.list_most_common(outcome.unknown_opcodes)
        )
    counts = collections.Counter(outcome.written + outcome.existing)
    repeated = {name: n for name, n in counts.items() if n > 1}
    if repeated:
        lines.append(
            'note     several modules of one name and fingerprint, of '
            f'which one is kept: {text.list_most_common(repeated)}'
        )
    lines += [f'note     {note}' for note in outcome.notes]
    return '\n'.join(lines)
