"""Tuning records: one JSON line for each measurement of a configuration.

Lines are only ever appended, by any number of processes; `prune` writes a file anew.
A line is strict JSON: the version of the format, and the fields of `Measurement`.
"""

import dataclasses
import datetime
import hashlib
import json
import math
import re
from typing import (
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
)

from baselines import files
from baselines import text

# Of the format, and of what a configuration means.
VERSION = 1
OK = 'ok'
STATUSES = (
    OK,
    *('compile error', 'runtime error', 'wrong result', 'timeout', 'over the limit'),
)
MOST_REASON = 400  # letters
_MOST_FILE = 1 << 30  # bytes
_MOST_LINE = 1 << 20
_MOST_NUMBER = 1 << 53
_MACHINE = {'cpu': str, 'cores': int, 'caches': dict, 'device': str, 'flags': str}
_VERSIONS = {'jaxlib': str, 'tpugraphs': str}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What came of one configuration of a kernel, measured once."""

    kernel: str  # fingerprint
    name: str  # graph id
    task: str  # 'tile' or 'layout'
    configuration: Dict[str, Any]  # as a `tiles.Batch` describes it
    default: bool  # whether it is what the others are compared with
    status: str  # of `STATUSES`
    reason: str  # of a status other than 'ok', in words
    # of one execution in each pass, the least of its runs; empty unless 'ok'
    times_ns: List[int]
    again_ns: List[int]  # of the default under its second name; of others empty
    compile_s: float  # seconds of compiling
    search_s: float  # seconds of choosing it
    group: str  # the same for all that was timed in the same passes
    time: str  # when, ISO 8601 with the offset from UTC
    versions: Dict[str, str]  # of jaxlib and of this package
    machine: Dict[str, Any]  # see `machine.identity`

    @property
    def least_ns(self) -> int:
        """The least time over all passes."""
        return min(self.times_ns)

    @property
    def place(self) -> str:
        """The machine and its compiler, in eight hexadecimal digits."""
        return place_of(self.machine, self.versions['jaxlib'])

    @property
    def when(self) -> datetime.datetime:
        """The time of measuring."""
        return datetime.datetime.fromisoformat(self.time)


class Line(NamedTuple):
    """A line of a file of records.

    Attributes:
        content: its bytes, without the end of the line.
        measurement: what it says; None if it cannot be used.
        newer: whether it is of a newer version; if not, and without a measurement,
            a process or a disk left it unfinished.
    """

    content: bytes
    measurement: Optional[Measurement]
    newer: bool = False


def place_of(machine: Dict[str, Any], jaxlib: str) -> str:
    """Returns eight hexadecimal digits that name a machine and its compiler."""
    content = json.dumps([machine, jaxlib], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def now() -> str:
    """Returns the time as records hold it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')


def read(path: str) -> List[Line]:
    """Reads a file of records, which may come from a stranger.

    Raises:
        ValueError: it is too large or holds no records, or a line is none; names it.
        OSError: it cannot be read.
    """
    with files.open_regular(path, _MOST_FILE) as stream:
        lines = list(_lines(stream, path))
    if lines and not any(line.measurement or line.newer for line in lines):
        raise ValueError(
            f'{path}: holds no tuning records; give a file that `tpugraphs tune` or '
            '`tpugraphs collect` wrote'
        )
    return lines


def _lines(stream: BinaryIO, path: str) -> Iterator[Line]:
    number = 0
    while content := stream.readline(_MOST_LINE + 1):
        number += 1
        with text.located(f'{path}: line {number}'):
            if len(content) > _MOST_LINE:
                raise ValueError(f'has more than {_MOST_LINE:,} bytes; remove it')
            if content.strip():
                yield _line(content.rstrip(b'\n'))


