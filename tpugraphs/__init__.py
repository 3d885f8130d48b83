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
from typing import Any

import baselines  # noqa: F401  chooses Keras before TensorFlow is imported
from baselines.core import starting

__version__ = '0.4.0'
# Name -> the module that has it, which is imported when the name is first used.
_MODULES = {
    'open': 'tpugraphs.api.data',
    'Callback': 'tpugraphs.api.training',
    'Catalogue': 'tpugraphs.api.catalogue',
    'Evaluator': 'baselines.evaluation.evaluator',
    'Ranked': 'tpugraphs.api.results',
    'Ranker': 'tpugraphs.api.runs',
    'Ranking': 'tpugraphs.api.results',
    'Records': 'tpugraphs.api.data',
    'Run': 'tpugraphs.api.runs',
    'Runs': 'tpugraphs.api.results',
    'Training': 'tpugraphs.api.training',
    'load': 'tpugraphs.api.runs',
    'losses': 'tpugraphs.api.catalogue',
    'models': 'tpugraphs.api.catalogue',
    'open_records': 'tpugraphs.api.data',
    'runs': 'tpugraphs.api.runs',
    'train': 'tpugraphs.api.training',
}
# Without `open`: `from tpugraphs import *` leaves Python its own.
__all__ = [name for name in _MODULES if name != 'open']


def __getattr__(name: str) -> Any:
    """Imports a name of the API, or a module of the package (PEP 562)."""
    if name not in _MODULES:
        return starting.submodules(__name__)(name)
    own = 'open_records' if name == 'open' else name
    return getattr(importlib.import_module(_MODULES[name]), own)


def __dir__() -> list[str]:
    return sorted([*_MODULES, '__version__'])
