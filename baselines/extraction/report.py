"""What became of raw files, counted and told."""

import collections
import dataclasses
from typing import Dict, List

_NAMED = 5


@dataclasses.dataclass
class Report:
    """What became of raw files; plain values, so that it travels as JSON.

    Attributes:
        files: number of files read.
        modules: number of modules in them.
        written: names of the npz files written.
        existing: names of the npz files that were there and stay.
        skipped: reason -> modules passed over for it.
        failed: messages about files and modules that are wrong.
        fatal: why extraction cannot go on (the output cannot be written).
        runs_kept: number of configurations in the modules written.
        runs_dropped: reason -> number of runs.
        unknown_opcodes: opcode -> number of nodes with it.
        notes: what else the user should know.
    """

    files: int = 0
    modules: int = 0
    written: List[str] = dataclasses.field(default_factory=list)
    existing: List[str] = dataclasses.field(default_factory=list)
    skipped: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    failed: List[str] = dataclasses.field(default_factory=list)
    fatal: str = ''
    runs_kept: int = 0
    runs_dropped: Dict[str, int] = dataclasses.field(default_factory=dict)
    unknown_opcodes: Dict[str, int] = dataclasses.field(default_factory=dict)
    notes: List[str] = dataclasses.field(default_factory=list)

    def add(self, other: 'Report') -> None:
        """Adds the counts and names of another report to this one."""
        for field in dataclasses.fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            if field.name == 'fatal':
                self.fatal = mine or its
            elif isinstance(mine, dict):
                zero = [] if field.name == 'skipped' else 0
                for key, value in its.items():
                    mine[key] = mine.get(key, zero) + value
            else:
                setattr(self, field.name, mine + its)


def reasons(skipped: Dict[str, List[str]]) -> str:
    """Lists skipped modules with their reasons, for one line."""
    parts = []
    for reason, names in skipped.items():
        named = ', '.join(names[:_NAMED])
        more = f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''
        parts.append(f'{named}{more}: {reason}')
    return '; '.join(parts) or 'no modules'


def summary(report: Report) -> str:
    """Returns the closing lines for the user.

    Args:
        report: what became of all files.
    """
    skipped = sum(len(names) for names in report.skipped.values())
    lines = [
        f'files    {report.files} read',
        f'modules  {report.modules} read, {len(report.written)} written, '
        f'{len(report.existing)} already there, {skipped} skipped, '
        f'{len(report.failed)} wrong',
    ]
    for reason, names in report.skipped.items():
        lines.append(f'skipped  {reasons({reason: names})}')
    dropped = sum(report.runs_dropped.values())
    why = ', '.join(f'{n} {why}' for why, n in report.runs_dropped.items())
    lines.append(
        f'runs     {report.runs_kept} kept, {dropped} dropped{why and f" ({why})"}'
    )
    if report.unknown_opcodes:
        lines.append(
            'opcodes  outside the table (number 0): '
            + most_common(report.unknown_opcodes)
        )
    counts = collections.Counter(report.written + report.existing)
    repeated = {name: n for name, n in counts.items() if n > 1}
    if repeated:
        lines.append(
            'note     several modules of one name and fingerprint, of '
            f'which one is kept: {most_common(repeated)}'
        )
    lines += [f'note     {note}' for note in report.notes]
    return '\n'.join(lines)


def most_common(counts: Dict[str, int]) -> str:
    """Lists the largest counts with their names, for one line."""
    top = collections.Counter(counts).most_common(_NAMED)
    more = f' and {len(counts) - _NAMED} more' if len(counts) > _NAMED else ''
    return ', '.join(f'{name!r} {n}' for name, n in top) + more
