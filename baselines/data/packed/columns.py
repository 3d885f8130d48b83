"""A folder of binary columns and a manifest: appended to by row, then memory-mapped.

Records of different lengths are packed end to end into a few long arrays; which
rows belong to which record is a column of offsets like any other.  Building
takes as much memory as one record, opening maps the files and reads only small
ones.  The caller decides what the columns mean.
"""

import contextlib
import io
import json
import os
from typing import IO

import numpy as np

from baselines.core import text
from baselines.core import untrusted

MANIFEST = 'manifest.json'

_BUFFER = 1 << 16  # bytes of a column that are written at once


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
                path = self._folder and _path(self._folder, name)
                stream = open(path, 'wb', _BUFFER) if path else io.BytesIO()
                self._columns[name] = _Column(stream, array)
            self._columns[name].append(array)

    def num_rows(self, name: str) -> int:
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
            else np.memmap(_path(folder, name), dtype, 'r', shape=tuple(shape))
        )
        arrays[name] = array
    return manifest, arrays


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, f'{name}.bin')
