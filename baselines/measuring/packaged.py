"""The measured collections that ship with the package, as folders.

root = folder('tile')   # unpacked on first use; what --measured_data trains on

docs/measured-data.md says how they were made, and on what machine.
"""

import json
import os
import pathlib
from typing import Any, Dict
import zipfile
import zlib

from baselines import files
from baselines.measuring import collection

ROOT = '~/data/tpugraphs/measured'


def folder(task: str, root: str = ROOT) -> str:
    """Returns the folder of a shipped collection; unpacks it on first use.

    Args:
        task: 'tile' or 'layout'.
        root: where it goes, in a folder named by its content.

    Raises:
        ValueError: none ships for that task, or its file is damaged.
        OSError: the folder cannot be written.
    """
    archive = archive_of(task)
    if not os.path.exists(archive):
        raise ValueError(f'no measured {task} collection ships with this version')
    with open(archive, 'rb') as stream:
        digest = zlib.crc32(stream.read())
    target = os.path.join(files.expand(root), f'{task}_{digest:08x}')
    if not os.path.isdir(target):
        _unpack(archive, target)
    return target


def archive_of(task: str) -> str:
    """Returns the path of a shipped archive; its sidecar is beside it."""
    return str(pathlib.Path(__file__).parent / 'data' / f'{task}.zip')


def pack(source: str, task: str) -> str:
    """Makes the archive of a collection, and its sidecar; returns the path.

    Left out are noisy kernels and the journal.  The archive of the same files of
    the folder `source` is the same, byte for byte.
    """
    archive = archive_of(task)
    with open(os.path.join(source, collection.SIDECAR), encoding='utf-8') as stream:
        measured = json.load(stream)
    kept = sorted(k['file'] for k in measured['kernels'].values() if not k['noisy'])
    with files.write_atomically(archive, 'wb') as stream:
        with zipfile.ZipFile(stream, 'w', zipfile.ZIP_DEFLATED) as packed:
            for name in [*kept, collection.SIDECAR]:
                # A fixed date: the same content, the same bytes.
                info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                with open(os.path.join(source, name), 'rb') as member:
                    packed.writestr(info, member.read(), compresslevel=9)
    sidecar = f'{archive[: -len(".zip")]}.json'
    with files.write_atomically(sidecar, encoding='utf-8') as stream:
        json.dump(_summary(measured), stream, indent=1, sort_keys=True)
        stream.write('\n')
    return archive


def _summary(measured: Dict[str, Any]) -> Dict[str, Any]:
    """Returns a sidecar without passes and configurations."""
    large = ('passes', 'passes_again', 'configs', 'dropped')
    records = {
        name: {
            **{key: value for key, value in record.items() if key not in large},
            'configs': len(record['configs']),
            'passes': len(record['passes']),
            'dropped': len(record['dropped']),
        }
        for name, record in measured['kernels'].items()
    }
    return {**measured, 'kernels': records}


def _unpack(archive: str, target: str) -> None:
    with files.folder_atomically(target) as folder:
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
        except zipfile.BadZipFile as error:
            raise ValueError(f'{archive}: damaged ({error}); install again') from error
