"""Selects and tabulates tuning records: kernels, best configurations, machines."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
import datetime
import math
import os
import re

import baselines
from baselines.core import files
from baselines.core import text
from tpugraphs.clock import machine
from tpugraphs.records import machine_records
from tpugraphs.records import records
from tpugraphs.records import t4

_BEST = 10
_WIDTH = 60
_DATE = len('2026-01-02')  # with which a time begins


def paths_of(path: str) -> list[str]:
    """Returns the files of records at a path: the file, or all of a folder.

    Raises:
        ValueError: there are no files of records.
    """
    path = files.expand(path)
    if not os.path.isdir(path):
        if os.path.lexists(path):
            return [path]
        raise ValueError(
            f'{path}: no tuning records; `tpugraphs tune` and `tpugraphs collect` '
            'write them'
        )
    names = sorted(n for n in os.listdir(path) if n.endswith(machine_records.SUFFIX))
    if not names:
        suffix = machine_records.SUFFIX
        raise ValueError(f'{path}: a folder without tuning records (*{suffix})')
    return [os.path.join(path, name) for name in names]


def load(paths: Sequence[str]) -> list[records.Measurement]:
    """Reads the measurements of files; prints the number of unusable lines.

    Raises:
        ValueError: a file does not hold records.
        OSError: it cannot be read.
    """
    measurements = []
    for path in paths:
        new, unused = records.read(path)
        measurements += new
        for why, count in unused.items():
            text.note(f'{path}: {text.count(count, "line")} {why}')
    return measurements


def merge(sources: Sequence[str], path: str) -> list[str]:
    """Adds the measurements of files, ours or T4, to records; returns lines to print.

    Args:
        sources: files of any machine.
        path: the file of records, or the folder with a file for every machine.

    Raises:
        ValueError: a source has no records, or the records cannot be written.
        OSError: a file cannot be read or written.
    """
    read: list[records.Measurement] = []
    for source in sources:
        is_t4 = source.endswith('.json')
        read += t4.read(files.expand(source)) if is_t4 else load(paths_of(source))
    machine_records.check_writable(path)  # makes folders
    by_file = collections.defaultdict(list)
    for measurement in read:
        file = machine_records.file_of(path, measurement.machine)
        by_file[file].append(measurement)
    lines = []
    for file, measurements in by_file.items():
        new = records.merge(file, measurements)
        count = text.count(len(measurements), 'measurement')
        lines.append(f'{file}: {new:,} of {count} new')
    return lines


def of_kernel(
    measurements: Sequence[records.Measurement], name: str
) -> list[records.Measurement]:
    """Returns the measurements of a kernel.

    Args:
        name: the beginning of the kernel's name or fingerprint.

    Raises:
        ValueError: there is no such kernel, or several.
    """
    chosen = [m for m in measurements if m.kernel.startswith(name)]
    chosen = chosen or [m for m in measurements if m.fingerprint.startswith(name)]
    if len({m.fingerprint for m in chosen}) != 1:
        names = sorted({m.kernel for m in chosen or measurements})
        count = 'several kernels' if chosen else 'no kernel'
        raise ValueError(f'{name}: {count} on record; there are {text.listed(names)}')
    return chosen


def keeps(rule: str) -> Callable[[records.Measurement], bool]:
    """Returns a function that tells whether `--prune` keeps a measurement.

    Args:
        rule: 'others' removes measurements of other machines than this one and of
            other versions of jaxlib; a number removes those of that many days ago and
            earlier.

    Raises:
        ValueError: the rule is neither.
    """
    if rule == 'others':
        here = machine.identity('')
        jaxlib = baselines.version('jaxlib')
        return lambda m: (
            # A machine has more than one device.
            {**m.machine, 'device': ''} == here and m.versions['jaxlib'] == jaxlib
        )
    if not re.fullmatch('[0-9]{1,5}', rule):
        raise ValueError(f'--prune is {rule!r}; say a number of days, or others')
    since = datetime.datetime.now(datetime.timezone.utc)
    since -= datetime.timedelta(days=int(rule))
    return lambda m: m.when > since


def kernels_table(content: text.JsonObject) -> list[str]:
    """Lays out `kernels_json`: a table of kernels and one of machines, in lines."""
    rows = [['kernel', 'machine', 'configurations', 'failed', 'best', 'speed-up']]
    for kernel in content['kernels']:
        rows.append(
            [
                kernel['kernel'],
                kernel['machine'],
                f'{kernel["configurations"]:,}',
                f'{kernel["failed"]:,}',
                *_speed(kernel['best_ns'], kernel['speedup']),
            ]
        )
    lines = text.table(rows, '<<>', rules=[1])
    rows = [['machine', 'processor', 'device', 'jaxlib', 'measurements', 'last']]
    for machine_id, about in content['machines'].items():
        processor = f'{about["cpu"]}, {text.count(about["cores"], "core")}'
        rows.append(
            [
                machine_id,
                text.printable(processor),
                text.printable(about['device']),
                text.printable(about['versions']['jaxlib']),
                f'{about["measurements"]:,}',
                about['last'][:_DATE],
            ]
        )
    return [*lines, '', *text.table(rows, '<<<<><', rules=[1])]


def best_table(content: text.JsonObject) -> list[str]:
    """Lays out `best_json`: a table of the best configurations for each machine."""
    lines: list[str] = []
    for kernel in content['kernels']:
        configurations = kernel['configurations']
        counts = collections.Counter(c['status'] for c in configurations)
        results = ', '.join(f'{counts[s]:,} {s}' for s in records.STATUSES if counts[s])
        lines += [f'{kernel["kernel"]} on {kernel["machine"]}: {results}', '']
        rows = [['configuration', 'time', 'speed-up', 'passes', 'measured']]
        timed = [c for c in configurations if c['speedup'] is not None]
        for c in sorted(timed, key=lambda c: -c['speedup'])[:_BEST]:
            parameters = t4.parameters(c['configuration']).items()
            sizes = ' '.join(f'{name}={size}' for name, size in parameters)
            rows.append(
                [
                    'default' if c['default'] else text.shortened(sizes, _WIDTH),
                    *_speed(c['time_ns'], c['speedup']),
                    f'{c["passes"]}',
                    c['measured'][:_DATE],
                ]
            )
        lines += [*text.table(rows, '<>', rules=[1]), '']
    return lines[:-1]


def kernels_json(measurements: Sequence[records.Measurement]) -> text.JsonObject:
    """Returns the object of `tpugraphs records --json`."""
    by_machine: dict[str, list[records.Measurement]] = {}
    for m in sorted(measurements, key=lambda m: m.when):
        by_machine.setdefault(m.machine_id, []).append(m)
    return {
        'kernels': list(map(_kernel_json, records.by_kernel(measurements).values())),
        'machines': {
            machine_id: {
                **group[-1].machine,
                'versions': group[-1].versions,
                'measurements': len(group),
                'last': group[-1].time,
            }
            for machine_id, group in by_machine.items()
        },
    }


def best_json(measurements: Sequence[records.Measurement]) -> text.JsonObject:
    """Returns the object of `tpugraphs records KERNEL --json`."""
    return {
        'kernels': [
            {
                **_kernel_json(kernel),
                'configurations': [
                    _configuration_json(kernel, m) for m in kernel.results().values()
                ],
            }
            for kernel in records.by_kernel(measurements).values()
        ]
    }


def _kernel_json(kernel: records.History) -> text.JsonObject:
    """Describes a kernel on one machine."""
    last, timed = kernel.measurements[-1], kernel.timed()
    count = len(kernel.results())
    return {
        'kernel': last.kernel,
        'machine': last.machine_id,
        'configurations': count,
        'failed': count - len(timed),
        'best_ns': timed[0].least_ns if timed else None,
        'speedup': math.exp(-kernel.log_ratio(timed[0])) if timed else None,
    }


def _configuration_json(
    kernel: records.History, measurement: records.Measurement
) -> text.JsonObject:
    """Describes the valid measurement of a configuration."""
    timed = measurement.status == records.OK
    return {
        'configuration': measurement.configuration,
        'default': measurement.default,
        'status': measurement.status,
        'reason': measurement.reason,
        'time_ns': measurement.least_ns if timed else None,
        'speedup': math.exp(-kernel.log_ratio(measurement)) if timed else None,
        'passes': len(measurement.times_ns),
        'measured': measurement.time,
    }


def _speed(nanoseconds: int | None, speedup: float | None) -> list[str]:
    """Returns the cells of a least time, and of the speed-up over the default."""
    time = '-' if nanoseconds is None else text.duration(nanoseconds)
    return [time, text.cell(speedup, '.2f')]
