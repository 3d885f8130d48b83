"""Reads, appends and prunes tuning records: a JSON line for every measurement.

Any number of processes append lines at once; `prune` alone rewrites a file.  A line is
strict JSON: the version of the format and the fields of `Measurement`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import datetime
import functools
import hashlib
import json
import math
import os
import re
from typing import Any, BinaryIO

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted

# The sizes of a tile, by the names 'output' and 'kernel'.
Configuration = Mapping[str, Sequence[int]]

# Version of the format, and of the meaning of a configuration.
VERSION = 2
OK = 'ok'
STATUSES = (
    OK,
    *('compile error', 'runtime error', 'wrong result', 'timeout', 'over the limit'),
)
MOST_REASON = 400  # characters
_MOST_FILE = 1 << 30  # bytes
_MOST_LINE = 1 << 20
# Lines that are no measurements of this version.
_OTHER = 'of another version'
_DAMAGED = 'damaged'
# A graph id: the program and the hash of the kernel's module.
_KERNEL = re.compile(r'\w[\w.-]{0,199}_[0-9a-f]{16}')


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The outcome of measuring a configuration of a kernel."""

    kernel: str  # graph id, `<program>_<fingerprint>`
    configuration: Configuration  # sizes of the `output` and `kernel` tile
    default: bool  # whether it is the default, with which others are compared
    status: str  # of `STATUSES`
    reason: str  # for a status other than 'ok', as text
    # of one execution, by pass, the least of its runs; empty unless 'ok'
    times_ns: list[int]
    compile_s: float  # seconds of compiling
    search_s: float  # seconds of choosing it
    group: str  # equal for measurements of the same passes
    time: str  # of the measurement, ISO 8601 with the offset from UTC
    versions: dict[str, str]  # of jaxlib and of this package
    machine: text.JsonObject  # see `machine.identity`
    # of the kernel's instructions, without parameters and constants; records written
    # before this field was there have none
    opcodes: list[str] = dataclasses.field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        """The hash of the kernel's module, equal for equal kernels of all programs."""
        return self.kernel.rpartition('_')[2]

    @property
    def least_ns(self) -> int:
        """The least time over all passes."""
        return min(self.times_ns)

    @functools.cached_property
    def machine_id(self) -> str:
        """The machine and its compiler, in eight hexadecimal digits."""
        return machine_id_of(self.machine, self.versions['jaxlib'])

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for copies of a measurement; the group is not part of it."""
        times = tuple(self.times_ns)
        place = self.fingerprint, self.machine_id, key(self.configuration)
        return (*place, self.time, self.status, times)

    @functools.cached_property
    def when(self) -> datetime.datetime:
        """The time of measuring."""
        return datetime.datetime.fromisoformat(self.time)


_FIELDS = [field.name for field in dataclasses.fields(Measurement)]


def machine_id_of(machine: text.JsonObject, jaxlib: str) -> str:
    """Returns eight hexadecimal digits that name a machine and its compiler."""
    content = json.dumps([machine, jaxlib], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def now() -> str:
    """Returns the current time in the format of `Measurement.time`."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')


def read(path: str) -> tuple[list[Measurement], dict[str, int]]:
    """Reads a file of records, which may be untrusted.

    Returns:
        Its measurements; and the number of lines without a measurement of this
        version, by reason: a damaged line does not cost the others.

    Raises:
        ValueError: it is too large, or no line is a record.
        OSError: it cannot be read.
    """
    measurements, unused = [], collections.Counter[str]()
    for _, line in _lines(path):
        if isinstance(line, Measurement):
            measurements.append(line)
        else:
            unused[line] += 1
    return measurements, dict(unused)


