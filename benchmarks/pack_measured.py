"""Makes the archive of a measured collection that ships, and its sidecar.

  python benchmarks/pack_measured.py OUT tile

OUT is what `tpugraphs collect --builtin OUT` wrote.  Left out are noisy kernels and
the journal.  The same files make the same archive, byte for byte.
"""

import json
import os
from typing import Any, Dict
import zipfile

import results

from baselines import files
from baselines.measuring import collection
from baselines.measuring import packaged


def main() -> None:
    """Packs, and prints what was written."""
    parser = results.parser(__doc__)
    parser.add_argument('source', metavar='OUT')
    parser.add_argument('task', choices=('tile', 'layout'))
    args = parser.parse_args()
    print(pack(files.expand(args.source), args.task))


def pack(source: str, task: str) -> str:
    """Packs the collection in the folder `source`; returns the archive's path."""
    archive = packaged.archive_of(task)
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


if __name__ == '__main__':
    results.run(main)
