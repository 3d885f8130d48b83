"""The tasks by name."""

from typing import Any

from baselines.tasks import layout
from baselines.tasks import protocol
from baselines.tasks import tile

AnyTask = protocol.Task[Any]  # of any class of splits

TASKS: dict[str, AnyTask] = {task.name: task for task in (tile.Tile(), layout.Layout())}