def append(path: str, measurements: Iterable[Measurement]) -> None:
    """Appends lines, which stay whole even if other processes append or prune.

    A line that a killed process left half stays, on a line of its own.

    Raises:
        OSError: it cannot be written; names `path`.
    """
    lines = [
        json.dumps({'version': VERSION, **dataclasses.asdict(m)}, separators=(',', ':'))
        for m in measurements
    ]
    try:
        with _open_locked(path) as stream:
            # A line that was cut off gets an end, before the next one is written.
            if stream.seek(0, 2):
                stream.seek(-1, 2)
                if stream.read(1) != b'\n':
                    lines.insert(0, '')
            stream.write(''.join(f'{line}\n' for line in lines).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def merge(path: str, measurements: Sequence[Measurement]) -> int:
    """Appends measurements that a file does not have yet; returns their number.

    A default is repeated where new measurements are compared with it.

    Args:
        path: the file, which is made if it is missing.

    Raises:
        ValueError: see `read`.
        OSError: it cannot be read or written.
    """
    stored = read(path)[0] if os.path.exists(path) else []
    known = {m.identity for m in stored}
    new = {m.identity: m for m in measurements if m.identity not in known}
    # A new measurement is compared with the default of its own group.
    groups = {m.group for m in new.values()} - {m.group for m in stored}
    repeated = [m for m in measurements if m.identity in known]
    defaults = [m for m in repeated if m.default and m.group in groups]
    append(path, [*defaults, *new.values()])
    return len(new)


def prune(path: str, keeps: Callable[[Measurement], bool]) -> int:
    """Removes damaged lines, and measurements that `keeps` rejects; returns how many.

    Lines of another version stay.

    Raises:
        ValueError: see `read`.
        OSError: it cannot be read or written.
    """
    with _open_locked(path):
        lines = list(_lines(path))
        kept = [
            content
            for content, line in lines
            if line == _OTHER or isinstance(line, Measurement) and keeps(line)
        ]
        if len(kept) < len(lines):
            with files.write_atomically(path, 'wb') as stream:
                stream.writelines(content + b'\n' for content in kept)
    return len(lines) - len(kept)


def _open_locked(path: str) -> BinaryIO:
    """Opens a file to append to, locked for other processes until it is closed."""
    while True:
        stream = open(path, 'a+b')
        if files.hold(stream.fileno()):
            return stream
        stream.close()  # another process has just pruned it


def _lines(path: str) -> Iterator[tuple[bytes, Measurement | str]]:
    """Yields the lines of a file, each with its measurement or why it has none.

    Raises:
        ValueError: the file is not empty, and no line of it is a record.
    """
    is_empty, has_records = True, False
    with untrusted.open_regular(path, _MOST_FILE) as stream:
        while content := stream.readline(_MOST_LINE):
            # What is left of a longer line is passed over.
            rest = content
            while len(rest) == _MOST_LINE and not rest.endswith(b'\n'):
                rest = stream.readline(_MOST_LINE)  # of a line that is too long
            is_empty = False
            if content := content.strip():
                line = _parse(content)
                has_records |= line != _DAMAGED
                yield content, line
    if not (is_empty or has_records):
        raise ValueError(
            f'{path}: holds no tuning records; give a file that `tpugraphs tune` or '
            '`tpugraphs collect` wrote'
        )


class History:
    """The measurements of a kernel with one machine and compiler.

    Times are compared only with the default's in the same passes; a configuration
    whose default is not on record counts as not measured.

    Attributes:
        measurements: the oldest first.
        defaults: group -> the measurement of the default in the group's passes.
    """

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.defaults: dict[str, Measurement] = {}

    def add(self, measurement: Measurement) -> None:
        """Adds a measurement, later than all before."""
        self.measurements.append(measurement)
        if measurement.default and measurement.status == OK:
            self.defaults[measurement.group] = measurement

    def log_ratio(self, measurement: Measurement) -> float:
        """Returns the log of a measurement's least time over the default's."""
        default = self.defaults[measurement.group]
        return math.log(measurement.least_ns / default.least_ns)

    def results(self) -> dict[str, Measurement]:
        """Returns the valid measurement of every configuration, by `key`.

        It is the latest with times, or else the latest failure.
        """
        times, failures = {}, {}
        for measurement in self.measurements:
            configuration = key(measurement.configuration)
            if measurement.status != OK:
                failures[configuration] = measurement
            elif measurement.group in self.defaults:
                times[configuration] = measurement
        return {**failures, **times}

    def timed(self) -> list[Measurement]:
        """Returns the measurements of `results` that have times, the fastest first."""
        times = [m for m in self.results().values() if m.status == OK]
        return sorted(times, key=self.log_ratio)


def by_kernel(measurements: Iterable[Measurement]) -> dict[tuple[str, str], History]:
    """Groups measurements by fingerprint and machine, in the order of names."""
    histories: dict[tuple[str, str], History] = collections.defaultdict(History)
    ids: dict[tuple[str, str], str] = {}  # of few machines and compilers, each once
    for measurement in sorted(measurements, key=lambda m: m.when):
        machine = repr(measurement.machine), measurement.versions['jaxlib']
        if machine not in ids:
            ids[machine] = measurement.machine_id
        histories[measurement.fingerprint, ids[machine]].add(measurement)
    name_of = lambda item: item[1].measurements[-1].kernel
    return dict(sorted(histories.items(), key=name_of))


def key(configuration: Configuration) -> str:
    """Returns a configuration's sizes as text, equal for tuples and for JSON lists."""
    return f'{list(configuration["output"])} {list(configuration["kernel"])}'


def _parse(content: bytes) -> Measurement | str:
    """Returns the measurement of a line, or why it has none."""
    try:
        fields = untrusted.loads(content)
        if not untrusted.is_int(fields['version']):
            return _DAMAGED
        if fields['version'] != VERSION:
            return _OTHER
        return checked(fields)
    except untrusted.DAMAGE:
        return _DAMAGED


def checked(fields: Mapping[str, Any]) -> Measurement:
    """Returns the measurement with these fields, which may be untrusted.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: a field is missing, or its
            value is not one that the rest of this package can use.
    """
    fields = {'opcodes': [], **fields}
    m = Measurement(**{name: fields[name] for name in _FIELDS})
    texts = [m.reason, *m.versions.values(), *m.opcodes, m.group]
    texts += [m.machine[name] for name in ('cpu', 'device', 'flags')]
    sizes = m.configuration.values()
    if not (
        _KERNEL.fullmatch(m.kernel)
        and m.configuration.keys() == {'output', 'kernel'}
        and all(untrusted.are_ints(dims, 1) for dims in sizes)
        and m.status in STATUSES
        and untrusted.are_ints(m.times_ns, 1)
        and bool(m.times_ns) == (m.status == OK)
        and all(untrusted.is_number(s, 0) for s in (m.compile_s, m.search_s))
        and {'jaxlib', 'tpugraphs'} <= m.versions.keys()
        and all(isinstance(text, str) for text in texts)
        and isinstance(m.default, bool)
        and untrusted.is_int(m.machine['cores'])
        and isinstance(m.machine['caches'], dict)
        and m.when.tzinfo is not None
    ):
        raise ValueError('a field has a value that no measurement has')
    return m
