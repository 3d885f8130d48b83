"""The interface of a task, ranking tiles or ranking layouts, and the two by name."""
