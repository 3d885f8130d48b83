"""Makes an archive of measured data that ships, and the summary next to it.

  python lab/tools/measured_data/pack.py tile packed=OLD published=OUT1 random=OUT2
  python lab/tools/measured_data/pack.py by_others_real published=OUT3

Each OUT is a folder that `tpugraphs lab collect` wrote, under the name of its origin,
of which there may be several.  OLD is an archive of before, unpacked; its kernels keep
their origins and splits.
Noisy kernels are left out, kernels that are in a folder before, and kernels in an
archive for tests alone (`by_others`, `by_others_real`): pack those first.  Families of
programs that have no split yet are divided into train, valid and test, origin by
origin; all of an archive for tests is test.  Families in `--train` are trained on,
whatever their split was.
With `--small_tau T`, kernels below 30 us of which halves of the passes agree less than
with a tau of T are not trained on.
The same folders make the same archive, byte for byte.
"""

import collections
from collections.abc import Sequence
import json
import os
import pathlib
import tempfile
from typing import Any, NamedTuple
import zipfile

import numpy as np

from baselines.core import files
from baselines.core import npz
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import hardware
from baselines.data import shares
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import time_saved
from tpugraphs_lab.measure import collection_folder

_MAX_BYTES = 1 << 30  # of an npz file
_SHARES = (0.8, 0.1, 0.1)  # of train, valid and test
_KEPT = ('program', 'tau', 'halves', 'passes', 'again', 'drift', 'default', 'once')
# Archives, and those whose kernels they leave out.
_ARCHIVES: dict[str, tuple[str, ...]] = {
    'by_others': (),
    'by_others_real': ('by_others',),
    'tile': ('by_others', 'by_others_real'),
}
_TEST_ALONE = ('by_others', 'by_others_real')


class Graph(NamedTuple):
    """A kernel to pack."""

    name: str
    path: str  # of its npz file
    origin: str  # name of the folder's origin
    measured: dict[str, Any]  # its part of the folder's sidecar
    split: str | None  # None if it is not known yet
    jaxlib: str  # the release that it was measured with

    @property
    def family(self) -> str:
        """The family of its program."""
        return families.find_family(self.measured['program'])

    @property
    def digest(self) -> str:
        """What tells kernels apart, whatever program they are cut from."""
        return self.name.rpartition('_')[2]


def main() -> None:
    """Packs, and prints the summary."""
    parser = results.parser(__doc__)
    parser.add_argument('archive', choices=[*_ARCHIVES])
    parser.add_argument('sources', nargs='+', metavar='ORIGIN=OUT')
    parser.add_argument('--train', nargs='*', default=[], metavar='FAMILY')
    parser.add_argument('--small_tau', type=float, default=0, metavar='T')
    args = parser.parse_args()
    sources = [source.partition('=')[::2] for source in args.sources]
    if not all(folder for _, folder in sources):
        raise ValueError(f'{args.sources}: write ORIGIN=OUT')
    summary = pack(args.archive, sources, args.train, args.small_tau)
    print(json.dumps(summary, indent=1))


def pack(
    archive: str,
    sources: list[tuple[str, str]],
    train: Sequence[str] = (),
    small_tau: float = 0,
) -> dict[str, Any]:
    """Writes an archive and its summary next to it; returns the summary.

    Args:
        archive: 'tile', 'by_others' or 'by_others_real'.
        sources: name of an origin and a folder, of each collection.
        train: families that are trained on, whatever their split was.
        small_tau: least tau between halves of kernels below 30 us to train on.

    Raises:
        ValueError: a folder is no collection.
    """
    there = {digest for other in _ARCHIVES[archive] for digest in _digests(other)}
    graphs: list[Graph] = []
    abouts: list[dict[str, Any]] = []
    for origin, folder in sources:
        found, about = _read(origin, files.expand(folder))
        abouts += about
        for graph in found:
            if graph.digest not in there:
                there.add(graph.digest)
                graphs.append(graph)
    splits = {g.family: 'test' for g in graphs}
    if archive not in _TEST_ALONE:
        splits = {**_splits(graphs), **dict.fromkeys(train, 'train')}
    graphs = [
        graph
        for graph in graphs
        if splits[graph.family] != 'train'
        or _size_class(graph) != time_saved.SIZE_CLASSES[0]
        or graph.measured['tau'] >= small_tau
    ]
    _write(archive, graphs, splits, abouts)
    path = judging.path_of(archive)
    summary = {
        **_summary(graphs, splits),
        'megabytes': round(os.path.getsize(path) / 1e6, 2),
        'sources': abouts,
    }
    with files.write_atomically(f'{path[: -len(".zip")]}.json') as stream:
        json.dump(summary, stream, indent=1, sort_keys=True)
        stream.write('\n')
    return summary


