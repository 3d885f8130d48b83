"""Writes and reads tuning records in the T4 format of Kernel Tuner and its hub.

A file holds the measured part of a kernel's search space, so that a searcher can be
replayed without the hardware.  In addition to the keys of the schema, version 1.0.0,
times have two that Kernel Tuner writes and the hub's scripts read: `compilation` and
`benchmark`.
"""

from __future__ import annotations

import hashlib
import json
import os

from baselines.core import text
from baselines.core import untrusted
from tpugraphs.records import records

SCHEMA_VERSION = '1.0.0'
_MOST_FILE = 64 << 20  # bytes
_TIME_UNIT = 'milliseconds'
_CORRECT = 'correct'  # the name in T4 of no failure
# Status -> its name in T4, and Kernel Tuner's text instead of a time.
_INVALID = {
    'compile error': ('compile', 'CompilationFailedConfig'),
    'runtime error': ('runtime', 'RuntimeFailedConfig'),
    'wrong result': ('correctness', 'RuntimeFailedConfig'),
    'timeout': ('timeout', 'RuntimeFailedConfig'),
    'over the limit': ('constraints', 'InvalidConfig'),
}
_STATUSES = {
    _CORRECT: records.OK,
    **{name: status for status, (name, _) in _INVALID.items()},
}
_FILE_RULES: dict[str, untrusted.Rule] = {
    'schema_version': (lambda version: version == SCHEMA_VERSION, SCHEMA_VERSION),
    'metadata': untrusted.OBJECT,
    'results': (lambda results: isinstance(results, list) and bool(results), 'a list'),
}
# In another unit all times would be wrong.
_METADATA_RULES: dict[str, untrusted.Rule] = {
    'timeunit': (lambda unit: unit == _TIME_UNIT, _TIME_UNIT)
}


def export(measurements: list[records.Measurement], folder: str) -> list[str]:
    """Writes a file for every kernel and machine; returns paths; raises OSError."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    encode = json.JSONEncoder(allow_nan=False).encode
    for (_, machine_id), kernel in records.by_kernel(measurements).items():
        name = f'{kernel.measurements[-1].kernel}_{machine_id}.json'
        paths.append(os.path.join(folder, name))
        # There may be tens of thousands, and an export can be repeated: none waits
        # until it is on the disk, as `files.write_atomically` does.
        with open(paths[-1], 'w', encoding='utf-8') as stream:
            stream.write(encode(content(kernel)))
    return paths


def read(path: str) -> list[records.Measurement]:
    """Reads a file that `export` wrote, which may be untrusted.

    All configurations count as measured in the same passes.

    Raises:
        ValueError: it is too large, or no such file.
        OSError: it cannot be read.
    """
    data = untrusted.read(path, _MOST_FILE)
    try:
        fields = untrusted.loads(data)
        untrusted.check(fields, _FILE_RULES)
        about = fields['metadata']
        untrusted.check(about, _METADATA_RULES)
        group = hashlib.sha256(data).hexdigest()[:16]
        return [_measurement_of(r, about, group) for r in fields['results']]
    except (*untrusted.DAMAGE, OverflowError):
        raise ValueError(
            f'{path}: not a T4 file of tiles, as `tpugraphs records --export` writes it'
        ) from None


def _measurement_of(
    result: text.JsonObject, about: text.JsonObject, group: str
) -> records.Measurement:
    """Returns the measurement of an entry; raises one of `untrusted.DAMAGE`."""
    configuration = result['configuration']
    sizes: dict[str, list[int]] = {'output': [], 'kernel': []}
    for name in sorted(configuration, key=_place):
        sizes[name.partition('_')[0]].append(configuration[name])
    if parameters(sizes) != configuration:
        raise ValueError('a dimension is missing')
    status = _STATUSES[result['invalidity']]
    times = result['times']
    return records.checked(
        {
            'kernel': about['kernel'],
            'configuration': sizes,
            'default': configuration == about['default'],
            'status': status,
            'reason': '' if status == records.OK else status,
            'times_ns': [round(1e6 * time) for time in times['runtimes']],
            'compile_s': times['compilation_time'] / 1e3,
            'search_s': times['search_algorithm'] / 1e3,
            'group': group,
            'time': result['timestamp'],
            'versions': about['versions'],
            'machine': about['machine'],
            'opcodes': about['opcodes'],
        }
    )


def _place(name: str) -> tuple[str, int]:
    """Returns what parameters such as `output_10` are sorted by."""
    kind, _, dimension = name.partition('_')
    return kind, int(dimension)


def content(kernel: records.History) -> text.JsonObject:
    """Returns the content of a kernel's file, with times in milliseconds."""
    last = kernel.measurements[-1]
    default = next((m for m in reversed(kernel.measurements) if m.default), None)
    return {
        'schema_version': SCHEMA_VERSION,
        'metadata': {
            'timeunit': _TIME_UNIT,
            'kernel': last.kernel,
            'fingerprint': last.fingerprint,
            'machine': last.machine,
            'versions': last.versions,
            'opcodes': last.opcodes,
            'default': default and parameters(default.configuration),
        },
        'results': [_result(m) for m in kernel.results().values()],
    }


def _result(measurement: records.Measurement) -> text.JsonObject:
    """Returns a configuration's entry in T4."""
    runtimes = [nanoseconds / 1e6 for nanoseconds in measurement.times_ns]
    objective: text.JsonObject = {'name': 'time', 'unit': 'ms'}
    if measurement.status == records.OK:
        invalidity, objective['value'] = _CORRECT, min(runtimes)
    else:
        invalidity, objective['value'] = _INVALID[measurement.status]
        objective['unit'] = ''
    compiling = measurement.compile_s * 1e3
    return {
        'timestamp': measurement.time,
        'configuration': parameters(measurement.configuration),
        'objectives': ['time'],
        'times': {
            'compilation_time': compiling,
            'compilation': compiling,
            'benchmark': sum(runtimes),
            'framework': 0.0,
            'search_algorithm': measurement.search_s * 1e3,
            'validation': 0.0,
            'runtimes': runtimes,
        },
        'invalidity': invalidity,
        'correctness': float(measurement.status != 'wrong result'),
        'measurements': [objective],
    }


def parameters(configuration: records.Configuration) -> dict[str, int]:
    """Returns a configuration as parameters `output_0`, ..., `kernel_0`, ..."""
    return {
        f'{name}_{dimension}': size
        for name in ('output', 'kernel')
        for dimension, size in enumerate(configuration[name])
    }
