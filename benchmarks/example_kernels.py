"""Makes examples/kernels.pb: measured kernels as a compiler's raw file would have them.

  python benchmarks/example_kernels.py

The kernels are cut anew from the built-in programs (nothing is measured), and get the
configurations and runtimes that the shipped collection has of them.  They are of its
test split, so no run that is trained on it has seen them.
"""

import collections
import os
import tempfile

import judging
import results

from baselines import files
from baselines.data import shipped
from baselines.data.tile import records
from baselines.hlo import protos
from tpugraphs.measure import builtin
from tpugraphs.measure import collection
from tpugraphs.measure import collection_folder
from tpugraphs.measure import session as session_lib

_KERNELS = (
    'inverted_batch_1_f0c4973cb9d3836d',
    'options_many_32a810f2ed66c654',
    'particles_small_690c6febb81aafb0',
    'recommender_small_b93866e83f50d7bd',
)
_OUTPUT = results.ROOT / 'examples' / 'kernels.pb'


def main() -> None:
    """Writes the file, and says what is in it."""
    results.parser(__doc__).parse_args()
    root = shipped.folder('tile')
    measured = collection_folder.read_sidecar(root)['kernels']
    items = {}
    with tempfile.TemporaryDirectory() as folder:
        with session_lib.Session(os.path.join(folder, 'journal')) as session:
            for program in sorted({measured[name]['program'] for name in _KERNELS}):
                loaded, skipped = builtin.load(program), collections.Counter()
                found = collection.items_of(loaded, 'tile', session, set(), skipped)
                items.update({item.name: item for item in found})
    written = protos.protos().TuningData()
    for name in _KERNELS:
        record = records.read_tile(os.path.join(root, measured[name]['file']))
        configs = [judging.bounds(row) for row in record.config_feat]
        written.modules.append(items[name].tuning(configs, record.config_runtime))
        print(f'{name}: {record.num_nodes} nodes, {record.num_configs} configurations')
    with files.write_atomically(str(_OUTPUT), 'wb') as stream:
        stream.write(written.SerializeToString(deterministic=True))
    print(f'{_OUTPUT}: {_OUTPUT.stat().st_size:,} bytes')


if __name__ == '__main__':
    results.run(main)