def _read(origin: str, folder: str) -> tuple[list[Graph], list[dict[str, Any]]]:
    """Returns the quiet kernels of a folder, and how they were measured.

    Args:
        origin: of its kernels; those of an unpacked archive have one already.
        folder: that `collect` wrote, or an unpacked archive.
    """
    about = collection_folder.read_sidecar(folder)
    measured = about.pop('kernels')
    sources = about.pop('sources', None)
    abouts = sources or [{'origin': origin, **about}]
    jaxlib = abouts[0]['machine'].get('jaxlib', '')
    graphs = [
        Graph(
            name,
            os.path.join(folder, kernel['file']),
            kernel['origin'] if sources else origin,
            kernel,
            kernel['split'] if sources else None,
            kernel.get('jaxlib', jaxlib),
        )
        for name, kernel in sorted(measured.items())
        if not kernel['noisy']
    ]
    return graphs, abouts


def _size_class(graph: Graph) -> str:
    """Returns the class of a kernel's time with XLA's default."""
    halves = np.array(graph.measured['halves'])
    return time_saved.size_class(halves[:, graph.measured.get('default', 0)].min())


def _write(
    archive: str,
    graphs: list[Graph],
    splits: dict[str, str],
    abouts: list[dict[str, Any]],
) -> None:
    """Writes an archive: the kernels' files and their sidecar."""
    kernels = {
        graph.name: {
            'file': os.path.join(splits[graph.family], f'{graph.name}.npz'),
            'origin': graph.origin,
            'split': splits[graph.family],
            'noisy': False,
            'jaxlib': graph.jaxlib,
            **{key: graph.measured[key] for key in _KEPT if key in graph.measured},
        }
        for graph in graphs
    }
    sidecar = json.dumps({'sources': abouts, 'kernels': kernels}, sort_keys=True)
    with files.write_atomically(judging.path_of(archive), 'wb') as stream:
        with zipfile.ZipFile(stream, 'w', zipfile.ZIP_DEFLATED) as packed:
            for graph in graphs:
                _add(packed, kernels[graph.name]['file'], _content(graph))
            _add(packed, hardware.SIDECAR, sidecar.encode())


def _content(graph: Graph) -> bytes:
    """Returns the file of a kernel, with the release that measured it."""
    arrays = npz.read_all(graph.path, _MAX_BYTES)
    arrays['xla_release'] = np.array(hardware.parse_release(graph.jaxlib))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'graph.npz')
        npz.write_arrays(str(path), arrays)
        return path.read_bytes()


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds a member with a fixed date: the same content, the same bytes."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(info, content, compresslevel=9)


def _digests(archive: str) -> set[str]:
    """Returns the digests of the kernels in an archive; none if it does not exist."""
    if not os.path.exists(judging.path_of(archive)):
        return set()
    with zipfile.ZipFile(judging.path_of(archive)) as packed:
        names = [os.path.splitext(name)[0] for name in packed.namelist()]
    return {name.rpartition('_')[2] for name in names}


def _splits(graphs: list[Graph]) -> dict[str, str]:
    """Returns family -> split, such that every split has a share of every origin."""
    splits = {g.family: g.split for g in graphs if g.split is not None}
    for origin in dict.fromkeys(graph.origin for graph in graphs):
        sizes = collections.Counter(
            g.family for g in graphs if g.origin == origin and g.family not in splits
        )
        for family, part in shares.share_out(sizes, _SHARES).items():
            splits.setdefault(family, collections_lib.SPLITS[part])
    return splits


def _summary(graphs: list[Graph], splits: dict[str, str]) -> dict[str, Any]:
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
        'graphs by time': dict(collections.Counter(map(_size_class, graphs))),
        'graphs by jaxlib': dict(collections.Counter(g.jaxlib for g in graphs)),
        'graphs by kind': dict(kinds.most_common()),
        'tau between halves': {
            'median': round(float(np.median(taus)), 3),
            'lowest tenth': round(float(np.quantile(taus, 0.1)), 3),
        },
    }


if __name__ == '__main__':
    results.run(main)
