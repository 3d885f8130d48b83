"""The user's own remarks on runs: one line of text in a model directory."""

import os

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.runs import finding

_NAME = 'note.txt'
_MAX_BYTES = 1 << 12


def read(model_dir: str) -> str:
    """Returns the note of a run, which is untrusted; '' for none, or no text."""
    path = os.path.join(model_dir, _NAME)
    if not os.path.lexists(path):
        return ''
    try:
        return text.printable(untrusted.read(path, _MAX_BYTES).decode().strip())
    except (ValueError, OSError):
        return ''


def write(model_dir: str, note: str) -> None:
    """Replaces the note of a run; an empty one is removed.

    Raises:
        ValueError: the note is too long, or the run is the one that ships.
        OSError: it cannot be written.
    """
    if finding.is_pretrained(model_dir):
        raise ValueError(f'--note: {finding.PRETRAINED} is a part of the package')
    note = text.printable(' '.join(note.split()))  # arguments may be no UTF-8
    size = len(note.encode())
    if size >= _MAX_BYTES:
        raise ValueError(f'--note: {size:,} bytes; at most {_MAX_BYTES - 1:,} fit')
    path = os.path.join(model_dir, _NAME)
    if note:
        with files.write_atomically(path, encoding='utf-8') as stream:
            stream.write(f'{note}\n')
    elif os.path.lexists(path):
        os.unlink(path)
