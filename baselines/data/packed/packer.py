"""Packs the files of a split, one after the other, into columns.

What a file holds is a collection's business; here is what happens when files are
damaged, or do not fit together.
"""

import hashlib
import os
import sys
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import tqdm

from baselines import phases
from baselines import text
from baselines.data.packed import columns

# All files of a split have these in common, as far as a collection has them.
_WIDTHS = ('node_feat', 'config_feat')
_SHARED = ('pad', 'feature_names', 'config_feature_names')


def extremes(record: Any, configs: np.ndarray) -> Dict[str, np.ndarray]:
    """Returns the columns that say from where to where the features of a graph go.

    Args:
        record: with node_feat and node_opcode.
        configs: [rows, K], the features of its configurations.
    """
    found = {}
    for part, features in (('node', record.node_feat), ('config', configs)):
        found[f'{part}_min'] = features.min(axis=0, keepdims=True).astype(np.float32)
        found[f'{part}_max'] = features.max(axis=0, keepdims=True).astype(np.float32)
    return {**found, 'max_opcode': record.node_opcode.max(keepdims=True)}


class SplitPacker:
    """Packs graphs; `build` is what `cache.open_or_build` calls.

    Attributes:
        has_run: whether anything had to be packed.
    """

    def __init__(
        self,
        kind: Any,
        split_dir: str = '',
        listing: Sequence[Tuple[str, int, int]] = (),
        skip_bad_files: bool = False,
    ):
        """Packs graphs of a `splits.PackedSplit`, `kind`; see its `open`."""
        self.has_run = False
        self._kind = kind
        # A column of each whose rows are counted.
        self._counted = {
            what: name for name, what in kind.columns.items() if what != 'graph'
        }
        self._offsets: Dict[str, List[int]] = {what: [0] for what in self._counted}
        self._split_dir = split_dir
        self._listing = listing
        self._skip_bad_files = skip_bad_files
        self._first: Any = None
        self._graph_ids: List[str] = []
        self._skipped: List[Tuple[str, str]] = []
        self._misfits = 0
        self._content = hashlib.sha256()
        self._has_runtimes = False

    def build(self, writer: columns.PackedWriter) -> Dict[str, Any]:
        """Packs every file; returns what goes into the manifest.

        Raises:
            ValueError: a file is damaged and none may be left out, files do not
                fit together, or no file is left.
            OSError: reading or writing fails.
        """
        self.has_run = True
        done = 0
        title = f'packing {os.path.basename(self._split_dir)}'
        total = sum(size for _, size, _ in self._listing)
        with phases.Phase(title, total, 'B') as phase:
            for name, size, _ in self._listing:

                def advance(share: float, start: int = done, size: int = size) -> None:
                    phase.update(start + int(share * size) - phase.done)

                try:
                    path = os.path.join(self._split_dir, name)
                    record = self._kind.read(path, advance)
                    self._check_fit(name, record)
                except ValueError as error:
                    self._skip(name, error)
                else:
                    self._digest(record.graph_id, self.add(writer, record))
                done += size
                advance(1)
        self._check_enough()
        return {**self.finish(writer), 'fingerprint': self._content.hexdigest()[:32]}

    def add(self, writer: columns.Writer, record: Any) -> Dict[str, np.ndarray]:
        """Packs one graph; returns what the fingerprint is of."""
        self._first = self._first or record
        self._graph_ids.append(record.graph_id)
        self._has_runtimes |= bool(record.config_runtime.any())
        content = self._kind.pack(writer, record)
        for what, name in self._counted.items():
            self._offsets[what].append(writer.num_rows(name))
        return content

    def finish(self, writer: columns.Writer) -> Dict[str, Any]:
        """Packs where graphs begin; returns what goes into the manifest."""
        for what, offsets in self._offsets.items():
            writer.append(**{f'{what}_offsets': np.array(offsets, np.int64)})
        return {
            **_meaning(self._first),
            'graph_ids': self._graph_ids,
            'has_runtimes': self._has_runtimes,
            'skipped': self._skipped,
        }

    def _digest(self, graph_id: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Adds a file's content to the fingerprint."""
        self._content.update(graph_id.encode())
        for array in arrays.values():
            self._content.update(repr(array.shape).encode())
            self._content.update(np.ascontiguousarray(array).data)

    def _check_fit(self, name: str, record: Any) -> None:
        """Refuses a file whose columns mean something else than before."""
        if self._first is None:
            return
        expected_all = _meaning(self._first)
        for what, found in _meaning(record).items():
            expected = expected_all[what]
            if found != expected:
                self._misfits += 1
                if not isinstance(found, int):
                    found, expected = 'different', 'others'
                raise ValueError(
                    f'{os.path.join(self._split_dir, name)}: {what}: {found}, '
                    f'but {expected} in {self._first.graph_id}.npz; all files '
                    'of a split must agree'
                )

    def _skip(self, name: str, error: ValueError) -> None:
        """Notes a damaged file, or stops at it."""
        if not self._skip_bad_files:
            raise ValueError(
                f'{error} (--skip_bad_files leaves such files out)'
            ) from error
        tqdm.tqdm.write(f'warning: left out: {text.one_line(error)}', file=sys.stderr)
        self._skipped.append((name, str(error)))

    def _check_enough(self) -> None:
        """Makes sure that what was left out is the exception."""
        kept = len(self._graph_ids)
        if not kept:
            raise ValueError(
                f'{self._split_dir}: all {len(self._listing)} files are '
                f'damaged, such as: {self._skipped[0][1]}'
            )
        if self._misfits > kept:
            raise ValueError(
                f'{self._split_dir}: {self._misfits} files do not agree with '
                f'the first, {self._first.graph_id}.npz, and only {kept} do; '
                'is that one in the wrong place?'
            )


def _meaning(record: Any) -> Dict[str, Any]:
    """Returns what all files of a split have in common.

    It goes into the manifest; the keys are also what messages say.
    """
    widths = {
        f'columns of {key}': getattr(record, key).shape[1]
        for key in _WIDTHS
        if hasattr(record, key)
    }
    shared = {key: getattr(record, key) for key in _SHARED if hasattr(record, key)}
    return {**widths, **shared}
