"""Describes the machine of a measurement, for the file of its times."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform

import baselines
from baselines.core import text
from baselines.data import hardware
from tpugraphs_lab.measure.clock import backend


def describe(core: int) -> text.JsonObject:
    """Returns versions, flags, processor and caches of this machine, for JSON.

    Args:
        core: the core that workers are pinned to; -1 for the last.
    """
    caches = {}
    with contextlib.suppress(OSError):  # there on Linux alone
        for folder in pathlib.Path('/sys/devices/system/cpu/cpu0/cache').glob('index*'):
            level, kind, size = (
                (folder / name).read_text().strip()
                for name in ('level', 'type', 'size')
            )
            caches[f'L{level} {kind.lower()}'] = size
    return {
        'cpu': hardware.find_processor(),
        'cores': os.cpu_count(),
        'core': chosen_core(core),
        'caches': caches,
        'system': platform.platform(),
        'load': os.getloadavg()[0],
        'flags': backend.FLAGS,
        'python': platform.python_version(),
        **{name: baselines.version(name) for name in ('jaxlib', 'numpy', 'tensorflow')},
    }


def chosen_core(core: int) -> int:
    """Returns the core to measure on, -1 for the last; raises ValueError if missing."""
    if not hasattr(os, 'sched_getaffinity'):
        return -1  # nothing can be pinned here
    allowed = sorted(os.sched_getaffinity(0))
    if core not in (-1, *allowed):
        raise ValueError(
            f'--core is {core}; this process may use {", ".join(map(str, allowed))}'
        )
    return allowed[-1] if core < 0 else core
