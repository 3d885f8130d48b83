"""Keeps the tuning records of this machine, which `collect` and `tune` write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import math
import os
import re
import secrets
from typing import Any

import baselines
from baselines.core import files
from baselines.core import text
from tpugraphs.clock import machine
from tpugraphs.clock import timing
from tpugraphs.records import arguments
from tpugraphs.records import records

SUFFIX = '.jsonl'
_STARTS = 3
# Beginning of the reason for dropping a configuration -> its status on record.
_STATUSES = {
    timing.DIED: 'runtime error',
    timing.REFUSED: 'compile error',
    timing.FAILED: 'runtime error',
    timing.WRONG: 'wrong result',
    timing.TOO_SLOW: 'over the limit',
    timing.TOO_LONG: 'timeout',
}


def check_writable(path: str) -> None:
    """Makes sure that records can be added to a file or folder, if one is named.

    Raises:
        ValueError: its folder cannot be written, or it is no file; says why.
        OSError: it cannot be opened.
    """
    path = files.expand(path) if path else ''
    if os.path.isdir(path) or path == files.expand(arguments.FOLDER):
        files.check_writable(path, 'records')
    elif path:
        files.check_file_writable(path, 'records')
        if os.path.exists(path):
            if not os.path.isfile(path):
                raise ValueError(f'--records {path} is a device or a pipe: name a file')
            open(path, 'ab').close()


class MachineRecords:
    """The tuning records of this machine, and the file that new records go to.

    Args:
        path: a file, or a folder with a file for every machine; '' for no records.
        fresh: whether existing records are left unused.

    Raises:
        ValueError: the file does not hold records; see `records.read`.
        OSError: it cannot be read or written.
    """

    def __init__(self, path: str = '', device: str = '', fresh: bool = False):
        self._histories: dict[tuple[str, str], records.History] = {}
        # of other machines and compilers, too
        self._all: dict[tuple[str, str], records.History] = {}
        self._path = path
        if path:
            self._machine = machine.identity(device)
            names = ('jaxlib', 'tpugraphs')
            self._versions = {name: baselines.version(name) for name in names}
            self._machine_id = records.machine_id_of(
                self._machine, self._versions['jaxlib']
            )
            self._path = file_of(path, self._machine)
            open(self._path, 'ab').close()
            if not fresh:
                self._read()

    def _read(self) -> None:
        """Reads the records of this machine; prints how many other lines there are."""
        measurements, unused = records.read(self._path)
        own = [m for m in measurements if m.machine_id == self._machine_id]
        # Times of another machine or compiler are no measurements of this one, but its
        # best configurations are good ones to begin with.
        self._histories = records.by_kernel(own)
        self._all = records.by_kernel(measurements)
        if len(own) < len(measurements):
            unused['of another machine or jaxlib'] = len(measurements) - len(own)
        if unused:
            parts = ', '.join(f'{count:,} {why}' for why, count in unused.items())
            text.note(f'{self._path}: not used: {parts}')

    def _history(self, kernel: str) -> records.History:
        """Returns the history of a kernel on this machine, to which callers may add."""
        if not self._path:
            return records.History()
        key = kernel.rpartition('_')[2], self._machine_id
        return self._histories.setdefault(key, records.History())

    def configurations(self, kernel: str) -> list[records.Configuration]:
        """Returns the recorded configurations of a kernel that have times."""
        results = self._history(kernel).results().values()
        return [m.configuration for m in results if m.status == records.OK]

    def starts(
        self, opcodes: Sequence[str], default: records.Configuration
    ) -> list[records.Configuration]:
        """Returns configurations to begin with, for a kernel without records.

        They are the best ones of the most similar recorded kernels: of equal opcodes
        and ranks, with the nearest sizes. Only the file that is written to is
        searched; it may have records of other machines.

        Args:
            default: its untiled configuration.
        """
        similar: list[tuple[float, records.Configuration]] = []
        for history in self._all.values():
            timed = history.timed()
            wholes = [m.configuration for m in timed if m.default]
            # A kernel whose default is the fastest has nothing to begin with.
            if not wholes or timed[0].default or timed[0].opcodes != list(opcodes):
                continue
            distance = _distance(wholes[0], default)
            if distance < math.inf:
                fitted = _fitted(timed[0].configuration, wholes[0], default)
                similar.append((distance, fitted))
        nearest = sorted(similar, key=lambda pair: pair[0])[:_STARTS]
        return [configuration for _, configuration in nearest]

    def ratios(
        self, kernel: str, configs: Sequence[records.Configuration]
    ) -> tuple[dict[int, float], dict[int, str]]:
        """Returns the recorded times of configurations, relative to the default's.

        Args:
            configs: its configurations, the default first.

        Returns:
            Index of a configuration -> log of its least time over the default's in
            the same passes; index -> why a configuration cannot be timed.
        """
        measured = self._history(kernel)
        results = measured.results()
        ratios, failures = {}, {}
        for number, configuration in enumerate(configs[1:], 1):
            measurement = results.get(records.key(configuration))
            if measurement and measurement.times_ns:
                ratios[number] = measured.log_ratio(measurement)
            elif measurement:
                failures[number] = measurement.reason
        return ratios, failures

    def add(
        self,
        kernel: str,
        configs: Sequence[records.Configuration],
        measured: timing.Measured,
        opcodes: Sequence[str] = (),
        search_s: float = 0.0,
    ) -> None:
        """Records configurations that were timed together; raises OSError.

        Args:
            configs: the configurations by their numbers, the default first.
            measured: their times, and the reasons of those without.
            opcodes: of the kernel, see `Measurement`.
            search_s: seconds that choosing them took.
        """
        if not self._path:
            return
        # Number of a configuration, and its time in each pass.
        columns = zip(measured.kept, measured.passes.T.tolist())
        results = [
            (n, records.OK, '', times[:1] if n in measured.once else times)
            for n, times in columns
            if times
        ]
        for number, why in measured.dropped.items():
            for start, status in _STATUSES.items():
                if why.startswith(start):
                    results.append((number, status, why[: records.MOST_REASON], []))
                    break
            # Other reasons, such as an equal program, are no failures.
        shared: dict[str, Any] = dict(
            kernel=kernel,
            search_s=round(search_s / len(configs), 6),
            # Measurements of one group were timed in the same passes.
            group=secrets.token_hex(8),
            time=records.now(),
            versions=self._versions,
            machine=self._machine,
            opcodes=list(opcodes),
        )
        new = [
            records.Measurement(
                configuration={
                    name: list(configs[number][name]) for name in ('output', 'kernel')
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
        records.append(self._path, new)
        kernel_history = self._history(kernel)
        for measurement in new:
            kernel_history.add(measurement)


def _distance(first: records.Configuration, second: records.Configuration) -> float:
    """Returns the sum over dimensions of |log2 of the sizes' ratio|.

    It is infinite for different ranks.
    """
    pairs: list[tuple[int, int]] = []
    for name in ('output', 'kernel'):
        if len(first[name]) != len(second[name]):
            return math.inf
        pairs += zip(first[name], second[name])
    return sum(abs(math.log2(a / b)) for a, b in pairs)


def _fitted(
    configuration: records.Configuration,
    whole: records.Configuration,
    default: records.Configuration,
) -> records.Configuration:
    """Returns a kernel's configuration for the sizes of another kernel.

    What was the whole dimension is the whole one again; tiles of the output are no
    larger than it, and those of reduced dimensions divide it.

    Args:
        configuration: of a recorded kernel.
        whole: the untiled configuration of that kernel.
        default: the untiled configuration of the other one.
    """
    limits: dict[str, Callable[[int, int], int]] = {'output': min, 'kernel': math.gcd}
    return {
        name: [
            size if tile == before else limit(tile, size)
            for tile, before, size in zip(
                configuration[name], whole[name], default[name]
            )
        ]
        for name, limit in limits.items()
    }


def file_of(path: str, about: text.JsonObject) -> str:
    """Returns the file of a machine's records; makes missing folders."""
    path = files.expand(path)
    default = path == files.expand(arguments.FOLDER)
    os.makedirs(path if default else os.path.dirname(path), exist_ok=True)
    if not os.path.isdir(path):
        return path
    name = re.sub(r'\W+', '_', about['cpu']).strip('_')[:40]
    machine_id = records.machine_id_of(about, '')
    return os.path.join(path, f'{name}_{machine_id}{SUFFIX}')