def append(path: str, measurements: Iterable[Measurement]) -> None:
    """Appends lines, whole even if other processes append or prune.

    Half a line that another process left stays, on a line of its own.

    Raises:
        OSError: it cannot be written; names `path`.
    """
    lines = [
        json.dumps({'version': VERSION, **dataclasses.asdict(m)}, separators=(',', ':'))
        for m in measurements
    ]
    try:
        with _held(path) as stream:
            if stream.seek(0, 2):
                stream.seek(-1, 2)
                if stream.read(1) != b'\n':
                    lines.insert(0, '')
            stream.write(''.join(f'{line}\n' for line in lines).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def prune(path: str, keeps: Callable[[Measurement], bool]) -> int:
    """Removes the lines that are not kept, and those that were left unfinished.

    Lines of a newer version stay.

    Returns:
        How many were removed.

    Raises:
        ValueError: see `read`.
        OSError: it cannot be read or written.
    """
    with _held(path):
        lines = read(path)
        kept = [
            line.content
            for line in lines
            if line.newer or line.measurement and keeps(line.measurement)
        ]
        if len(kept) < len(lines):
            with files.write_atomically(path, 'wb') as stream:
                stream.writelines(content + b'\n' for content in kept)
    return len(lines) - len(kept)


def _held(path: str) -> BinaryIO:
    """Opens a file to append to, which no other process does until it is closed."""
    while True:
        stream = open(path, 'a+b')
        if files.hold(stream.fileno()):
            return stream
        stream.close()  # another process has pruned it meanwhile


# What a line may say ----------------------------------------------------------


def _line(content: bytes) -> Line:
    """Reads a line.

    Raises:
        ValueError: it is JSON, but no record.
    """
    try:
        fields = json.loads(
            content, object_pairs_hook=_unique, parse_constant=_no_number
        )
    except (ValueError, RecursionError):
        return Line(content, None)
    version = fields.get('version') if isinstance(fields, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError('is not a tuning record; remove it')
    if version > VERSION:
        return Line(content, None, newer=True)
    for name, (holds, kind) in _FIELDS.items():
        if name not in fields or not holds(fields[name]):
            raise ValueError(f'{name} is not {kind}; remove the line')
    measurement = Measurement(**{name: fields[name] for name in _FIELDS})
    counts = len(measurement.times_ns), len(measurement.again_ns)
    if bool(counts[0]) != (measurement.status == OK) or counts[1] not in (0, counts[0]):
        raise ValueError('its times do not fit its status; remove the line')
    if not _configures(measurement.task, measurement.configuration):
        raise ValueError('has no configuration of its task; remove the line')
    return Line(content, measurement)


def _unique(pairs: List[Any]) -> Dict[str, Any]:
    """Raises ValueError for a key that occurs twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError('a key occurs twice')
    return fields


def _no_number(name: str) -> None:
    raise ValueError(f'{name} is no number')


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _are_ints(value: Any, least: int = 1) -> bool:
    return isinstance(value, list) and all(
        type(n) is int and least <= n < _MOST_NUMBER for n in value
    )


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value and math.isfinite(value)


def _is_time(value: Any) -> bool:
    try:
        return datetime.datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _has(kinds: Dict[str, type]) -> Callable[[Any], bool]:
    """Returns whether a value is an object of these keys and types."""

    def holds(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() == kinds.keys()
            and all(type(value[name]) is kind for name, kind in kinds.items())
            and all(isinstance(size, str) for size in value.get('caches', {}).values())
        )

    return holds


def _configures(task: str, configuration: Dict[str, Any]) -> bool:
    """Whether a configuration is made as those of a task are."""
    if task == 'tile':
        sizes = configuration.keys() == {'output', 'kernel', 'input'}
        return sizes and all(map(_are_ints, configuration.values()))
    nodes = configuration.get('nodes')
    return (
        configuration.keys() == {'nodes'}
        and isinstance(nodes, list)
        and all(isinstance(orders, list) for orders in nodes)
        and all(o is None or _are_ints(o, 0) for orders in nodes for o in orders)
    )


# Name -> whether a value can be it, and what it is.
_FIELDS = {
    'kernel': (_matches('[0-9a-f]{32}'), '32 hexadecimal digits'),
    'name': (_matches(r'\w[\w.-]{0,199}'), 'the name of a kernel'),
    'task': (_matches('tile|layout'), 'tile or layout'),
    'configuration': (lambda value: isinstance(value, dict), 'an object'),
    'default': (lambda value: isinstance(value, bool), 'true or false'),
    'status': (lambda value: value in STATUSES, f'one of {", ".join(STATUSES)}'),
    'reason': (_matches('(?s).{0,%d}' % MOST_REASON), f'{MOST_REASON} letters at most'),
    'times_ns': (_are_ints, 'a list of nanoseconds'),
    'again_ns': (_are_ints, 'a list of nanoseconds'),
    'compile_s': (_is_duration, 'a number of seconds'),
    'search_s': (_is_duration, 'a number of seconds'),
    'group': (_matches('[0-9a-f]{16}'), '16 hexadecimal digits'),
    'time': (_is_time, 'a time with an offset from UTC'),
    'versions': (_has(_VERSIONS), f'of {", ".join(_VERSIONS)}'),
    'machine': (_has(_MACHINE), f'of {", ".join(_MACHINE)}'),
}
