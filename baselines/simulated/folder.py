"""The folder of a simulated sample: written whole or not at all, and replaced
only if it is one."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from typing import Any, Dict, Iterator, Optional

from baselines import files

MARKER = 'sample.json'
_README = 'README.txt'
_STALE_SECONDS = 3600


def read_marker(root: str) -> Optional[Dict[str, Any]]:
    """Returns what `replacing` noted of the sample at `root`; None if none is."""
    with contextlib.suppress(OSError, ValueError):
        with open(os.path.join(root, MARKER), encoding='utf-8') as stream:
            return json.load(stream)
    return None


def marker(collection: str, version: int, parameters: Dict[str, Any]):
    """Returns what is noted of a sample.

    Args:
        collection: 'tile' or 'layout'.
        version: of the generator; another one makes the sample anew.
        parameters: what it was made with.
    """
    return {
        'simulated': True,
        'collection': collection,
        'generator_version': version,
        'parameters': parameters,
    }


@contextlib.contextmanager
def replacing(root: str, noted: Dict[str, Any], readme: str) -> Iterator[str]:
    """Gives a folder to fill that takes the name `root` when the block ends well.

    Args:
        root: absolute path; missing, an empty folder, or a sample of the same
            collection, which is replaced.
        noted: what `marker` returned.
        readme: text of the README.txt; `{marker}` is the marker's name.

    Raises:
        ValueError: `root` holds something else.
        OSError: the folder cannot be written.
    """
    _check_replaceable(root, noted['collection'])
    parent, name = os.path.split(root)
    os.makedirs(parent, exist_ok=True)
    _remove_stale(parent, name)
    building = tempfile.mkdtemp(prefix=f'.{name}.', dir=parent)
    try:
        yield building
        with files.write_atomically(os.path.join(building, _README)) as stream:
            stream.write(readme.format(marker=MARKER))
        with files.write_atomically(os.path.join(building, MARKER)) as stream:
            json.dump(noted, stream, indent=2)
        os.chmod(building, 0o755)
        _swap(building, root, noted)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _check_replaceable(root: str, collection: str) -> None:
    if not os.path.isdir(root):
        if os.path.lexists(root):
            raise ValueError(f'{root} is a file; name a folder')
        return
    if not os.listdir(root):
        return
    found = read_marker(root)
    if not found or found.get('collection') != collection:
        raise ValueError(
            f'{root} is not empty and no simulated {collection} sample (it has no '
            f'{MARKER} of one); name another folder'
        )


def _remove_stale(parent: str, name: str) -> None:
    """Removes what a killed run left beside the folder long ago."""
    for entry in os.listdir(parent):
        path = os.path.join(parent, entry)
        if entry.startswith(f'.{name}.') and os.path.isdir(path):
            if time.time() - os.path.getmtime(path) > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _swap(building: str, root: str, noted: Dict[str, Any]) -> None:
    """Gives the finished folder its name; the old sample goes afterwards."""
    old = f'{building}.old'
    with contextlib.suppress(FileNotFoundError):
        os.rename(root, old)
    try:
        os.rename(building, root)
    except OSError:
        # Another process was faster; the same sample is as good as ours.
        if read_marker(root) != noted:
            raise
    shutil.rmtree(old, ignore_errors=True)
