"""A split of the tile collection, packed once and mapped ever after.

    store = open_tile_split('~/data/tpugraphs/npz/tile/xla/train', '~/cache')
    begin, end = store.config_offsets[7:9]
    store.config_feat[begin:end]        # kernel 7, read from the page cache

All kernels lie end to end in a few long arrays, so a batch is built from ranges
in a few vectorised operations, and a step touches only the rows it samples.
"""

import os
import sys
from typing import Any, List, Mapping, Optional

import numpy as np

from baselines import files
from baselines.data import cache
from baselines.data import packing
from baselines.data import records

class TileStore:
    """The kernels of a split as packed arrays; made by `open_tile_split`.

    G graphs, N nodes, M edges and C configurations in all.  Arrays are
    memory-mapped and read-only; `np.asarray` of one is a plain view.

    Attributes:
        source: the split's folder.
        graph_ids: list of the G file stems, sorted.
        node_feat: float32 [N, F].
        node_opcode: int32 [N].
        edge_index: int32 [M, 2], (consumer, producer), counted within a graph.
        config_feat: float32 [C, K].
        config_runtime: int64 [C], nanoseconds; 0 where not published.
        config_runtime_normalizers: int64 [C].
        node_offsets: int64 [G + 1]; graph i has nodes offsets[i]:offsets[i + 1].
        edge_offsets: int64 [G + 1].
        config_offsets: int64 [G + 1].
        node_min: float32 [G, F], the smallest value of each graph's columns.
        node_max: float32 [G, F].
        config_min: float32 [G, K].
        config_max: float32 [G, K].
        max_opcode: int32 [G].
        pad: what absent tile dimensions hold, 0 or -1.
        feature_names: tuple of F names, or None.
        config_feature_names: tuple of K names, or None.
        has_runtimes: whether any runtime is published.
        skipped: list of (file name, reason) of damaged files left out.
        fingerprint: hex digest of ids and contents; the same on every machine.
    """

    def __init__(
        self, source: str, manifest: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
    ):
        self.source = source
        self.graph_ids: List[str] = manifest['graph_ids']
        self.node_feat = arrays['node_feat']
        self.node_opcode = arrays['node_opcode']
        self.edge_index = arrays['edge_index']
        self.config_feat = arrays['config_feat']
        self.config_runtime = arrays['config_runtime']
        self.config_runtime_normalizers = arrays['config_runtime_normalizers']
        self.node_offsets = np.asarray(arrays['node_offsets'])
        self.edge_offsets = np.asarray(arrays['edge_offsets'])
        self.config_offsets = np.asarray(arrays['config_offsets'])
        self.node_min = np.asarray(arrays['node_min'])
        self.node_max = np.asarray(arrays['node_max'])
        self.config_min = np.asarray(arrays['config_min'])
        self.config_max = np.asarray(arrays['config_max'])
        self.max_opcode = np.asarray(arrays['max_opcode'])
        self.pad: int = manifest['pad']
        self.feature_names = _as_tuple(manifest['feature_names'])
        self.config_feature_names = _as_tuple(manifest['config_feature_names'])
        self.has_runtimes: bool = manifest['has_runtimes']
        self.skipped = [tuple(entry) for entry in manifest['skipped']]
        self.fingerprint: str = manifest['fingerprint']

    def __len__(self) -> int:
        return len(self.graph_ids)

    @property
    def num_graphs(self) -> int:
        """Number of kernels, G."""
        return len(self.graph_ids)

    @property
    def config_counts(self) -> np.ndarray:
        """int64 [G]: how many configurations each kernel has."""
        return np.diff(self.config_offsets)

    def with_at_least(self, min_configs: int) -> np.ndarray:
        """Returns int64 indices of kernels with so many configurations."""
        return np.flatnonzero(self.config_counts >= min_configs)

    def record(self, index: int) -> records.TileRecord:
        """Returns kernel `index` as views into the packed arrays.

        Raises:
            IndexError: there is no such kernel; negative ones neither.
        """
        if not 0 <= index < self.num_graphs:
            raise IndexError(f'kernel {index} of {self.num_graphs}')
        nodes, edges, configs = (
            slice(offsets[index], offsets[index + 1]) for offsets in
            (self.node_offsets, self.edge_offsets, self.config_offsets))
        return records.TileRecord(
            graph_id=self.graph_ids[index],
            node_feat=np.asarray(self.node_feat[nodes]),
            node_opcode=np.asarray(self.node_opcode[nodes]),
            edge_index=np.asarray(self.edge_index[edges]),
            config_feat=np.asarray(self.config_feat[configs]),
            config_runtime=np.asarray(self.config_runtime[configs]),
            config_runtime_normalizers=np.asarray(
                self.config_runtime_normalizers[configs]),
            pad=self.pad,
            feature_names=self.feature_names,
            config_feature_names=self.config_feature_names,
        )


def open_tile_split(
    split_dir: str,
    cache_dir: str,
    *,
    skip_bad_files: bool = False,
    limit: Optional[int] = None,
    progress: bool = True,
) -> TileStore:
    """Opens a split, packing it into the cache on first use.

    Args:
        split_dir: a folder of `<graph id>.npz` files.
        cache_dir: where packed splits are kept; one for all splits is fine.
        skip_bad_files: leave damaged files out, with a warning for each,
            instead of stopping at the first.
        limit: only the first so many files by name; None means all.
        progress: show a bar while packing, if stderr is a terminal.

    Raises:
        ValueError: the split is missing or empty, a file is damaged, or the
            files do not agree in width, padding or names.
        OSError: the cache cannot be written, or a file cannot be read.
    """
    if limit is not None and limit < 1:
        raise ValueError(f'limit is {limit}: a split has at least one file')
    split_dir = files.expand(split_dir)
    listing = _list_split(split_dir, limit)
    packer = packing.TilePacker(split_dir, listing, skip_bad_files, progress)
    manifest, arrays = cache.open_or_build(
        files.expand(cache_dir),
        label=f'tile-{os.path.basename(split_dir)[:40]}',
        source=[split_dir, 'all' if limit is None else str(limit)],
        listing=listing,
        version=packing.VERSION,
        build=packer.build,
    )
    store = TileStore(split_dir, manifest, arrays)
    if store.skipped and not skip_bad_files:
        names = [name for name, _ in store.skipped]
        raise ValueError(
            f'{store.skipped[0][1]}. In {split_dir} such files are: '
            f'{", ".join(names[:3])}{" ..." if names[3:] else ""} ({len(names)} '
            f'of {len(listing)}); replace them, or pass --skip_bad_files')
    if store.skipped and not packer.has_run:
        print(
            f'warning: {len(store.skipped)} of {len(listing)} files of '
            f'{split_dir} stay left out: damaged', file=sys.stderr)
    return store


def _list_split(split_dir: str, limit: Optional[int]) -> cache.Listing:
    """Lists the kernels of a split, of which there is at least one."""
    advice = (
        'it should hold one .npz file per kernel. Point --data_root at the '
        'folder of train, valid and test, or try --sample_data')
    if not os.path.isdir(split_dir):
        raise ValueError(f'{split_dir}: there is no such folder; {advice}')
    listing = cache.list_files(split_dir, '.npz', limit)
    if not listing:
        raise ValueError(f'{split_dir}: there is no .npz file in it; {advice}')
    return listing


def _as_tuple(names):
    return None if names is None else tuple(names)
