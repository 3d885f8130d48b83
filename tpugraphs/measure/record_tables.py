"""Tuning records as tables: kernels, the best configurations of one, machines."""

import collections
import datetime
import math
import os
import re
import sys
from typing import Callable, Dict, List, Sequence

from baselines import files
from baselines import text
from tpugraphs.measure import history
from tpugraphs.measure import machine
from tpugraphs.measure import memory
from tpugraphs.measure import records
from tpugraphs.measure import t4
from tpugraphs.programs import extras

_BEST = 10
_WIDTH = 60


def paths_of(path: str) -> List[str]:
    """Returns the files of records that a path names: one, or those of a folder.

    Raises:
        ValueError: there are none.
    """
    path = files.expand(path)
    if not os.path.isdir(path):
        if os.path.lexists(path):
            return [path]
        raise ValueError(
            f'{path}: no tuning records; `tpugraphs tune` and `tpugraphs collect` '
            'write them'
        )
    names = sorted(n for n in os.listdir(path) if n.endswith(memory.SUFFIX))
    if not names:
        raise ValueError(f'{path}: a folder without tuning records (*{memory.SUFFIX})')
    return [os.path.join(path, name) for name in names]


def load(paths: Sequence[str]) -> List[records.Measurement]:
    """Returns all measurements of files; says which lines cannot be used.

    Raises:
        ValueError: a file is none of records.
        OSError: it cannot be read.
    """
    measurements = []
    for path in paths:
        lines = records.read(path)
        measurements += [line.measurement for line in lines if line.kernel]
        for why, count in records.unused(lines).items():
            print(f'note: {path}: {text.count(count, "line")} {why}', file=sys.stderr)
    return measurements


def kernels(measurements: Sequence[records.Measurement]) -> List[str]:
    """Returns a table of kernels, and one of machines."""
    rows = [
        ['kernel', 'task', 'machine', 'configurations', 'failed', 'best', 'speed-up']
    ]
    for kernel in history.by_kernel(measurements).values():
        last, timed, failed = _parts(kernel)
        best = timed[0] if timed else None
        rows.append(
            [
                last.name,
                last.task,
                last.place,
                f'{len(timed) + len(failed):,}',
                f'{len(failed):,}',
                text.duration(best.least_ns) if best else '-',
                f'{math.exp(-kernel.log_ratio(best)):.2f}' if best else '-',
            ]
        )
    lines = text.table(rows, '<<<>', rules=[1])
    return [*lines, '', *_machines(measurements)]


def _parts(kernel: history.History):
    """Returns the last measurement, those timed, the best first, and the failures."""
    results = list(kernel.results().values())
    timed = sorted((m for m in results if m.times_ns), key=kernel.log_ratio)
    failed = [m for m in results if not m.times_ns]
    return kernel.measurements[-1], timed, failed


def _machines(measurements: Sequence[records.Measurement]) -> List[str]:
    places: Dict[str, List[records.Measurement]] = collections.defaultdict(list)
    for measurement in measurements:
        places[measurement.place].append(measurement)
    rows = [['machine', 'processor', 'device', 'jaxlib', 'measurements', 'last']]
    for place, there in places.items():
        last = max(there, key=lambda m: m.when)
        about = last.machine
        rows.append(
            [
                place,
                text.printable(f'{about["cpu"]}, {text.count(about["cores"], "core")}'),
                text.printable(about['device']),
                text.printable(last.versions['jaxlib']),
                f'{len(there):,}',
                _day(last),
            ]
        )
    return text.table(rows, '<<<<><', rules=[1])


def _day(measurement: records.Measurement) -> str:
    return measurement.when.date().isoformat()


def of_kernel(
    measurements: Sequence[records.Measurement], name: str
) -> List[records.Measurement]:
    """Returns the measurements of a kernel.

    Args:
        measurements: of any kernels.
        name: what the kernel's name, or its fingerprint, begins with.

    Raises:
        ValueError: there is no such kernel, or several.
    """
    chosen = [m for m in measurements if name in (m.name, m.kernel)] or [
        m for m in measurements if m.name.startswith(name) or m.kernel.startswith(name)
    ]
    if len({m.kernel for m in chosen}) != 1:
        there = sorted({m.name for m in chosen or measurements})
        many = 'several kernels' if chosen else 'no kernel'
        raise ValueError(f'{name}: {many} on record; there are {text.listed(there)}')
    return chosen


def best(measurements: Sequence[records.Measurement]) -> List[str]:
    """Returns a table of the best configurations of a kernel, on each machine."""
    lines: List[str] = []
    for kernel in history.by_kernel(measurements).values():
        last, timed, failed = _parts(kernel)
        counts = collections.Counter(m.status for m in [*timed, *failed])
        said = ', '.join(f'{count:,} {status}' for status, count in counts.items())
        lines += [f'{last.name} on {last.place}, fingerprint {last.kernel}: {said}', '']
        rows = [['configuration', 'speed-up', 'time', 'passes', 'measured']]
        rows += [
            [
                _described(m),
                f'{math.exp(-kernel.log_ratio(m)):.2f}',
                text.duration(m.least_ns),
                f'{len(m.times_ns)}',
                _day(m),
            ]
            for m in timed[:_BEST]
        ]
        lines += [*text.table(rows, '<>', rules=[1]), '']
    return lines[:-1]


def _described(measurement: records.Measurement) -> str:
    """Returns a configuration in few letters."""
    if measurement.default:
        return 'default'
    parameters = t4.parameters(measurement.configuration).items()
    said = ' '.join(f'{name}={value}' for name, value in parameters if value != '')
    return text.shortened(said, _WIDTH)


def keeps(rule: str) -> Callable[[records.Measurement], bool]:
    """Returns which measurements stay.

    Args:
        rule: 'others' removes those of other machines than this one and of other
            versions of jaxlib; a number removes those that are as many days old.

    Raises:
        ValueError: it is no such rule.
    """
    if rule == 'others':
        here = machine.identity('')
        jaxlib = extras.version('jaxlib')
        return lambda m: (
            # A machine has more than one device.
            {**m.machine, 'device': ''} == here and m.versions['jaxlib'] == jaxlib
        )
    if not re.fullmatch('[0-9]{1,5}', rule):
        raise ValueError(f'--prune is {rule!r}; say a number of days, or others')
    since = datetime.datetime.now(datetime.timezone.utc)
    since -= datetime.timedelta(days=int(rule))
    return lambda m: m.when > since
