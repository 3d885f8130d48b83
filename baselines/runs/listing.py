"""Lists the runs in folders, as a table or as JSON."""

from collections.abc import Iterator, Sequence
import datetime
import itertools
import os
import re
import textwrap
from typing import NamedTuple

import numpy as np

from baselines.core import files
from baselines.core import npz
from baselines.core import text
from baselines.core import untrusted
from baselines.runs import differences
from baselines.runs import finding
from baselines.runs import run_files

_DIFFERS = 'differs from defaults'
_LINE_WIDTH = 30  # characters of a line of settings
# The state of a training, or its lock.
_UNFINISHED = re.compile(r'(unfinished_(\w+)\.npz|\.unfinished_(\w+)\.lock)')
_NUMBERS = ('seed', 'valid', 'minutes')
# The description in a state, which also holds arrays of any size.
_STATE = {'json': npz.Field('u', ('n',), np.uint8)}
_MOST_JSON, _MOST_STATE = 64 << 20, 1 << 40  # bytes


class RunRow(NamedTuple):
    """One run."""

    when: str  # when it was finished, ISO 8601 with the zone
    model: str  # its name
    collection: str  # such as 'tile:xla'
    seed: int | None  # of the training; None where an old run does not say
    differs: text.JsonObject  # settings that are not the defaults
    measure: str  # of validation, that chose the best epoch: 'OPA' or 'tau'
    # its value on the validation split, of all models; None where there is none
    score: float | None
    minutes: float | None  # of the training; None where an old run does not say
    run_id: str  # the user's own label
    command: str  # the command line, where the run file has it
    path: str  # of the model directory


SORTS = ('when', 'model', 'collection', 'score', 'minutes')


def read_rows(folders: Sequence[str]) -> list[RunRow]:
    """Reads the runs in folders; a damaged run file is named on stderr."""
    listed = []
    for folder in dict.fromkeys(map(files.expand, folders)):
        for model_dir in run_files.list_dirs(folder):
            try:
                listed.append(make_row(run_files.read(model_dir)))
            except (ValueError, OSError, TypeError) as error:  # untrusted
                text.note(text.one_line(error, run_files.run_file(model_dir)))
    return listed


def make_row(run: run_files.RunFile) -> RunRow:
    """Describes one run."""
    # All fields come from an untrusted file; `run_files` has checked only some.
    measure, score = find_best_score(run)
    differs = differences.find_changes(run)
    if run.args.get('fold'):
        differs['fold'] = run.args['fold']
    return RunRow(
        when=run.finished.isoformat(timespec='seconds'),
        model=run.args['model'],
        collection=run.collection.name,
        seed=run.args.get('seed', run.info.get('seed')),
        differs=differs,
        measure=measure,
        score=score,
        minutes=None if run.seconds is None else run.seconds / 60,
        run_id=str(run.args.get('run_id') or ''),
        command=str(run.info.get('command') or ''),
        path=run.model_dir,
    )


def find_best_score(run: run_files.RunFile) -> tuple[str, float | None]:
    """Returns 'OPA' or 'tau', and the value of the run's models on validation, or None.

    For published runs it is the value of the best epoch.
    """
    of_all = run.validation_score
    if of_all is not None:
        return of_all
    taus = [x for x in run.curve.get('val_tau') or [] if x is not None]
    opas = [x for x in run.curve.get('val_opa') or [] if x is not None]
    return ('tau', max(taus)) if taus else ('OPA', max(opas, default=None))


def sort_rows(rows: Sequence[RunRow], by: str) -> list[RunRow]:
    """Sorts rows by one of `SORTS`; scores the best first, all else the smallest."""
    sign = -1 if by == 'score' else 1

    def make_key(run: RunRow):
        value = getattr(run, by)
        ordered_by = sign * value if isinstance(value, (int, float)) else value or ''
        return value is None, ordered_by, run.when

    return sorted(rows, key=make_key)


