"""A folder of plain `.npy` columns and a manifest: grown row by row, then mapped.

Records of different lengths are packed end to end into a few long arrays; which
rows belong to which record is a column of offsets like any other.  Building
takes as much memory as one record, opening maps the files and reads only small
ones.  What the columns mean is the caller's business.

Against bits that flip on a disk the manifest has a checksum for each column's
rows and for itself.  Opening compares its own, and those of columns of up to
16 MB (all offsets and limits, and data of that size); `verify` compares all.
"""

import contextlib
import json
import os
import tokenize
from typing import Any, Dict, List, Mapping, Tuple, Union
import zlib

import numpy as np

from baselines import files

MANIFEST = 'manifest.json'

_READ_ON_OPENING = 16 << 20

# Every header is padded to this, so that the number of rows, known last, fits.
_HEADER_BYTES = 128


class PackedWriter:
    """Writes a packed folder; columns come into being when first appended to.

    Nothing is usable before `finish`: the manifest is written last.  Leaving
    the `with` block closes the files either way.
    """

    def __init__(self, folder: str):
        """Starts packing into `folder`, which exists and is empty."""
        self._folder = folder
        self._columns: Dict[str, _Column] = {}

    def __enter__(self) -> 'PackedWriter':
        return self

    def __exit__(self, *unused_error: Any) -> None:
        for column in self._columns.values():
            column.abandon()

    def append(self, **rows: np.ndarray) -> None:
        """Appends rows to the named columns.

        Args:
            **rows: column name to an array [rows, ...]; dtype and row shape of
                a column are those of what was appended to it first.

        Raises:
            ValueError: the rows do not fit their column.
            OSError: the disk is full.
        """
        for name, array in rows.items():
            if name not in self._columns:
                path = os.path.join(self._folder, f'{name}.npy')
                self._columns[name] = _Column(path, array.dtype, array.shape[1:])
            self._columns[name].append(array)

    def num_rows(self, name: str) -> int:
        """How many rows a column has so far."""
        return self._columns[name].rows

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Closes all columns and writes the manifest, all of it on the disk.

        Args:
            manifest: what JSON can hold; 'columns' is ours.
        """
        described = {name: column.finish() for name, column in self._columns.items()}
        manifest = {**manifest, 'columns': described}
        path = os.path.join(self._folder, MANIFEST)
        with open(path, 'w', encoding='utf-8') as stream:
            json.dump({**manifest, 'crc32': _manifest_checksum(manifest)}, stream)
            stream.flush()
            os.fsync(stream.fileno())


class MemoryWriter:
    """Takes rows as a `PackedWriter` does, and keeps them in memory."""

    def __init__(self):
        self._parts: Dict[str, List[np.ndarray]] = {}
        self._rows: Dict[str, int] = {}

    def append(self, **rows: np.ndarray) -> None:
        """Appends rows to the named columns, arrays [rows, ...]."""
        for name, array in rows.items():
            self._parts.setdefault(name, []).append(array)
            self._rows[name] = self.num_rows(name) + len(array)

    def num_rows(self, name: str) -> int:
        """How many rows a column has so far."""
        return self._rows.get(name, 0)

    def columns(self) -> Dict[str, np.ndarray]:
        """Returns all columns."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


Writer = Union[PackedWriter, MemoryWriter]


def read_manifest(folder: str) -> Dict[str, Any]:
    """Reads a packed folder's manifest and compares its files with it.

    Raises:
        ValueError: something is missing, cut off or not ours.
        OSError: the manifest, or a column's file, is not there.
    """
    path = os.path.join(folder, MANIFEST)
    with files.open_regular(path) as stream:
        manifest = json.load(stream)
    columns = manifest.get('columns') if isinstance(manifest, dict) else None
    if not isinstance(columns, dict):
        raise ValueError(f'{path}: lists no columns')
    if manifest.pop('crc32', None) != _manifest_checksum(manifest):
        raise ValueError(f'{path}: its checksum is wrong')
    for name, described in columns.items():
        column = os.path.join(folder, f'{name}.npy')
        if os.path.getsize(column) != described['bytes']:
            raise ValueError(f'{column}: its size is not what {path} says')
    return manifest


