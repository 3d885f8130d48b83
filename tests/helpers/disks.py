"""Disks without room, for real: writes fail as they do for a user."""

import contextlib
import resource
import subprocess

import pytest


@contextlib.contextmanager
def room(size):
    """Lets no file grow beyond `size` bytes in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def mounted(folder, size):
    """Mounts an empty disk of `size` bytes; skips where that is not allowed."""
    folder.mkdir()
    command = ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', str(folder)]
    try:
        code = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        code = 1
    if code:
        pytest.skip('a disk of its own cannot be mounted here')
    try:
        yield folder
    finally:
        subprocess.run(['umount', str(folder)], check=True)
