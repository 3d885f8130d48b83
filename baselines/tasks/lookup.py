"""Finds the task of a collection."""

from typing import Any, Dict

from baselines.data import collections
from baselines.tasks import layout
from baselines.tasks import protocol
from baselines.tasks import tile

TASKS: Dict[str, protocol.Task[Any]] = {
    task.name: task for task in (tile.Tile(), layout.Layout())
}


def of(collection: collections.Collection) -> protocol.Task[Any]:
    """Returns the task of a collection."""
    return TASKS[collection.task]