def format_table(rows: Sequence[RunRow]) -> list[str]:
    """Lays rows out, names of directories shortened.

    Runs of one folder have its name above the table, unless trainings write there.
    """
    folders = {os.path.dirname(run.path) for run in rows}
    above = []
    if len(folders) == 1 and not folders <= {*finding.list_default_folders()}:
        above = [f'{files.format_path(*folders)}/', '']
    head, *others = make_cells(rows)
    lines = [line for row in others for line in _wrap_settings(head, row)]
    align = ''.join('>' if name in _NUMBERS else '<' for name in head)
    return above + text.format_table([head, *lines], align, rules=[1])


def _wrap_settings(head: Sequence[str], row: Sequence[str]) -> list[list[str]]:
    """Breaks the settings of a row into lines."""
    columns = [
        textwrap.wrap(cell, _LINE_WIDTH, break_on_hyphens=False)
        if name == _DIFFERS
        else [cell]
        for name, cell in zip(head, row)
    ]
    return [list(line) for line in itertools.zip_longest(*columns, fillvalue='')]


def describe(run: run_files.RunFile) -> str:
    """Returns a run's model, collection, time of finishing and path in one line."""
    described = make_row(run)
    when = described.when[:16].replace('T', ' ')
    path = files.format_path(described.path)
    return f'{described.model} on {described.collection}, {when}: {path}'


def list_unfinished(folders: Sequence[str]) -> Iterator[str]:
    """Yields a line for each training in folders that runs or was interrupted."""
    for folder in dict.fromkeys(map(files.expand, folders)):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        matches = filter(None, map(_UNFINISHED.fullmatch, names))
        for key in sorted({match[2] or match[3] for match in matches}):
            path = os.path.join(folder, f'unfinished_{key}.npz')
            process = files.find_holder(run_files.lock_file(folder, key))
            if process:
                yield f'still training in {files.format_path(folder)}: {process}'
            elif os.path.exists(path):
                yield f'unfinished: {_describe_interrupted(path)}'


def _describe_interrupted(path: str) -> str:
    """Describes the state of a training: its last epoch, and how it continues."""
    try:
        arrays = npz.read_arrays(path, _STATE, _MOST_JSON, None, _MOST_STATE)
        described = untrusted.loads(arrays['json'].tobytes(), finite=False)
        epochs = text.count(len(described['curve']['epoch']), 'epoch')
        command = text.printable(described.get('command') or '', 1000)
    except (OSError, *untrusted.DAMAGE) as error:
        return text.one_line(error, path)
    where = f'{epochs} in {files.format_path(os.path.dirname(path))}'
    if not command:  # of an older version
        return f'{where}; the command that trained it continues with --resume'
    if command.endswith(')') and 'resume=' not in command:  # a call from Python
        command = f'{command[:-1]}, resume=True)'
    elif not command.endswith(')') and '--resume' not in command:
        command += ' --resume'
    return f'{where}; continue with: {command}'


def make_cells(rows: Sequence[RunRow]) -> list[list[str]]:
    """Returns the headings of a table of runs, and its rows.

    The column `run` has names for `--dir`; runs of several folders, or of others than
    those where trainings write, have theirs before it.
    """
    folders = {os.path.dirname(run.path) for run in rows}
    plain = folders if len(folders) == 1 else {*finding.list_default_folders()}
    years = {run.when[:4] for run in rows}
    first = 5 * (years == {f'{datetime.date.today().year}'})  # without the year
    has_seeds = any(run.seed is not None for run in rows)
    head = ['when', 'model', 'collection', *(['seed'] * has_seeds)]
    head += [_DIFFERS, 'valid', 'minutes', 'run']
    lines = [head]
    for run in rows:
        folder, name = os.path.split(run.path)
        name = name[: len('model_') + 8]
        seed = '-' if run.seed is None else str(run.seed)
        differs = differences.format_settings(run.differs)
        if run.run_id:
            differs = f'{differs} ({run.run_id})'.strip()
        differs = text.printable(differs) or '-'
        score = '-' if run.score is None else f'{run.measure} {run.score:.3f}'
        lines.append(
            [
                run.when[first:16].replace('T', ' '),
                text.printable(run.model),
                run.collection,
                *([seed] * has_seeds),
                differs,
                score,
                text.format_value(run.minutes, '.1f'),
                name
                if folder in plain
                else os.path.join(files.format_path(folder), name),
            ]
        )
    return lines
