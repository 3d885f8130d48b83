"""The two tasks, ranking tiles and ranking layouts: everything specific to a task."""
