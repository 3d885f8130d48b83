"""The measuring laboratory of TpuGraphs: programs, their kernels, and runtimes.

    import tpugraphs
    import tpugraphs_lab

    run = tpugraphs.load('pretrained')
    ranking = tpugraphs_lab.rank(run, 'my_program.py:step')

`tpugraphs lab` has its commands.
"""

import importlib
from typing import Any

from baselines.core import starting

# Name -> the module that has it, which is imported when the name is first used.
_MODULES = {
    'hlo_module': 'program_functions',
    'rank': 'program_ranking',
    'read_program': 'program_functions',
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Imports a name of the API, or a module of the package (PEP 562)."""
    if name not in _MODULES:
        return starting.import_on_use(__name__)(name)
    return getattr(importlib.import_module(f'{__name__}.{_MODULES[name]}'), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
