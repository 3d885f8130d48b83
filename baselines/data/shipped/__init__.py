"""The measured collections that ship with the package, as folders.

root = folder('tile')   # unpacked on first use; what --sample_data trains on

docs/findings/sample-data.md is their data card.
"""

import os
import pathlib
import zipfile
import zlib

from baselines.core import files

ROOT = '~/data/tpugraphs/measured'


def find_folder(task: str, root: str = ROOT) -> str:
    """Returns the folder of a measured collection; unpacks it on first use.

    Args:
        task: 'tile' or 'layout', or the path of another archive, *.zip.
        root: the parent of the folder, whose name has a hash of the content.

    Raises:
        ValueError: none ships for that task, or its file is damaged.
        OSError: the folder cannot be written.
    """
    archive = pathlib.Path(task if task.endswith('.zip') else find_archive(task))
    if not archive.exists():
        raise ValueError(f'no measured {task} collection ships with this version')
    digest = zlib.crc32(archive.read_bytes())
    target = os.path.join(files.expand(root), f'{archive.stem}_{digest:08x}')
    if not os.path.isdir(target):
        with files.make_folder_atomically(target) as building:
            try:
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(building)
            except zipfile.BadZipFile as error:
                raise ValueError(
                    f'{archive}: damaged ({error}); install again'
                ) from error
    return target


def find_archive(task: str) -> str:
    """Returns the path of a shipped archive; its sidecar is next to it."""
    return str(pathlib.Path(__file__).with_name(f'{task}.zip'))
