"""Keeps the folder of a measured collection: its options, files and report.

Files appear one by one.  `measured.json` records the protocol and the quality of all
measurements; it is rewritten after every kernel, and `--resume` goes on from it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import json
import math
import os
import re
import resource
import time
from typing import Any

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections as collections_lib
from baselines.data import hardware
from baselines.hlo import reading
from tpugraphs_lab.measure.clock import machine
from tpugraphs_lab.measure.clock import session
from tpugraphs_lab.measure.clock import timing

_LOCK = '.lock'
# Hidden names of files that killed processes were writing.
_LEFTOVERS = re.compile(rf'\.({hardware.SIDECAR}|.+\.npz)\.\w{{8}}')
_WIDTH = 60  # characters of a name in an error
# The folder of kernels whose halves of the passes rank differently.
NOISY = 'noisy'
LEAST_TAU = 0.6  # Kendall's tau below which a kernel is noisy
# Configurations of a kernel that are timed even if they take longer than its seconds.
LEAST_CONFIGS = 10

_Reasons = collections.Counter  # reason -> how many


@dataclasses.dataclass(frozen=True)
class CollectionOptions:
    """The options of a collection."""

    output: str  # folder, absolute
    configs: int = 60  # largest number of configurations of a kernel
    kernels: int = 0  # largest number for a program, drawn at random; 0 for all
    minutes: float = math.inf  # limit of wall time
    seconds: float = 20  # wall time for a kernel, compiling included
    seed: int = 0  # seed for configurations, inputs and splits
    # shares of train, valid and test; None writes one folder
    split: tuple[float, ...] | None = (80, 10, 10)
    resume: bool = False  # whether to go on with an interrupted collection
    core: int = -1  # the core of the worker; -1 for the last
    platform: str = 'cpu'  # 'cpu' or 'gpu'
    # least and most passes
    passes: tuple[int, int] = (timing.LEAST_PASSES, timing.MOST_PASSES)
    # the `time.monotonic()` that the minutes count from
    began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """The seconds of wall time that are left."""
        return self.began + self.minutes * 60 - time.monotonic()


@contextlib.contextmanager
def open_folder(
    sources: Sequence[str], options: CollectionOptions
) -> Iterator[CollectionFolder]:
    """Opens a folder for this process alone; removes it if it stays empty.

    Raises:
        ValueError: another process measures into it, or it holds other files.
        OSError: it cannot be written.
    """
    output = options.output
    os.makedirs(output, exist_ok=True)
    try:
        refusal = f'{output}: another collect measures into it; wait for it to end'
        with files.hold_lock(os.path.join(output, _LOCK), refusal):
            for part, _, _ in os.walk(output):
                files.remove_leftovers(part, _LEFTOVERS)
            folder = CollectionFolder(sources, options)
            # Another process can resume, however this one ends.
            folder.write_sidecar()
            try:
                yield folder
            finally:
                if folder.records:
                    folder.write_sidecar()
                else:
                    os.unlink(os.path.join(output, hardware.SIDECAR))
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(output)


class CollectionFolder:
    """The folder of a collection, its measured.json, and the results so far.

    Attributes:
        options: options of the collection.
        records: name -> the entry of measured.json for a kernel whose file exists,
            those of earlier calls included.
        left: kernels that were not measured for lack of time.
        skipped: reason -> kernels that cannot be measured.
        stopped: reason -> programs of kernels whose measurement ended without times.
        failed: errors of programs that could not be used, one line for a program.

    Raises:
        ValueError: the folder holds other files.
        OSError: it cannot be read.
    """

    def __init__(self, sources: Sequence[str], options: CollectionOptions):
        self.options = options
        self.records: dict[str, text.JsonObject] = {}
        self.left = 0
        self.skipped: _Reasons = _Reasons()
        self.stopped: dict[str, list[str]] = {}
        self.failed: list[str] = []
        self._about = {
            'task': reading.TILE,  # earlier versions measured layouts, too
            'seed': options.seed,
            'configs': options.configs,
            'kernels': options.kernels,
            'split': list(options.split) if options.split else None,
            'sources': list(sources),
            'platform': options.platform,
        }
        self._machine = machine.describe(options.core)
        # Minutes of the calls before this one.
        self._before = dict.fromkeys(_MINUTES, 0.0)
        names = sorted(set(os.listdir(options.output)) - {_LOCK})
        if hardware.SIDECAR in names:
            self._resume()
        elif names:
            raise ValueError(
                f'{options.output}: holds {names[0]!r}, not a collection of this '
                'command; use an empty folder'
            )

    def add(self, kernel: str, record: text.JsonObject) -> None:
        """Adds a kernel whose file exists, by its name, and rewrites measured.json."""
        self.records[kernel] = record
        self.write_sidecar()

    def add_stopped(self, program: str, reason: str) -> None:
        """Adds the program of a kernel whose measurement ended without times."""
        programs = self.stopped.setdefault(reason, [])
        if program not in programs:
            programs.append(program)

    @property
    def configs(self) -> int:
        """The number of measured configurations."""
        return sum(len(record['halves'][0]) for record in self.records.values())

    @property
    def median_tau(self) -> float:
        """The median over kernels of Kendall's tau between halves of the passes."""
        return float(np.median([record['tau'] for record in self.records.values()]))

    @property
    def dropped(self) -> _Reasons:
        """The number of configurations that were not measured, by reason."""
        return _Reasons(
            str(why).partition(':')[0]
            for record in self.records.values()
            for why in record.get('dropped', {}).values()
        )

    def lines(self) -> Iterator[str]:
        """Yields the closing lines for the user."""
        noisy = sum(record['noisy'] for record in self.records.values())
        yield (
            f'{text.count(len(self.records), "kernel")} with '
            f'{text.count(self.configs, "configuration")} in {self.options.output}'
        )
        yield (
            f"Kendall's tau between halves of the passes: median "
            f'{self.median_tau:.2f}; {text.count(noisy, "noisy kernel")} set apart'
        )
        if self.left:
            yield f'{self.left} left for lack of time; --resume goes on'
        for title, counts in (('skipped', self.skipped), ('dropped', self.dropped)):
            if counts:
                yield f'{title}: {_list_counts(counts)}'
        if self.stopped:
            yield f'without times: {text.list_skipped(self.stopped)}'
        for line in self.failed:
            yield f'program skipped: {line}'

    def _resume(self) -> None:
        """Reads the kernels and minutes of earlier calls."""
        output = self.options.output
        if not self.options.resume:
            raise ValueError(
                f'{output}: holds a collection already; add --resume to go on with '
                'it, or use another folder'
            )
        content = read_sidecar(output)
        with text.locate_errors(os.path.join(output, hardware.SIDECAR)):
            untrusted.check_fields(content, {'collection': _OBJECT, **_MINUTES})
        before = content['collection']
        other = [key for key in self._about if before.get(key) != self._about[key]]
        if other:
            raise ValueError(
                f'{output}: was begun with other {", ".join(other)}; use the same, '
                'or another folder'
            )
        self._before = {name: content[name] for name in _MINUTES}
        for name, kernel in content['kernels'].items():
            if os.path.exists(os.path.join(output, kernel['file'])):
                self.records[name] = kernel

    def write_sidecar(self) -> None:
        """Rewrites measured.json."""
        options = self.options
        # Of all workers that have ended.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = time.monotonic() - options.began
        spent = zip(_MINUTES, (wall, used.ru_utime + used.ru_stime))
        content = {
            'collection': self._about,
            'machine': self._machine,
            'protocol': {
                'clock': session.clock_of(options.platform),
                'runs': timing.RUNS,
                'least_passes': options.passes[0],
                'most_passes': options.passes[1],
                'tau_early': timing.TAU_EARLY,
                'tau_wanted': timing.TAU_WANTED,
                'seconds': options.seconds,
            },
            # The sums over all calls of this collection.
            **{name: round(self._before[name] + s / 60, 2) for name, s in spent},
            'median_tau': round(self.median_tau, 4) if self.records else None,
            'skipped': dict(self.skipped),
            'stopped': self.stopped,
            'failed': self.failed,
            'kernels': self.records,
        }
        path = os.path.join(options.output, hardware.SIDECAR)
        with files.write_atomically(path, encoding='utf-8') as stream:
            # `json.dump` takes four times as long, after every kernel.
            stream.write(json.dumps(content, separators=(',', ':')))


