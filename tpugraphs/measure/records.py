"""Reads, appends and prunes tuning records: a JSON line for every measurement.

Any number of processes append lines at once; `prune` alone rewrites a file.  A line is
strict JSON: the version of the format and the fields of `Measurement`.
"""

import collections
import dataclasses
import datetime
import functools
import hashlib
import json
import math
from typing import (
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Sequence,
    Tuple,
    Union,
)

from baselines import files
from baselines import text
from baselines import untrusted

# Version of the format, and of the meaning of a configuration.
VERSION = 2
OK = 'ok'
STATUSES = (
    OK,
    *('compile error', 'runtime error', 'wrong result', 'timeout', 'over the limit'),
)
MOST_REASON = 400  # letters
_MOST_FILE = 1 << 30  # bytes
_MOST_LINE = 1 << 20
# Lines that are no measurements of this version.
_OTHER = 'of another version'
_CUT = 'cut short'


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The outcome of measuring a configuration of a kernel."""

    kernel: str  # graph id, `<program>_<fingerprint>`
    configuration: Dict[str, List[int]]  # sizes of the `output` and `kernel` tile
    default: bool  # whether it is the default, with which others are compared
    status: str  # of `STATUSES`
    reason: str  # for a status other than 'ok', as text
    # of one execution, by pass, the least of its runs; empty unless 'ok'
    times_ns: List[int]
    compile_s: float  # seconds of compiling
    search_s: float  # seconds of choosing it
    group: str  # equal for measurements of the same passes
    time: str  # of the measurement, ISO 8601 with the offset from UTC
    versions: Dict[str, str]  # of jaxlib and of this package
    machine: Dict[str, Any]  # see `machine.identity`

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
    def when(self) -> datetime.datetime:
        """The time of measuring."""
        return datetime.datetime.fromisoformat(self.time)


def machine_id_of(machine: Dict[str, Any], jaxlib: str) -> str:
    """Returns eight hexadecimal digits that name a machine and its compiler."""
    content = json.dumps([machine, jaxlib], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def now() -> str:
    """Returns the present time in the format of `Measurement.time`."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')


def read(path: str) -> Tuple[List[Measurement], Dict[str, int]]:
    """Reads a file of records, which may come from a stranger.

    Returns:
        Its measurements; and the number of lines without a measurement of this
        version, by reason.

    Raises:
        ValueError: it is too large or holds no records, or a line is no record; names
            the line.
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
            if stream.seek(0, 2):
                stream.seek(-1, 2)
                if stream.read(1) != b'\n':
                    lines.insert(0, '')
            stream.write(''.join(f'{line}\n' for line in lines).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def prune(path: str, keeps: Callable[[Measurement], bool]) -> int:
    """Removes the measurements that `keeps` rejects, and unfinished lines.

    Lines of another version stay.

    Returns:
        The number of lines removed.

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
        stream.close()  # another process has pruned it meanwhile


def _lines(path: str) -> Iterator[Tuple[bytes, Union[Measurement, str]]]:
    """Yields the lines of a file, each with its measurement or why it has none."""
    number, useful = 0, False
    with files.open_regular(path, _MOST_FILE) as stream:
        while content := stream.readline(_MOST_LINE + 1):
            number += 1
            with text.located(f'{path}: line {number}'):
                if len(content) > _MOST_LINE:
                    raise ValueError(f'has more than {_MOST_LINE:,} bytes; remove it')
                if content := content.strip():
                    line = _parse(content)
                    useful |= line != _CUT
                    yield content, line
    if number and not useful:
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
        self.measurements: List[Measurement] = []
        self.defaults: Dict[str, Measurement] = {}

    def add(self, measurement: Measurement) -> None:
        """Adds a measurement, later than all before."""
        self.measurements.append(measurement)
        if measurement.default and measurement.status == OK:
            self.defaults[measurement.group] = measurement

    def log_ratio(self, measurement: Measurement) -> float:
        """Returns the log of a measurement's least time over the default's."""
        default = self.defaults[measurement.group]
        return math.log(measurement.least_ns / default.least_ns)

    def results(self) -> Dict[str, Measurement]:
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

    def timed(self) -> List[Measurement]:
        """Returns the measurements of `results` that have times, the fastest first."""
        times = [m for m in self.results().values() if m.status == OK]
        return sorted(times, key=self.log_ratio)


