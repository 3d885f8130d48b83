"""Packs the files of a split into a folder of binary columns and a manifest.

Records of different lengths are packed end to end into a few long arrays; which rows
belong to which record is a column of offsets like any other.  Building takes as much
memory as one record, opening maps the files and reads only small ones.  Collections
define what a file holds.
"""

from collections.abc import Mapping, Sequence
import contextlib
import hashlib
import io
import json
import os
import re
import sys
from typing import IO, Any

import numpy as np
import tqdm

from baselines.core import phases
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections
from baselines.hlo import schema

MANIFEST = 'manifest.json'

_BUFFER = 1 << 16  # bytes of a column that are written at once
_NO_EXTRA = np.empty((0, len(schema.EXTRA)), np.float32)

# A subclass of `splits.PackedSplit`; that file imports this one.
SplitClass = Any


class _Column:
    """A column being written: its stream and what its rows are."""

    def __init__(self, stream: IO[bytes], like: np.ndarray):
        self.stream = stream
        self.dtype, self.row_shape = like.dtype, like.shape[1:]
        self.rows = 0

    def append(self, rows: np.ndarray) -> None:
        """Writes rows; raises ValueError for another dtype or row shape."""
        if rows.dtype != self.dtype or rows.shape[1:] != self.row_shape:
            raise ValueError(
                f'rows of {rows.dtype}{rows.shape[1:]} do not fit a column of '
                f'{self.dtype}{self.row_shape}'
            )
        self.rows += len(rows)
        self.stream.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)


class Writer:
    """Writes columns; a column is created by the first append to it.

    With a folder, columns are its files, unusable before `finish` writes the manifest;
    without one, they are in memory.  Leaving the `with` block closes the files.
    """

    def __init__(self, folder: str = ''):
        """Starts packing into `folder`, which is empty, or with '' into memory."""
        self._folder = folder
        self._columns: dict[str, _Column] = {}

    def __enter__(self) -> 'Writer':
        return self

    def __exit__(self, *unused_error: object) -> None:
        for column in self._columns.values():
            with contextlib.suppress(OSError):  # on a full disk even that may fail
                column.stream.close()

    def append(self, **rows: np.ndarray) -> None:
        """Appends rows to the named columns.

        Args:
            **rows: column name to an array [rows, ...]; the first array of a column
                decides its dtype and row shape.

        Raises:
            ValueError: the rows do not fit their column.
            OSError: the disk is full.
        """
        for name, array in rows.items():
            if name not in self._columns:
                path = self._folder and _make_path(self._folder, name)
                stream = open(path, 'wb', _BUFFER) if path else io.BytesIO()
                self._columns[name] = _Column(stream, array)
            self._columns[name].append(array)

    def count_rows(self, name: str) -> int:
        """Returns how many rows a column has so far."""
        return self._columns[name].rows

    def finish(self, manifest: text.JsonObject) -> None:
        """Closes the files and writes the manifest; syncs all of them to disk.

        Args:
            manifest: entries that JSON can hold; 'columns' is added.
        """
        described = {}
        for name, column in self._columns.items():
            column.stream.flush()
            # Before the manifest, which makes the folder valid.
            os.fsync(column.stream.fileno())
            column.stream.close()
            described[name] = column.dtype.str, [column.rows, *column.row_shape]
        path = os.path.join(self._folder, MANIFEST)
        with open(path, 'w', encoding='utf-8') as stream:
            json.dump({**manifest, 'columns': described}, stream)
            stream.flush()
            os.fsync(stream.fileno())

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the columns in memory, read-only."""
        arrays = {}
        for name, column in self._columns.items():
            column.stream.seek(0)
            flat = np.frombuffer(column.stream.read(), column.dtype)
            arrays[name] = flat.reshape(-1, *column.row_shape)
        return arrays


def open_folder(folder: str) -> tuple[text.JsonObject, dict[str, np.ndarray]]:
    """Maps the columns of a packed folder.

    Returns:
        The manifest, and the columns by name, read-only.

    Raises:
        ValueError: the manifest is damaged, or a file is shorter than it says.
        OSError: the manifest, or a column's file, is not there.
    """
    manifest = untrusted.loads(untrusted.read(os.path.join(folder, MANIFEST)))
    arrays = {}
    for name, (dtype, shape) in manifest['columns'].items():
        # An empty file cannot be mapped.
        array: np.ndarray = (
            np.empty(shape, dtype)
            if 0 in shape
            else np.memmap(_make_path(folder, name), dtype, 'r', shape=tuple(shape))
        )
        arrays[name] = array
    return manifest, arrays


def _make_path(folder: str, name: str) -> str:
    return os.path.join(folder, f'{name}.bin')


def find_extremes(record: Any, configs: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the columns of a graph's extremes: least and largest features, opcode.

    Args:
        record: with node_feat and node_opcode.
        configs: [rows, K], the features of its configurations.
    """
    limits = {}
    for part, features in (('node', record.node_feat), ('config', configs)):
        limits[f'{part}_min'] = features.min(axis=0, keepdims=True).astype(np.float32)
        limits[f'{part}_max'] = features.max(axis=0, keepdims=True).astype(np.float32)
    return {**limits, 'max_opcode': record.node_opcode.max(keepdims=True)}


