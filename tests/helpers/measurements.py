"""Tuning records, and the sidecar of a collection, made by hand."""

import dataclasses

from tpugraphs.records import records

KERNEL = 'p_' + '0' * 16
MACHINE = {
    'device': 'cpu',
    'cpu': 'x',
    'cores': 2,
    'caches': {'L1': '32K'},
    'flags': '',
}


def measurement(*times_ns, output=(8, 4), **changes):
    """Makes a tile configuration's times; of the default, if it is the whole output."""
    sizes = list(output)
    made = records.Measurement(
        kernel=KERNEL,
        configuration={'output': sizes, 'kernel': []},
        default=sizes == [8, 4],
        status='ok',
        reason='',
        times_ns=list(times_ns),
        compile_s=0.5,
        search_s=0.25,
        group='0' * 16,
        time='2026-01-02T03:04:05+00:00',
        versions={'jaxlib': '0.4', 'tpugraphs': '1'},
        machine=MACHINE,
        opcodes=['negate'],
    )
    return dataclasses.replace(made, **changes)


def failed(status, output, **changes):
    """Makes a configuration that could not be timed."""
    return measurement(output=output, status=status, reason='why', **changes)


SIDECAR_KERNEL = {
    'file': 'k.npz',
    'program': 'p',
    'origin': 'fusion',
    'split': '',
    'noisy': False,
    'passes': 4,
    'tau': 1,
    'drift': 1.5,
    'again': 1.0,
    'halves': [[5, 6], [7, 8]],
    'configs': [{}, {}],
    'dropped': {},
}
SIDECAR = {'collection': {}, 'machine': {'cpu': 'x'}, 'kernels': {'k': SIDECAR_KERNEL}}
