"""What a measurement was made on, for the file beside it."""

import glob
import importlib.metadata
import os
import platform
from typing import Any, Dict

from baselines.measuring import backend


def describe(core: int) -> Dict[str, Any]:
    """Returns versions, flags, processor and caches.

    Args:
        core: the core that workers are pinned to; -1 for none.
    """
    return {
        'cpu': _cpu_model(),
        'cores': os.cpu_count(),
        'core': core,
        'caches': _caches(),
        'system': platform.platform(),
        'load': os.getloadavg()[0] if hasattr(os, 'getloadavg') else None,
        'flags': backend.FLAGS,
        'python': platform.python_version(),
        **{name: _version(name) for name in ('jaxlib', 'numpy', 'tensorflow')},
    }


def default_core() -> int:
    """Returns the last core that this process may use; -1 where none is pinned."""
    if not hasattr(os, 'sched_getaffinity'):
        return -1
    return max(os.sched_getaffinity(0))


def check_core(core: int) -> None:
    """Raises ValueError if there is no such core."""
    allowed = sorted(os.sched_getaffinity(0)) if core >= 0 else []
    if core >= 0 and core not in allowed:
        raise ValueError(
            f'--core is {core}; this process may use {", ".join(map(str, allowed))}'
        )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ''


def _cpu_model() -> str:
    try:
        with open('/proc/cpuinfo', encoding='utf-8') as stream:
            for line in stream:
                if line.startswith('model name'):
                    return line.partition(':')[2].strip()
    except OSError:
        pass
    return platform.processor()


def _caches() -> Dict[str, str]:
    found = {}
    for folder in sorted(glob.glob('/sys/devices/system/cpu/cpu0/cache/index*')):
        try:
            texts = []
            for name in ('level', 'type', 'size'):
                with open(os.path.join(folder, name), encoding='utf-8') as stream:
                    texts.append(stream.read().strip())
        except OSError:
            continue
        found[f'L{texts[0]} {texts[1].lower()}'] = texts[2]
    return found
