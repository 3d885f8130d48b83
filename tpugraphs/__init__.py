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
# The names that the package offers, by the module that has them.
_NAMES = {
    'baselines.evaluation.evaluator': ('Evaluator',),
    'tpugraphs.api.catalogue': ('Catalogue', 'losses', 'models'),
    'tpugraphs.api.data': ('Records', 'open_records'),
    'tpugraphs.api.results': ('Ranked', 'Ranking', 'Runs'),
    'tpugraphs.api.runs': ('Ranker', 'Run', 'load', 'runs'),
    'tpugraphs.api.training': ('Callback', 'Training', 'train'),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
# Without `open`, so that `from tpugraphs import *` leaves Python its own.
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Imports the module of a name on first use, or one of the package (PEP 562)."""
    name = 'open_records' if name == 'open' else name
    if name not in _MODULES:
        return starting.import_on_use(__name__)(name)
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_MODULES, 'open', '__version__'])
