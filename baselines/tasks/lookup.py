"""The tasks by name."""

import importlib
from typing import Any

from baselines.tasks import protocol

AnyTask = protocol.Task[Any]  # of any class of splits


_MODULES = {'tile': 'baselines.tiles.task', 'layout': 'baselines.layout.task'}


class _Tasks(dict[str, AnyTask]):
    """Imports a task on first use: work on one needs nothing of the other."""

    def __missing__(self, name: str) -> AnyTask:
        self[name] = importlib.import_module(_MODULES[name]).TASK
        return self[name]


TASKS = _Tasks()
