"""Finds the task of a collection."""

from typing import Any

from baselines.data import collections
from baselines.tasks import layout
from baselines.tasks import protocol
from baselines.tasks import tile

AnyTask = protocol.Task[Any]  # of any class of splits

TASKS: dict[str, AnyTask] = {task.name: task for task in (tile.Tile(), layout.Layout())}


def of(collection: collections.Collection) -> AnyTask:
    """Returns the task of a collection."""
    return TASKS[collection.task]
