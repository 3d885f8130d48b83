"""Tuning records: one JSON line for each measurement of a configuration.

Lines are only ever appended, by any number of processes; `prune` writes a file anew.
A line is strict JSON: the version of the format, and the fields of `Measurement`.
"""

import collections
import dataclasses
import datetime
import functools
import hashlib
import json
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
from tpugraphs.measure import untrusted

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
# How a line begins and ends that `append` wrote.
_START = re.compile(
    rb'\{"version":%d,"place":"([0-9a-f]{8})","kernel":"([0-9a-f]{32})",' % VERSION
)
_END = b'}}'
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

    @functools.cached_property
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
        where: its file and number.
        content: its bytes, without the end of the line.
        place: the machine and its compiler; '' if it is no whole record.
        kernel: the fingerprint; '' if it is no whole record.
        newer: whether it is of a newer version.
    """

    where: str
    content: bytes
    place: str = ''
    kernel: str = ''
    newer: bool = False

    @property
    def measurement(self) -> Optional[Measurement]:
        """What it says; None if it is no whole record.

        Raises:
            ValueError: it was edited.
        """
        if not self.kernel:
            return None
        with text.located(self.where):
            return _measurement(untrusted.loads(self.content))


def place_of(machine: Dict[str, Any], jaxlib: str) -> str:
    """Returns eight hexadecimal digits that name a machine and its compiler."""
    content = json.dumps([machine, jaxlib], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def now() -> str:
    """Returns the time as records hold it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')


def read(path: str) -> List[Line]:
    """Reads a file of records, which may come from a stranger.

    Lines as `append` writes them are looked into only for what `Line` says of them.

    Raises:
        ValueError: it is too large or holds no records, or a line is none; names it.
        OSError: it cannot be read.
    """
    with files.open_regular(path, _MOST_FILE) as stream:
        lines = list(_lines(stream, path))
    if lines and not any(line.kernel or line.newer for line in lines):
        raise ValueError(
            f'{path}: holds no tuning records; give a file that `tpugraphs tune` or '
            '`tpugraphs collect` wrote'
        )
    return lines


def unused(lines: Iterable[Line]) -> Dict[str, int]:
    """Counts the lines that are no whole records of this version, by what they are."""
    counts = collections.Counter(
        'of a newer version' if line.newer else 'cut short'
        for line in lines
        if not line.kernel
    )
    return dict(counts)


def _lines(stream: BinaryIO, path: str) -> Iterator[Line]:
    number = 0
    while content := stream.readline(_MOST_LINE + 1):
        number += 1
        where = f'{path}: line {number}'
        with text.located(where):
            if len(content) > _MOST_LINE:
                raise ValueError(f'has more than {_MOST_LINE:,} bytes; remove it')
            if content.strip():
                yield _line(where, content.rstrip(b'\n'))


def append(path: str, measurements: Iterable[Measurement]) -> None:
    """Appends lines, whole even if other processes append or prune.

    Half a line that another process left stays, on a line of its own.

    Raises:
        OSError: it cannot be written; names `path`.
    """
    lines = [_written(m) for m in measurements]
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
            if line.newer or line.kernel and keeps(line.measurement)
        ]
        if len(kept) < len(lines):
            with files.write_atomically(path, 'wb') as stream:
                stream.writelines(content + b'\n' for content in kept)
    return len(lines) - len(kept)


def _written(measurement: Measurement) -> str:
    """Returns a measurement as a line; `_START` and `_END` are how it looks."""
    about = {'version': VERSION, 'place': measurement.place}
    content = {**about, **dataclasses.asdict(measurement)}
    return json.dumps(content, separators=(',', ':'))


def _held(path: str) -> BinaryIO:
    """Opens a file to append to, which no other process does until it is closed."""
    while True:
        stream = open(path, 'a+b')
        if files.hold(stream.fileno()):
            return stream
        stream.close()  # another process has pruned it meanwhile


# What a line may say ----------------------------------------------------------


def _line(where: str, content: bytes) -> Line:
    """Reads a line as far as is needed to tell what it is.

    Raises:
        ValueError: it is JSON, but no record.
    """
    start = _START.match(content)
    if start and content.endswith(_END):
        place, kernel = (group.decode() for group in start.groups())
        return Line(where, content, place, kernel)
    try:
        fields = untrusted.loads(content)
    except ValueError:
        return Line(where, content)
    version = fields.get('version') if isinstance(fields, dict) else None
    if untrusted.is_int(version, VERSION + 1):
        return Line(where, content, newer=True)
    measurement = _measurement(fields)
    return Line(where, content, measurement.place, measurement.kernel)


def _measurement(fields: Any) -> Measurement:
    """Returns what a line says.

    Raises:
        ValueError: it is no record.
    """
    if not isinstance(fields, dict) or fields.get('version') != VERSION:
        raise ValueError('is not a tuning record; remove it')
    try:
        untrusted.check(fields, _RULES)
        measurement = Measurement(**{name: fields[name] for name in _RULES})
        _check(measurement)
        if fields.get('place') != measurement.place:
            raise ValueError('place is not that of its machine')
    except ValueError as error:
        raise ValueError(f'{error}; remove the line') from None
    return measurement


def _check(measurement: Measurement) -> None:
    """Raises ValueError for fields that do not fit each other."""
    passes = len(measurement.times_ns)
    again = len(measurement.again_ns)
    if bool(passes) != (measurement.status == OK) or again not in (0, passes):
        raise ValueError('its times do not fit its status')
    if not _configures(measurement.task, measurement.configuration):
        raise ValueError('has no configuration of its task')


def _configures(task: str, configuration: Dict[str, Any]) -> bool:
    """Whether a configuration is made as those of a task are."""
    if task == 'tile':
        sizes = configuration.keys() == {'output', 'kernel', 'input'}
        return sizes and all(map(_are_positive, configuration.values()))
    nodes = configuration.get('nodes')
    return (
        configuration.keys() == {'nodes'}
        and isinstance(nodes, list)
        and all(isinstance(orders, list) for orders in nodes)
        and all(o is None or untrusted.are_ints(o) for orders in nodes for o in orders)
    )


def _are_positive(value: Any) -> bool:
    return untrusted.are_ints(value, 1)


def _is_duration(value: Any) -> bool:
    return untrusted.is_number(value, 0)


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


_RULES: Dict[str, untrusted.Rule] = {
    'kernel': (untrusted.matches('[0-9a-f]{32}'), '32 hexadecimal digits'),
    'name': untrusted.NAME,
    'task': (untrusted.matches('tile|layout'), 'tile or layout'),
    'configuration': (lambda value: isinstance(value, dict), 'an object'),
    'default': (untrusted.is_bool, 'true or false'),
    'status': (lambda value: value in STATUSES, f'one of {", ".join(STATUSES)}'),
    'reason': (
        untrusted.matches('(?s).{0,%d}' % MOST_REASON),
        f'{MOST_REASON} letters at most',
    ),
    'times_ns': (_are_positive, 'a list of nanoseconds'),
    'again_ns': (_are_positive, 'a list of nanoseconds'),
    'compile_s': (_is_duration, 'a number of seconds'),
    'search_s': (_is_duration, 'a number of seconds'),
    'group': (untrusted.matches('[0-9a-f]{16}'), '16 hexadecimal digits'),
    'time': (_is_time, 'a time with an offset from UTC'),
    'versions': (_has(_VERSIONS), f'of {", ".join(_VERSIONS)}'),
    'machine': (_has(_MACHINE), f'of {", ".join(_MACHINE)}'),
}
