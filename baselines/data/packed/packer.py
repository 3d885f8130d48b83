"""Packs the files of a split, one after the other, into columns.

What a file holds is a collection's business; here is what happens when files are
damaged, or do not fit together.
"""

import abc
import hashlib
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np
import tqdm

from baselines import text
from baselines.data.packed import cache
from baselines.data.packed import columns


def extremes(part: str, features: np.ndarray) -> Dict[str, np.ndarray]:
    """Returns the smallest and the largest value of each column, float32 [1, F]."""
    return {
        f'{part}_min': features.min(axis=0, keepdims=True).astype(np.float32),
        f'{part}_max': features.max(axis=0, keepdims=True).astype(np.float32),
    }


class SplitPacker(abc.ABC):
    """Packs one split; `build` is what `cache.open_or_build` calls.

    Attributes:
        collection: starts the name of the packed folder.
        noun: what a file describes, for messages.
        version: to be raised when columns, their meaning or the checks change.
        has_run: whether anything had to be packed.
    """

    collection: str
    noun: str
    version: int

    def __init__(
        self,
        split_dir: str,
        listing: cache.Listing,
        skip_bad_files: bool,
        progress: bool,
    ):
        """See `splits.PackedSplit.open`."""
        self.has_run = False
        self._split_dir = split_dir
        self._listing = listing
        self._skip_bad_files = skip_bad_files
        self._progress = progress
        self._first: Any = None
        self._graph_ids: List[str] = []
        self._counts: List[Dict[str, int]] = []
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
        bar = tqdm.tqdm(
            total=sum(size for _, size, _ in self._listing),
            desc=f'packing {os.path.basename(self._split_dir)}',
            unit='B',
            unit_scale=True,
            disable=None if self._progress else True,
        )
        with bar:
            for name, size, _ in self._listing:

                def advance(share, start=done, size=size):
                    bar.update(start + int(share * size) - bar.n)

                try:
                    record = self._read(os.path.join(self._split_dir, name), advance)
                    self._check_fit(name, record)
                except ValueError as error:
                    self._skip(name, error)
                else:
                    self._first = self._first or record
                    self._graph_ids.append(record.graph_id)
                    self._has_runtimes |= bool(record.config_runtime[0])
                    self._counts.append(self._append(writer, record))
                done += size
                advance(1)
        self._check_enough()
        for what in self._counts[0]:
            ends = np.cumsum([counts[what] for counts in self._counts])
            writer.append(**{f'{what}_offsets': np.insert(ends, 0, 0).astype(np.int64)})
        return {
            **self._meaning(self._first),
            'graph_ids': self._graph_ids,
            'has_runtimes': self._has_runtimes,
            'skipped': self._skipped,
            'fingerprint': self._content.hexdigest()[:32],
        }

    @abc.abstractmethod
    def _read(self, path: str, advance: Callable[[float], Any]) -> Any:
        """Reads and checks one file; may tell `advance` which share has been read.

        Returns an object with graph_id, config_runtime, node_feat, node_opcode.
        """

    @abc.abstractmethod
    def _append(self, writer: columns.PackedWriter, record: Any) -> Dict[str, int]:
        """Packs one file; returns how many rows of what it has."""

    @abc.abstractmethod
    def _meaning(self, record: Any) -> Dict[str, Any]:
        """Returns what all files of a split have in common.

        It goes into the manifest; the keys are also what messages say.
        """

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
        expected_all = self._meaning(self._first)
        for what, found in self._meaning(record).items():
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
        kept = len(self._counts)
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
