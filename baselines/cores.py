"""Counts the cores that this process may use."""

import os


def count() -> int:
    """Returns the number of cores: those that the process is bound to, if it is."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