def read_sidecar(folder: str) -> text.JsonObject:
    """Returns the content of a collection's measured.json.

    Raises:
        ValueError: the folder has none, or the file was cut or edited.
        OSError: it cannot be read.
    """
    path = os.path.join(folder, hardware.SIDECAR)
    if not os.path.lexists(path):
        raise ValueError(
            f'{folder}: has no {hardware.SIDECAR}; '
            'give a folder that `tpugraphs lab collect` made'
        )
    try:
        content = untrusted.loads(untrusted.read(path, hardware.MOST_SIDECAR))
        untrusted.check_fields(content, {'kernels': _OBJECT})
        for name, kernel in content['kernels'].items():
            with text.locate_errors(text.shorten(name, _WIDTH)):
                _check_kernel(name, kernel)
    except ValueError as error:
        raise ValueError(f'{path}: damaged ({error}); collect again') from None
    return content


def _is_inside(file: object) -> bool:
    """Returns whether a value is the relative path of a file in the folder."""
    return (
        isinstance(file, str)
        and os.path.normpath(file) == file
        and not os.path.isabs(file)
        and file.split(os.sep)[0] not in ('.', '..')
    )


def _list_counts(counts: _Reasons) -> str:
    """Lists reasons with their counts, in one line: 'too large (1), too small (3)'."""
    return ', '.join(f'{reason} ({n:,})' for reason, n in sorted(counts.items()))


