"""TpuGraphs from Python: load a run, train one, look at data, rank configurations.

    import tpugraphs

    run = tpugraphs.load('latest')
    for kernel, order, scores in run.rank('kernels.pb'):
        print(kernel, order[:5])

docs/guide/python.md describes every name here.  TensorFlow is imported when it is
needed, not before; import this package first, for it chooses the Keras that TF-GNN
needs.
"""

import importlib
from typing import Any, List

import baselines  # noqa: F401  chooses Keras before TensorFlow is imported

__version__ = '0.3.0'
# Name -> the module that has it, which is imported when the name is first used.
_MODULES = {
    'open': 'tpugraphs.data',
    'Callback': 'tpugraphs.callbacks',
    'Catalogue': 'tpugraphs.catalogue',
    'KernelTime': 'tpugraphs.results',
    'Profile': 'tpugraphs.results',
    'Ranked': 'tpugraphs.results',
    'Ranker': 'tpugraphs.api',
    'Ranking': 'tpugraphs.results',
    'Records': 'tpugraphs.data',
    'Run': 'tpugraphs.api',
    'Runs': 'tpugraphs.results',
    'Training': 'tpugraphs.callbacks',
    'hlo_module': 'tpugraphs.api',
    'load': 'tpugraphs.api',
    'load_program': 'tpugraphs.api',
    'losses': 'tpugraphs.catalogue',
    'models': 'tpugraphs.catalogue',
    'open_records': 'tpugraphs.data',
    'profile': 'tpugraphs.profiling',
    'read_program': 'tpugraphs.data',
    'runs': 'tpugraphs.api',
    'train': 'tpugraphs.api',
    'tune': 'tpugraphs.api',
}
# Without `open`: `from tpugraphs import *` leaves Python its own.
__all__ = [name for name in _MODULES if name != 'open']


def __getattr__(name: str) -> Any:
    """Imports a name of the API (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    own = 'open_records' if name == 'open' else name
    return getattr(importlib.import_module(_MODULES[name]), own)


def __dir__() -> List[str]:
    return sorted([*_MODULES, '__version__'])