def map_columns(folder: str, manifest: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Maps all columns of a packed folder, read-only; raises as `read_manifest`."""
    mapped = {}
    for name, described in manifest['columns'].items():
        path = os.path.join(folder, f'{name}.npy')
        try:
            # Not np.load, which takes other formats, too, by their first bytes.
            array = np.lib.format.open_memmap(path, mode='r')
        except (ValueError, tokenize.TokenError) as error:  # as NumPy reads it
            raise ValueError(f'{path}: its header is damaged') from error
        found = {'dtype': array.dtype.str, 'shape': list(array.shape)}
        if any(described[key] != value for key, value in found.items()):
            raise ValueError(f'{path}: its header is not what the manifest says')
        if array.nbytes <= _READ_ON_OPENING:
            _verify_column(path, array, described)
        mapped[name] = array
    return mapped


def verify(folder: str) -> int:
    """Reads all of a packed folder; returns the number of bytes.

    Raises:
        ValueError: a column is not what was written; says which.
        OSError: a file cannot be read.
    """
    manifest = read_manifest(folder)
    for name, array in map_columns(folder, manifest).items():
        path = os.path.join(folder, f'{name}.npy')
        _verify_column(path, array, manifest['columns'][name])
    return sum(described['bytes'] for described in manifest['columns'].values())


def _verify_column(path: str, array: np.ndarray, described: Mapping) -> None:
    found = zlib.crc32(array.reshape(-1).view(np.uint8).data) if array.size else 0
    if found != described['crc32']:
        raise ValueError(
            f'{path}: its checksum is wrong, so the disk or memory is at fault; '
            f'remove {os.path.dirname(path)}, it is made anew'
        )


def _manifest_checksum(manifest: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


class _Column:
    """One growing `.npy` file, of so many `rows` now."""

    def __init__(self, path: str, dtype: np.dtype, row_shape: Tuple[int, ...]):
        self._path = path
        self._dtype = np.dtype(dtype)
        self._row_shape = tuple(row_shape)
        self.rows = 0
        self._crc32 = 0
        self._stream = open(path, 'wb')
        self._stream.write(self._header())

    def append(self, rows: np.ndarray) -> None:
        if rows.dtype != self._dtype or rows.shape[1:] != self._row_shape:
            raise ValueError(
                f'{self._path}: rows of {rows.dtype}{rows.shape[1:]} do not fit '
                f'a column of {self._dtype}{self._row_shape}'
            )
        content = np.ascontiguousarray(rows)
        if content.size:
            self._crc32 = zlib.crc32(
                content.reshape(-1).view(np.uint8).data, self._crc32
            )
        self._stream.write(content.data)
        self.rows += len(rows)

    def finish(self) -> Dict[str, Any]:
        """Completes the file; returns its entry in the manifest."""
        self._stream.seek(0)
        self._stream.write(self._header())
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        return {
            'dtype': self._dtype.str,
            'shape': [self.rows, *self._row_shape],
            'bytes': os.path.getsize(self._path),
            'crc32': self._crc32,
        }

    def abandon(self) -> None:
        """Closes the file if it is open; on a full disk even that may fail."""
        with contextlib.suppress(OSError):
            self._stream.close()

    def _header(self) -> bytes:
        # The npy format, version 1.0: magic, length, a dict, spaces, newline.
        shape = (self.rows, *self._row_shape)
        described = {'descr': self._dtype.str, 'fortran_order': False, 'shape': shape}
        text = repr(described).encode('ascii')
        start = b'\x93NUMPY\x01\x00' + (_HEADER_BYTES - 10).to_bytes(2, 'little')
        return start + text.ljust(_HEADER_BYTES - 11) + b'\n'
