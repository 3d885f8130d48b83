"""The measuring laboratory: times kernels on this machine, in processes of its own.

    folder = measure.collect(['my_program.py:step'], measure.CollectionOptions('/out'))

This file is its door: other packages import no module of this one.
"""

import importlib
from typing import Any

# Name -> the module that has it, which is imported when the name is first used.
_DOOR = {
    'CollectionOptions': 'collection_folder',
    'Session': 'clock.session',
    'WorkerError': 'clock.session',
    'collect': 'collection',
    'load_random': 'random_programs',
    'optimise': 'clock.session',
    'random_names': 'random_programs',
    'time_choices': 'choice_times',
}


def __getattr__(name: str) -> Any:
    """Imports a name of the door, or a module of the package (PEP 562)."""
    if name in _DOOR:
        return getattr(importlib.import_module(f'{__name__}.{_DOOR[name]}'), name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
