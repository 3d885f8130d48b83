"""The lines of a check, and the last one, which says what to do."""

from collections.abc import Sequence
import os
from typing import NamedTuple

from baselines.core import exits
from baselines.core import text
from baselines.runs import run_files


class HandIn(NamedTuple):
    """The files that are handed in, and the data that they are tried on."""

    path: str  # of the models.py, absolute
    name: str  # one of its classes; '' for all, or the run's
    run: run_files.RunFile | None
    data_root: str = ''  # folder with the splits; '' for where the run was trained
    toy_data: bool = False  # whether to take the first files of each split alone

    @property
    def file(self) -> str:
        """The name of the models.py."""
        return os.path.basename(self.path)


class Line(NamedTuple):
    """A line on a hand-in."""

    kind: str  # 'ok', 'FIX' or 'note'
    subject: str  # a class or a file
    note: str  # the rule that it keeps, or what to change

    @property
    def ok(self) -> bool:
        """Whether there is nothing to change."""
        return self.kind != 'FIX'

    def __str__(self) -> str:
        return f'{self.kind:4} {self.subject}: {self.note}'


def write_verdict(lines: Sequence[Line], hand_in: HandIn) -> str:
    """Says whether to hand in, or how much there is to mend, and the next command."""
    wrong, run = sum(not line.ok for line in lines), hand_in.run
    if wrong:
        what = f'{text.count(wrong, "point")} to fix; then {exits.format_command()}'
    elif run:
        names = map(os.path.basename, (hand_in.path, run.model_dir, run.file))
        what = f'hand in {", ".join(names)}'
    else:
        what = f'nothing to fix; next: tpugraphs check {hand_in.path} --dir RUN'
    return f'verdict: {what}'
