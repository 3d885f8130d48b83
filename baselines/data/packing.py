"""Packs the kernels of a split, one after the other, into columns.

Only `store` needs this; it says what the columns are.
"""

import hashlib
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import tqdm

from baselines.data import cache
from baselines.data import columns
from baselines.data import records

# Raise it whenever the columns, their meaning or the checks change.
VERSION = 1

_ARRAYS = (
    'node_feat', 'node_opcode', 'edge_index', 'config_feat', 'config_runtime',
    'config_runtime_normalizers',
)


class TilePacker:
    """Packs one split; `build` is what `cache.open_or_build` calls.

    Attributes:
        has_run: whether anything had to be packed.
    """

    def __init__(
        self, split_dir: str, listing: cache.Listing, skip_bad_files: bool,
        progress: bool,
    ):
        """See `store.open_tile_split`."""
        self.has_run = False
        self._split_dir = split_dir
        self._names = [entry[0] for entry in listing]
        self._skip_bad_files = skip_bad_files
        self._progress = progress
        self._first: Optional[records.TileRecord] = None
        self._graph_ids: List[str] = []
        self._counts: List[Tuple[int, int, int]] = []
        self._skipped: List[Tuple[str, str]] = []
        self._misfits = 0
        self._content = hashlib.sha256()
        self._has_runtimes = False

    def build(self, writer: columns.PackedWriter) -> Dict[str, Any]:
        """Packs every kernel; returns what goes into the manifest.

        Raises:
            ValueError: a file is damaged and none may be left out, files do not
                fit together, or no file is left.
            OSError: reading or writing fails.
        """
        self.has_run = True
        bar = tqdm.tqdm(
            self._names, desc=f'packing {os.path.basename(self._split_dir)}',
            unit='file', disable=None if self._progress else True)
        with bar:
            for name in bar:
                try:
                    record = records.read_tile(
                        os.path.join(self._split_dir, name))
                    self._check_fit(name, record)
                except ValueError as error:
                    self._skip(name, error)
                else:
                    self._append(writer, record)
        self._check_enough()
        offsets = np.zeros((len(self._counts) + 1, 3), np.int64)
        offsets[1:] = np.cumsum(self._counts, axis=0)
        writer.append(
            node_offsets=offsets[:, 0],
            edge_offsets=offsets[:, 1],
            config_offsets=offsets[:, 2],
        )
        return {
            'graph_ids': self._graph_ids,
            'pad': self._first.pad,
            'feature_names': self._first.feature_names,
            'config_feature_names': self._first.config_feature_names,
            'has_runtimes': self._has_runtimes,
            'skipped': self._skipped,
            'fingerprint': self._content.hexdigest()[:32],
        }

    def _append(
        self, writer: columns.PackedWriter, record: records.TileRecord
    ) -> None:
        """Packs one kernel and what is known about it as a whole."""
        self._first = self._first or record
        self._graph_ids.append(record.graph_id)
        self._counts.append(
            (record.num_nodes, len(record.edge_index), record.num_configs))
        self._has_runtimes |= bool(record.config_runtime[0])
        arrays = {key: getattr(record, key) for key in _ARRAYS}
        self._content.update(record.graph_id.encode())
        for array in arrays.values():
            self._content.update(repr(array.shape).encode())
            self._content.update(array.data)
        writer.append(
            **arrays,
            node_min=record.node_feat.min(axis=0, keepdims=True),
            node_max=record.node_feat.max(axis=0, keepdims=True),
            config_min=record.config_feat.min(axis=0, keepdims=True),
            config_max=record.config_feat.max(axis=0, keepdims=True),
            max_opcode=record.node_opcode.max(keepdims=True),
        )

    def _check_fit(self, name: str, record: records.TileRecord) -> None:
        """Refuses a kernel whose columns mean something else than before."""
        if self._first is None:
            return
        for what, found in _meaning(record).items():
            expected = _meaning(self._first)[what]
            if found != expected:
                self._misfits += 1
                if not isinstance(found, int):
                    found, expected = 'different', 'others'
                raise ValueError(
                    f'{os.path.join(self._split_dir, name)}: {what}: {found}, '
                    f'but {expected} in {self._first.graph_id}.npz; all files '
                    'of a split must agree')

    def _skip(self, name: str, error: ValueError) -> None:
        """Notes a damaged file, or stops at it."""
        if not self._skip_bad_files:
            raise ValueError(
                f'{error} (--skip_bad_files leaves such files out)') from error
        tqdm.tqdm.write(f'warning: left out: {error}', file=sys.stderr)
        self._skipped.append((name, str(error)))

    def _check_enough(self) -> None:
        """Makes sure that what was left out is the exception."""
        kept = len(self._counts)
        if not kept:
            raise ValueError(
                f'{self._split_dir}: all {len(self._names)} files are damaged, '
                f'such as: {self._skipped[0][1]}')
        if self._misfits > kept:
            raise ValueError(
                f'{self._split_dir}: {self._misfits} files do not agree with '
                f'the first, {self._first.graph_id}.npz, and only {kept} do; '
                'is that one in the wrong place?')


def _meaning(record: records.TileRecord) -> Dict[str, Any]:
    """Returns what all kernels of a split have in common."""
    return {
        'columns of node_feat': record.node_feat.shape[1],
        'columns of config_feat': record.config_feat.shape[1],
        'pad': record.pad,
        'feature_names': record.feature_names,
        'config_feature_names': record.config_feature_names,
    }