def _are_halves(value: object) -> bool:
    """Returns whether a value is two rows with equal numbers of times."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(row, list) for row in value)
        and all(untrusted.is_int(time, 1) for row in value for time in row)
        and len(value[0]) == len(value[1]) > 0
    )


def _is_name(value: object) -> bool:
    """Returns whether a value is a name of at most 200 characters."""
    return isinstance(value, str) and bool(re.fullmatch(r'\w[\w.-]{0,199}', value))


def _is_number(value: Any) -> bool:
    """Returns whether a value is a finite number that JSON's readers agree on."""
    return type(value) in (int, float) and abs(value) <= 1 << 53


_NAME = _is_name, 'a name of letters, digits, ".", "_" and "-"'
_OBJECT = (lambda value: isinstance(value, dict)), 'an object'
# The fields of a kernel in measured.json that are used.
_RULES: dict[str, untrusted.Rule] = {
    'file': (_is_inside, 'inside the folder'),
    'program': _NAME,
    'origin': (lambda value: isinstance(value, str), 'text'),
    'split': (lambda value: value in ('', *collections_lib.SPLITS), 'a split'),
    'noisy': (lambda value: isinstance(value, bool), 'true or false'),
    'halves': (_are_halves, 'two rows of nanoseconds'),
    'passes': (untrusted.is_int, 'a count'),
    **dict.fromkeys(('tau', 'drift', 'again'), (_is_number, 'a number')),
}
# Sums over all calls.
_MINUTES = dict.fromkeys(('minutes', 'worker_cpu_minutes'), (_is_number, 'a number'))


def _check_kernel(name: object, kernel: text.JsonObject) -> None:
    """Raises ValueError unless the entry of a kernel has all its fields."""
    untrusted.check_fields({'name': name}, {'name': _NAME})
    untrusted.check_fields(kernel, _RULES)
    count = len(kernel['halves'][0])
    is_place = lambda value: untrusted.is_int(value) and 0 <= value < count
    are_configs = lambda value: isinstance(value, list) and len(value) == count
    rules = {
        'configs': (are_configs, f'a list of {count}, as the times are'),
        'dropped': _OBJECT,
        'default': (is_place, f'a number below {count}'),
        'once': (
            lambda value: isinstance(value, list) and all(map(is_place, value)),
            f'a list of numbers below {count}',
        ),
    }
    # Shipped archives lack the first two; files of earlier versions the others, and
    # their default is the first configuration.
    optional = {'configs': [{}] * count, 'dropped': {}, 'default': 0, 'once': []}
    untrusted.check_fields({**optional, **kernel}, rules)
