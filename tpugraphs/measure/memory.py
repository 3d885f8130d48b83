"""What was measured of a kernel before, on this machine and with its compiler."""

import collections
import dataclasses
import json
import os
import re
import secrets
import sys
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from baselines import files
from tpugraphs.measure import fingerprints
from tpugraphs.measure import history
from tpugraphs.measure import machine
from tpugraphs.measure import records
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import timing
from tpugraphs.programs import extras

FOLDER = '~/.cache/tpugraphs/records'
SUFFIX = '.jsonl'
# What a configuration was dropped for begins with the text.
_STATUSES = {
    timing.DIED: 'runtime error',
    timing.REFUSED: 'compile error',
    timing.FAILED: 'runtime error',
    timing.WRONG: 'wrong result',
    timing.TOO_SLOW: 'over the limit',
    timing.TOO_LONG: 'timeout',
}


@dataclasses.dataclass(frozen=True)
class Timed:
    """Times of a kernel's configurations, by their numbers."""

    # nanoseconds of each pass
    times: Dict[int, List[int]] = dataclasses.field(default_factory=dict)
    # of the default under its second name
    again: List[int] = dataclasses.field(default_factory=list)
    # why a configuration was not timed
    dropped: Dict[int, str] = dataclasses.field(default_factory=dict)
    recorded: int = 0  # how many of the times were on record

    @classmethod
    def of(cls, measured: session_lib.Measured) -> 'Timed':
        """Returns what was measured together."""
        columns = zip(measured.kept, measured.passes.T.tolist())
        return cls(dict(columns), measured.again.tolist(), measured.dropped)

    @property
    def halves(self) -> np.ndarray:
        """Least times of every other pass, and of the others: int64 [2, timed]."""
        rows = [self.times[number] for number in sorted(self.times)]
        least = [[min(row[half::2]) for row in rows] for half in (0, 1)]
        return np.array(least, np.int64)

    @property
    def tau(self) -> float:
        """Kendall's tau between the halves."""
        return timing.kendall_tau(*self.halves)


