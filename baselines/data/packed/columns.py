"""A folder of binary columns and a manifest: appended to by row, then memory-mapped.

Records of different lengths are packed end to end into a few long arrays; which
rows belong to which record is a column of offsets like any other.  Building
takes as much memory as one record, opening maps the files and reads only small
ones.  The caller decides what the columns mean.

To detect disk errors, the manifest has a checksum of each column and of itself.
Opening verifies its own, and those of columns of up to 16 MB (all offsets and limits,
and data of that size), or all on request.
"""

import contextlib
import io
import json
import math
import os
from typing import IO
import zlib

import numpy as np

from baselines.core import text
from baselines.core import untrusted

MANIFEST = 'manifest.json'

MAX_VERIFIED_ON_OPENING = 16 << 20
_BUFFER = 1 << 16  # bytes of a column that are written at once


class _Column:
    """A column being written: its stream, row count and checksum."""

    def __init__(self, stream: IO[bytes], like: np.ndarray):
        self.stream = stream
        self.dtype, self.row_shape = like.dtype, like.shape[1:]
        self.rows, self._crc32 = 0, 0
        self._waiting: list[bytes] = []  # rows that are not written yet
        self._size = 0  # their bytes

    def append(self, rows: np.ndarray) -> None:
        """Writes rows; raises ValueError for another dtype or row shape."""
        if rows.dtype != self.dtype or rows.shape[1:] != self.row_shape:
            raise ValueError(
                f'rows of {rows.dtype}{rows.shape[1:]} do not fit a column of '
                f'{self.dtype}{self.row_shape}'
            )
        self.rows += len(rows)
        if rows.nbytes > _BUFFER:  # without a copy
            self.flush()
            self._write(_bytes(rows))
            return
        self._waiting.append(rows.tobytes())
        self._size += rows.nbytes
        if self._size > _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait."""
        self._write(b''.join(self._waiting))
        self._waiting, self._size = [], 0

    def _write(self, content: bytes | memoryview) -> None:
        self._crc32 = zlib.crc32(content, self._crc32)
        self.stream.write(content)

    def content(self) -> bytes:
        """Returns all rows of a column in memory."""
        self.flush()
        self.stream.seek(0)
        return self.stream.read()

    def described(self) -> text.JsonObject:
        """Returns the column's entry in the manifest."""
        shape = [self.rows, *self.row_shape]
        return {'dtype': self.dtype.str, 'shape': shape, 'crc32': self._crc32}


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
                stream = open(path, 'wb') if path else io.BytesIO()
                self._columns[name] = _Column(stream, array)
            self._columns[name].append(array)

    def num_rows(self, name: str) -> int:
        """Returns how many rows a column has so far."""
        return self._columns[name].rows

    def finish(self, manifest: text.JsonObject) -> None:
        """Closes the files and writes the manifest; syncs all of them to disk.

        Args:
            manifest: entries that JSON can hold; 'columns' and 'crc32' are added.
        """
        for column in self._columns.values():
            column.flush()
            column.stream.flush()
            os.fsync(column.stream.fileno())
            column.stream.close()
        described = {name: column.described() for name, column in self._columns.items()}
        manifest = {**manifest, 'columns': described}
        path = os.path.join(self._folder, MANIFEST)
        with open(path, 'w', encoding='utf-8') as stream:
            json.dump({**manifest, 'crc32': _crc32(manifest)}, stream)
            stream.flush()
            os.fsync(stream.fileno())

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the columns in memory, read-only."""
        return {
            name: np.frombuffer(column.content(), column.dtype).reshape(
                -1, *column.row_shape
            )
            for name, column in self._columns.items()
        }


def open_folder(
    folder: str, read_all: bool = False
) -> tuple[text.JsonObject, dict[str, np.ndarray]]:
    """Maps the columns of a packed folder.

    Args:
        read_all: compare all columns with their checksums, not only small ones.

    Returns:
        The manifest, and the columns by name, read-only.

    Raises:
        ValueError: a file, which the message names, is truncated, damaged or foreign.
        OSError: the manifest, or a column's file, is not there.
    """
    path = os.path.join(folder, MANIFEST)
    manifest = untrusted.loads(untrusted.read(path), finite=False)
    if not isinstance(manifest, dict) or manifest.pop('crc32', 0) != _crc32(manifest):
        raise ValueError(f'{path}: its checksum is wrong')
    arrays = {}
    for name, described in manifest['columns'].items():
        path = _path(folder, name)
        dtype, shape = np.dtype(described['dtype']), tuple(described['shape'])
        size = math.prod(shape) * dtype.itemsize
        if os.path.getsize(path) != size:
            raise ValueError(f'{path}: its size is not what the manifest says')
        # An empty file cannot be mapped.
        array: np.ndarray = (
            np.memmap(path, dtype, 'r', shape=shape) if size else np.empty(shape, dtype)
        )
        is_read = read_all or size <= MAX_VERIFIED_ON_OPENING
        if is_read and zlib.crc32(_bytes(array)) != described['crc32']:
            raise ValueError(
                f'{path}: its checksum is wrong, so the disk or memory is at '
                f'fault; remove {folder}, it will be rebuilt'
            )
        arrays[name] = array
    return manifest, arrays


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, f'{name}.bin')


def _bytes(rows: np.ndarray) -> memoryview:
    """Returns the bytes of rows, in C order."""
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data


def _crc32(manifest: text.JsonObject) -> int:
    """Computes the checksum of a manifest without its own."""
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())
