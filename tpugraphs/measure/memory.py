"""The tuning records of this machine: `collect` and `tune` write them, `tune` reads."""

import os
import re
import secrets
import sys
from typing import Any, Dict, List, Sequence, Tuple

from baselines import files
from tpugraphs.measure import history
from tpugraphs.measure import machine
from tpugraphs.measure import records
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import timing
from tpugraphs.programs import extras

FOLDER = '~/.cache/tpugraphs/records'
SUFFIX = '.jsonl'
# How the reason begins for which a configuration was dropped, and its status.
_STATUSES = {
    timing.DIED: 'runtime error',
    timing.REFUSED: 'compile error',
    timing.FAILED: 'runtime error',
    timing.WRONG: 'wrong result',
    timing.TOO_SLOW: 'over the limit',
    timing.TOO_LONG: 'timeout',
}


class Memory:
    """Records of this machine, and where more of them go.

    Args:
        path: a file, or a folder with a file for each machine; '' for no records.
        device: XLA's name of what is measured on.
        fresh: whether the records there are left unused.

    Raises:
        ValueError: the file is none of records; see `records.read`.
        OSError: it cannot be read or written.
    """

    def __init__(self, path: str = '', device: str = '', fresh: bool = False):
        self._histories: Dict[Tuple[str, str], history.History] = {}
        self._path = path
        if path:
            self._machine = machine.identity(device)
            names = ('jaxlib', 'tpugraphs')
            self._versions = {name: extras.version(name) for name in names}
            self._place = records.place_of(self._machine, self._versions['jaxlib'])
            self._path = _file_of(path, self._machine)
            open(self._path, 'ab').close()
            if not fresh:
                self._read()

    def _read(self) -> None:
        """Keeps the records of this machine; prints how many others there are."""
        measurements, unused = records.read(self._path)
        own = [m for m in measurements if m.place == self._place]
        self._histories = history.by_kernel(own)
        if len(own) < len(measurements):
            unused['of another machine or jaxlib'] = len(measurements) - len(own)
        if unused:
            parts = ', '.join(f'{count:,} {why}' for why, count in unused.items())
            print(f'note: {self._path}: not used: {parts}', file=sys.stderr)

    def _of(self, kernel: str) -> history.History:
        """Returns the records of a kernel; new ones may be added."""
        if not self._path:
            return history.History()
        place = kernel.rpartition('_')[2], self._place
        return self._histories.setdefault(place, history.History())

    def configurations(self, kernel: str) -> List[Dict[str, Any]]:
        """Returns the configurations of a kernel that are on record with times."""
        results = self._of(kernel).results().values()
        return [m.configuration for m in results if m.status == records.OK]

    def ratios(
        self, kernel: str, described: Sequence[Dict[str, Any]]
    ) -> Tuple[Dict[int, float], Dict[int, str]]:
        """Returns the recorded times of configurations, relative to the default's.

        Args:
            kernel: its graph id.
            described: its configurations, the default first.

        Returns:
            Number -> log of the least time over that of the default in the same
            passes; number -> why a configuration cannot be timed.
        """
        kept = self._of(kernel)
        results = _numbered(kept.results(), described)
        results.pop(0, None)
        ratios = {n: kept.log_ratio(m) for n, m in results.items() if m.times_ns}
        return ratios, {n: m.reason for n, m in results.items() if not m.times_ns}

    def add(
        self,
        kernel: str,
        described: Sequence[Dict[str, Any]],
        measured: session_lib.Measured,
        search_s: float = 0.0,
    ) -> None:
        """Puts configurations on record that were timed together.

        Args:
            kernel: its graph id.
            described: the configurations as they were numbered, the default first.
            measured: their times, and why others have none.
            search_s: seconds that choosing them took.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._path:
            return
        columns = zip(measured.kept, measured.passes.T.tolist())
        results = [(n, records.OK, '', times) for n, times in columns if times]
        for number, why in measured.dropped.items():
            for start, status in _STATUSES.items():
                if why.startswith(start):
                    results.append((number, status, why[: records.MOST_REASON], []))
                    break
            # Else it compiles to the same program as another, which is no failure.
        shared: Dict[str, Any] = dict(
            kernel=kernel,
            search_s=round(search_s / len(described), 6),
            group=secrets.token_hex(8),
            time=records.now(),
            versions=self._versions,
            machine=self._machine,
        )
        made = [
            records.Measurement(
                configuration={
                    name: list(described[number][name]) for name in ('output', 'kernel')
                },
                default=number == 0,
                status=status,
                reason=reason,
                times_ns=times,
                compile_s=round(measured.compiling.get(number, 0.0), 4),
                **shared,
            )
            for number, status, reason, times in results
        ]
        records.append(self._path, made)
        kept = self._of(kernel)
        for measurement in made:
            kept.add(measurement)


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