def by_kernel(measurements: Iterable[Measurement]) -> Dict[Tuple[str, str], History]:
    """Groups measurements by fingerprint and machine, in the order of names."""
    histories: Dict[Tuple[str, str], History] = collections.defaultdict(History)
    for measurement in sorted(measurements, key=lambda m: m.when):
        histories[measurement.fingerprint, measurement.machine_id].add(measurement)
    name_of = lambda item: item[1].measurements[-1].kernel
    return dict(sorted(histories.items(), key=name_of))


def key(configuration: Mapping[str, Sequence[int]]) -> str:
    """Returns a configuration's sizes as text, equal for tuples and for JSON lists."""
    return json.dumps([configuration['output'], configuration['kernel']])


# A line of a stranger ---------------------------------------------------------


def _parse(content: bytes) -> Union[Measurement, str]:
    """Returns the measurement of a line, or why it has none."""
    try:
        fields = untrusted.loads(content)
    except ValueError:
        return _CUT
    version = fields.get('version') if isinstance(fields, dict) else None
    if not untrusted.is_int(version):
        raise ValueError('is not a tuning record; remove it')
    if version != VERSION:
        return _OTHER
    try:
        untrusted.check(fields, _RULES)
        measurement = Measurement(**{name: fields[name] for name in _RULES})
        if bool(measurement.times_ns) != (measurement.status == OK):
            raise ValueError('its times do not fit its status')
    except ValueError as error:
        raise ValueError(f'{error}; remove the line') from None
    return measurement


def _are_sizes(value: Any) -> bool:
    """Tells whether a value has the sizes of an output and a kernel tile."""
    return (
        isinstance(value, dict)
        and value.keys() == {'output', 'kernel'}
        and all(untrusted.are_ints(sizes, 1) for sizes in value.values())
    )


def _is_time(value: Any) -> bool:
    """Tells whether a value is an ISO 8601 time with an offset from UTC."""
    try:
        return datetime.datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _is_machine(value: Any) -> bool:
    """Tells whether a value is the description of a machine, as of `machine`."""
    return _has(value, cpu=str, cores=int, caches=dict, device=str, flags=str) and all(
        isinstance(size, str) for size in value['caches'].values()
    )


def _has(value: Any, **kinds: type) -> bool:
    """Tells whether a value is an object with exactly these keys and types."""
    return (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(type(value[name]) is kind for name, kind in kinds.items())
    )


_DURATION: untrusted.Rule = (
    lambda value: untrusted.is_number(value, 0),
    'a number of seconds',
)
_RULES: Dict[str, untrusted.Rule] = {
    'kernel': (
        untrusted.matches(r'\w[\w.-]{0,199}_[0-9a-f]{16}'),
        'a name and 16 hexadecimal digits',
    ),
    'configuration': (_are_sizes, 'of output and kernel sizes'),
    'default': (untrusted.is_bool, 'true or false'),
    'status': (lambda value: value in STATUSES, f'one of {", ".join(STATUSES)}'),
    'reason': (
        untrusted.matches('(?s).{0,%d}' % MOST_REASON),
        f'{MOST_REASON} letters at most',
    ),
    'times_ns': (lambda value: untrusted.are_ints(value, 1), 'a list of nanoseconds'),
    'compile_s': _DURATION,
    'search_s': _DURATION,
    'group': (untrusted.matches('[0-9a-f]{16}'), '16 hexadecimal digits'),
    'time': (_is_time, 'a time with an offset from UTC'),
    'versions': (
        lambda value: _has(value, jaxlib=str, tpugraphs=str),
        'of jaxlib and tpugraphs',
    ),
    'machine': (_is_machine, 'of cpu, cores, caches, device and flags'),
}