class Packer:
    """Appends graphs to a writer, and records the offsets of their rows."""

    def __init__(self, writer: Writer, kind: SplitClass):
        self.writer, self._kind = writer, kind
        # A column of each whose rows are counted.
        self._counted = {
            owner: name for name, owner in kind.columns.items() if owner != 'graph'
        }
        self._offsets: dict[str, list[int]] = {owner: [0] for owner in self._counted}
        self._format: dict[str, int] = {}  # of the first graph
        self._graph_ids: list[str] = []
        self._has_runtimes = False

    def add(self, record: Any) -> dict[str, np.ndarray]:
        """Packs a graph; returns the arrays that the fingerprint is of.

        Raises:
            ValueError: its numbers of columns or its `pad` are not the first graph's.
        """
        format_ = _describe_format(record)
        self._format = self._format or format_
        for name, value in format_.items():
            expected = self._format[name]
            if value != expected:
                raise ValueError(
                    f'{name}: {value}, but {expected} in {self._graph_ids[0]}.npz; '
                    'all files of a split must agree'
                )
        content = self._kind.pack(self.writer, record)
        if 'xla_release' in self._kind.columns:
            release = np.array([record.xla_release], np.int64)
            self.writer.append(xla_release=release)
            if record.xla_release:  # fingerprints of other data stay what they were
                content['xla_release'] = release
        extra = _NO_EXTRA
        if record.node_feat_extra is not None:
            content['node_feat_extra'] = extra = record.node_feat_extra
        self.writer.append(node_feat_extra=extra)
        self._end(record.graph_id, record.config_runtime)
        return content

    def copy(self, graph_id: str, rows: Mapping[str, np.ndarray]) -> None:
        """Packs a graph of another packed split of the same class.

        Args:
            rows: the graph's rows of each column.
        """
        self.writer.append(**rows)
        self._end(graph_id, rows['config_runtime'])

    def _end(self, graph_id: str, runtimes: np.ndarray) -> None:
        """Records the end of a graph's rows in all columns."""
        self._graph_ids.append(graph_id)
        self._has_runtimes |= bool(runtimes.any())
        for owner, name in self._counted.items():
            self._offsets[owner].append(self.writer.count_rows(name))

    def finish(self) -> text.JsonObject:
        """Packs the offsets of the graphs' rows; returns entries for the manifest."""
        for owner, offsets in self._offsets.items():
            self.writer.append(**{f'{owner}_offsets': np.array(offsets, np.int64)})
        return {
            **self._format,
            'graph_ids': self._graph_ids,
            'has_runtimes': self._has_runtimes,
            'skipped': [],
            'fingerprint': '',
        }


def pack_files(
    writer: Writer,
    kind: SplitClass,
    split_dir: str,
    names: Sequence[str],
    skip_bad_files: bool,
) -> text.JsonObject:
    """Packs the files of a folder; returns entries for the manifest.

    Raises:
        ValueError: a file is damaged or does not fit the first one, unless such files
            are skipped; or no file is left.
        OSError: reading or writing fails.
    """
    # The fingerprint is of ids and contents, not of paths or times: it is the same
    # on every machine, and runs record it.
    packer, content = Packer(writer, kind), hashlib.sha256()
    skipped: list[tuple[str, str]] = []
    title = f'packing {os.path.basename(split_dir)}'
    for name in phases.each(names, title, len(names), 'file'):
        path = os.path.join(split_dir, name)
        try:
            record = kind.read(path)
            with text.locate_errors(path):
                _check_id(record.graph_id)
                arrays = packer.add(record)
        except ValueError as error:
            # The first bad file stops; with the flag each is named and left out.
            if not skip_bad_files:
                advice = '--skip_bad_files leaves such files out'
                raise ValueError(f'{error} ({advice})') from error
            warning = f'warning: left out: {text.one_line(error)}'
            tqdm.tqdm.write(warning, file=sys.stderr)
            skipped.append((name, str(error)))
        else:
            content.update(record.graph_id.encode())
            for array in arrays.values():
                # [2, 3] and [3, 2] may have the same bytes.
                content.update(repr(array.shape).encode())
                content.update(np.ascontiguousarray(array).data)
    if len(skipped) == len(names):
        raise ValueError(
            f'{split_dir}: all of {text.count(len(names), "file")} damaged, such as: '
            f'{skipped[0][1]}'
        )
    fingerprint = content.hexdigest()[:32]
    return {**packer.finish(), 'skipped': skipped, 'fingerprint': fingerprint}


def _check_id(graph_id: str) -> None:
    """Raises ValueError for a name that no ranking can hold."""
    if not re.fullmatch(collections.GRAPH_ID, graph_id):
        raise ValueError(
            'rename it: the name of a graph has no space, line break, comma, colon, '
            'semicolon or quote, which rankings could not hold'
        )


def _describe_format(record: Any) -> dict[str, int]:
    """Returns what all graphs of a split share, numbers of columns and `pad`.

    The names go into messages and manifests.
    """
    widths = {
        f'columns of {key}': getattr(record, key).shape[1]
        for key in ('node_feat', 'config_feat')
        if hasattr(record, key)
    }
    return {**widths, 'pad': record.pad}
