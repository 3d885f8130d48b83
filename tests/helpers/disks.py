"""Disks that are really full: writes fail as they do for a user."""

import contextlib
import resource


@contextlib.contextmanager
def room(size):
    """Lets no file grow beyond `size` bytes in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
