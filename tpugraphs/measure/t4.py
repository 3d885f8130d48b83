"""Exports tuning records in the T4 format of Kernel Tuner and its benchmark hub.

A file holds the measured part of a kernel's search space, so that a searcher can be
replayed without the hardware.  Besides the keys of the schema, version 1.0.0, times
have two that Kernel Tuner writes and the hub's scripts read: `compilation` and
`benchmark`.
"""

import json
import os
from typing import Any, Dict, List

from baselines import files
from tpugraphs.measure import records

SCHEMA_VERSION = '1.0.0'
# Status -> its name in T4, and Kernel Tuner's text in place of a time.
_INVALID = {
    'compile error': ('compile', 'CompilationFailedConfig'),
    'runtime error': ('runtime', 'RuntimeFailedConfig'),
    'wrong result': ('correctness', 'RuntimeFailedConfig'),
    'timeout': ('timeout', 'RuntimeFailedConfig'),
    'over the limit': ('constraints', 'InvalidConfig'),
}


def export(measurements: List[records.Measurement], folder: str) -> List[str]:
    """Writes a file for every kernel and machine; returns their paths.

    Raises:
        OSError: the folder cannot be written.
    """
    paths = []
    for kernel in records.by_kernel(measurements).values():
        last = kernel.measurements[-1]
        name = f'{last.kernel}_{last.machine_id}.json'
        paths.append(os.path.join(folder, name))
        with files.write_atomically(paths[-1], encoding='utf-8') as stream:
            json.dump(content(kernel), stream, indent=1, allow_nan=False)
    return paths


def content(kernel: records.History) -> Dict[str, Any]:
    """Returns the content of a kernel's file, with times in milliseconds."""
    last = kernel.measurements[-1]
    return {
        'schema_version': SCHEMA_VERSION,
        'metadata': {
            'timeunit': 'milliseconds',
            'kernel': last.kernel,
            'fingerprint': last.fingerprint,
            'machine': last.machine,
            'versions': last.versions,
        },
        'results': [_result(m) for m in kernel.results().values()],
    }


def _result(measurement: records.Measurement) -> Dict[str, Any]:
    """Returns a configuration's entry in T4."""
    runtimes = [nanoseconds / 1e6 for nanoseconds in measurement.times_ns]
    objective: Dict[str, Any] = {'name': 'time', 'unit': 'ms'}
    if measurement.status == records.OK:
        invalidity, objective['value'] = 'correct', min(runtimes)
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


def parameters(configuration: Dict[str, List[int]]) -> Dict[str, int]:
    """Returns a configuration as parameters `output_0`, ..., `kernel_0`, ..."""
    return {
        f'{name}_{dimension}': size
        for name in ('output', 'kernel')
        for dimension, size in enumerate(configuration[name])
    }
