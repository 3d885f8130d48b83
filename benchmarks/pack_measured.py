"""Makes an archive of measured data that ships, and the summary beside it.

  python benchmarks/pack_measured.py tile builtin=OUT1 random=OUT2 others=OUT3
  python benchmarks/pack_measured.py by_others models=OUT4 programs=OUT5
  python benchmarks/pack_measured.py layout builtin=OUT6 random=OUT7

Each OUT is a folder that `tpugraphs collect` wrote, under the name of its origin, of
which there may be several.
Noisy kernels are left out, and kernels that are in a folder before; in `by_others` also
those that are in the tile archive.  Families of programs are divided into train, valid
and test anew, origin by origin; all of `by_others` is test.  The same folders make the
same archive, byte for byte.
"""

import collections
import json
import os
from typing import Any, Dict, List, NamedTuple, Tuple
import zipfile

import judging
import numpy as np
import results

from baselines import files
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import hardware
from baselines.data import shares
from baselines.data import shipped
from tpugraphs.measure import collection_folder

_SHARES = (0.8, 0.1, 0.1)  # of train, valid and test
_KEPT = ('program', 'tau', 'halves', 'passes', 'again', 'drift')


class Graph(NamedTuple):
    """A kernel or program to pack."""

    name: str
    path: str  # of its npz file
    origin: str  # name of the folder's origin
    measured: Dict[str, Any]  # its part of the folder's sidecar

    @property
    def family(self) -> str:
        """The family of its program."""
        return families.family(self.measured['program'])

    @property
    def digest(self) -> str:
        """What tells kernels apart, whatever program they are cut from."""
        return self.name.rpartition('_')[2]


def main() -> None:
    """Packs, and prints the summary."""
    parser = results.parser(__doc__)
    parser.add_argument('archive', choices=('tile', 'layout', 'by_others'))
    parser.add_argument('sources', nargs='+', metavar='ORIGIN=OUT')
    args = parser.parse_args()
    sources = [source.partition('=')[::2] for source in args.sources]
    if not all(folder for _, folder in sources):
        raise ValueError(f'{args.sources}: write ORIGIN=OUT')
    print(json.dumps(pack(args.archive, sources), indent=1))


def pack(archive: str, sources: List[Tuple[str, str]]) -> Dict[str, Any]:
    """Writes an archive and its summary beside it; returns the summary.

    Args:
        archive: 'tile', 'layout' or 'by_others'.
        sources: name of an origin and a folder, of each collection.

    Raises:
        ValueError: a folder is no collection.
    """
    graphs: List[Graph] = []
    abouts: List[Dict[str, Any]] = []
    there = _digests('tile') if archive == 'by_others' else set()
    for origin, folder in sources:
        about = collection_folder.read_sidecar(files.expand(folder))
        measured = about.pop('kernels')
        abouts.append({'origin': origin, **about})
        for name, kernel in sorted(measured.items()):
            path = os.path.join(files.expand(folder), kernel['file'])
            graph = Graph(name, path, origin, kernel)
            if not kernel['noisy'] and graph.digest not in there:
                there.add(graph.digest if archive != 'layout' else name)
                graphs.append(graph)
    folder = collection_folder.FOLDERS['layout' if archive == 'layout' else 'tile']
    splits = {g.family: 'test' for g in graphs}
    if archive != 'by_others':
        splits = _splits(graphs)
    kernels = {
        graph.name: {
            'file': os.path.join(folder, splits[graph.family], f'{graph.name}.npz'),
            'origin': graph.origin,
            'split': splits[graph.family],
            'noisy': False,
            **{key: graph.measured[key] for key in _KEPT},
        }
        for graph in graphs
    }
    sidecar = json.dumps({'sources': abouts, 'kernels': kernels}, sort_keys=True)
    path = shipped.archive_of(archive)
    with files.write_atomically(path, 'wb') as stream:
        with zipfile.ZipFile(stream, 'w', zipfile.ZIP_DEFLATED) as packed:
            for graph in graphs:
                with open(graph.path, 'rb') as member:
                    _add(packed, kernels[graph.name]['file'], member.read())
            _add(packed, hardware.SIDECAR, sidecar.encode())
    summary = {
        **_summary(graphs, splits),
        'megabytes': round(os.path.getsize(path) / 1e6, 2),
        'sources': abouts,
    }
    with files.write_atomically(f'{path[: -len(".zip")]}.json') as stream:
        json.dump(summary, stream, indent=1, sort_keys=True)
        stream.write('\n')
    return summary


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds a member with a fixed date: the same content, the same bytes."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(info, content, compresslevel=9)


def _digests(archive: str) -> set:
    """Returns the digests of the kernels in an archive that is packed already."""
    with zipfile.ZipFile(shipped.archive_of(archive)) as packed:
        names = [os.path.splitext(name)[0] for name in packed.namelist()]
    return {name.rpartition('_')[2] for name in names}


def _splits(graphs: List[Graph]) -> Dict[str, str]:
    """Returns family -> split, such that every split has a share of every origin."""
    splits: Dict[str, str] = {}
    for origin in dict.fromkeys(graph.origin for graph in graphs):
        sizes = collections.Counter(g.family for g in graphs if g.origin == origin)
        for family, part in shares.share_out(sizes, _SHARES).items():
            splits.setdefault(family, collections_lib.SPLITS[part])
    return splits


def _summary(graphs: List[Graph], splits: Dict[str, str]) -> Dict[str, Any]:
    """Returns what a collection holds, in numbers."""
    kinds: collections.Counter[str] = collections.Counter()
    configs = 0
    for graph in graphs:
        with np.load(graph.path) as arrays:
            configs += len(arrays['config_runtime'])
            kinds.update(judging.kinds(arrays))
    taus = np.array([graph.measured['tau'] for graph in graphs])
    return {
        'graphs': len(graphs),
        'configurations': configs,
        'programs': len({graph.measured['program'] for graph in graphs}),
        'families': len({graph.family for graph in graphs}),
        'graphs by origin': dict(collections.Counter(g.origin for g in graphs)),
        'graphs by split': dict(collections.Counter(splits[g.family] for g in graphs)),
        'graphs by kind': dict(kinds.most_common()),
        'tau between halves': {
            'median': round(float(np.median(taus)), 3),
            'lowest tenth': round(float(np.quantile(taus, 0.1)), 3),
        },
    }


if __name__ == '__main__':
    results.run(main)
