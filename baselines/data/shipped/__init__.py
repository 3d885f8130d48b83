"""The measured collections that ship with the package, as folders.

root = folder('tile')   # unpacked on first use; what --sample_data trains on

docs/findings/measured-data.md says how they were made, and on what machine;
tools/measured_data makes them.
"""

import os
import pathlib
import zipfile
import zlib

from baselines.core import files

ROOT = '~/data/tpugraphs/measured'


def folder(task: str, root: str = ROOT) -> str:
    """Returns the folder of a shipped collection; unpacks it on first use.

    Args:
        task: 'tile' or 'layout', or an archive for tests alone, such as 'by_others'.
        root: the parent of the folder, whose name has a hash of the content.

    Raises:
        ValueError: none ships for that task, or its file is damaged.
        OSError: the folder cannot be written.
    """
    archive = archive_of(task)
    if not os.path.exists(archive):
        raise ValueError(f'no measured {task} collection ships with this version')
    digest = zlib.crc32(pathlib.Path(archive).read_bytes())
    target = os.path.join(files.expand(root), f'{task}_{digest:08x}')
    if not os.path.isdir(target):
        with files.folder_atomically(target) as building:
            try:
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(building)
            except zipfile.BadZipFile as error:
                raise ValueError(
                    f'{archive}: damaged ({error}); install again'
                ) from error
    return target


def archive_of(task: str) -> str:
    """Returns the path of a shipped archive; its sidecar is next to it."""
    return str(pathlib.Path(__file__).with_name(f'{task}.zip'))