class Memory:
    """Records of this machine, and where more of them go.

    Args:
        path: a file, or a folder with a file for each machine; '' for no records.
        device: XLA's name of what is measured on.
        fresh: whether what is on record is not used.

    Raises:
        ValueError: the file is none of records; see `records.read`.
        OSError: it cannot be read or written.
    """

    def __init__(self, path: str = '', device: str = '', fresh: bool = False):
        # Of a kernel: lines that nobody has asked for yet.
        self._lines: Dict[str, List[records.Line]] = collections.defaultdict(list)
        self._histories: Dict[Tuple[str, str], history.History] = (
            collections.defaultdict(history.History)
        )
        self._path = path
        if path:
            self._machine = machine.identity(device)
            names = ('jaxlib', 'tpugraphs')
            self._versions = {name: extras.version(name) for name in names}
            self._path = _file_of(path, self._machine)
            open(self._path, 'ab').close()
            if not fresh:
                self._read()

    def _read(self) -> None:
        """Takes what is of this machine, and says what is not used."""
        lines = records.read(self._path)
        unused = records.unused(lines)
        place = records.place_of(self._machine, self._versions['jaxlib'])
        others = 0
        for line in lines:
            if line.place == place:
                self._lines[line.kernel].append(line)
            elif line.kernel:
                others += 1
        if others:
            unused['of another machine or jaxlib'] = others
        if unused:
            parts = ', '.join(f'{count:,} {why}' for why, count in unused.items())
            print(f'note: {self._path}: not used: {parts}', file=sys.stderr)

    def _of(self, item: Any) -> history.History:
        """Returns what is on record of a kernel or program."""
        if not self._path:
            return history.History()
        kernel = fingerprints.fingerprint(item.module)
        for line in self._lines.pop(kernel, ()):
            self._remember(line.measurement)
        return self._histories[item.task, kernel]

    def _remember(self, measurement: records.Measurement) -> None:
        self._histories[measurement.task, measurement.kernel].add(measurement)

    def configurations(self, item: Any) -> List[Dict[str, Any]]:
        """Returns the configurations of a kernel that are on record with times."""
        results = self._of(item).results().values()
        return [m.configuration for m in results if m.status == records.OK]

    def ratios(
        self, item: Any, described: Sequence[Dict[str, Any]]
    ) -> Tuple[Dict[int, float], Dict[int, str]]:
        """Returns what is on record of configurations beside the default.

        Args:
            item: the kernel or program.
            described: its configurations, the default first.

        Returns:
            Number -> log of the least time over that of the default in the same
            passes; number -> why a configuration cannot be timed.
        """
        kernel = self._of(item)
        found = _numbered(kernel.results(), described)
        found.pop(0, None)
        ratios = {n: kernel.log_ratio(m) for n, m in found.items() if m.times_ns}
        return ratios, {n: m.reason for n, m in found.items() if not m.times_ns}

    def times(
        self, item: Any, described: Sequence[Dict[str, Any]], passes: Tuple[int, int]
    ) -> Timed:
        """Returns the times of configurations that are on record.

        There are none without times of the default.

        Args:
            item: the kernel or program.
            described: its configurations, the default first.
            passes: the least and most passes of what is used.
        """
        kernel = self._of(item)
        results = _numbered(kernel.results(), described)
        dropped = {n: m.reason for n, m in results.items() if not m.times_ns}
        latest = _numbered(kernel.latest(*passes), described)
        if 0 not in latest:
            return Timed(dropped=dropped)
        times = {number: m.times_ns for number, m in latest.items()}
        return Timed(times, latest[0].again_ns, dropped, len(times))

    def add(
        self,
        item: Any,
        described: Sequence[Dict[str, Any]],
        measured: session_lib.Measured,
        search_s: float = 0.0,
    ) -> None:
        """Puts on record what came of configurations that were timed together.

        Args:
            item: the kernel or program.
            described: the configurations as they were numbered, the default first.
            measured: what came of them.
            search_s: seconds that choosing them took.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._path:
            return
        timed = Timed.of(measured)
        results = [(n, records.OK, '', t) for n, t in timed.times.items() if t]
        for number, why in measured.dropped.items():
            starts = (start for start in _STATUSES if why.startswith(start))
            status = _STATUSES.get(next(starts, ''))
            if status:  # not what compiles to the same program as another
                results.append((number, status, why[: records.MOST_REASON], []))
        group, time = secrets.token_hex(8), records.now()
        kernel = fingerprints.fingerprint(item.module)
        made = [
            records.Measurement(
                kernel=kernel,
                name=item.name,
                task=item.task,
                configuration=json.loads(json.dumps(described[number])),
                default=number == 0,
                status=status,
                reason=reason,
                times_ns=times,
                again_ns=timed.again if times and not number else [],
                compile_s=round(measured.compiling.get(number, 0.0), 4),
                search_s=round(search_s / len(described), 6),
                group=group,
                time=time,
                versions=self._versions,
                machine=self._machine,
            )
            for number, status, reason, times in results
        ]
        self._of(item)  # what was there before is older
        records.append(self._path, made)
        for measurement in made:
            self._remember(measurement)


def _numbered(
    measurements: Dict[str, records.Measurement], described: Sequence[Dict[str, Any]]
) -> Dict[int, records.Measurement]:
    """Returns measurements by the numbers of their configurations."""
    keys = map(history.key, described)
    return {n: measurements[k] for n, k in enumerate(keys) if k in measurements}


def _file_of(path: str, about: Dict[str, Any]) -> str:
    """Returns the file of a machine; makes missing folders."""
    path = files.expand(path)
    default = path == files.expand(FOLDER)
    os.makedirs(path if default else os.path.dirname(path), exist_ok=True)
    if not os.path.isdir(path):
        return path
    name = re.sub(r'\W+', '_', about['cpu']).strip('_')[:40]
    place = records.place_of(about, '')
    return os.path.join(path, f'{name}_{place}{SUFFIX}')
