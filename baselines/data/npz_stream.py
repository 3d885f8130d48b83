"""One array of an npz file, block by block, for arrays larger than memory.

    with npz_stream.open_array('graph.npz', 'node_config_feat', 1 << 34) as array:
        for block in array.blocks():        # [rows, ...], about 1 MB each
            ...

A thread unpacks the next block while the caller works on this one.
"""

from concurrent import futures
import contextlib
import math
import os
from typing import BinaryIO, Iterator
import zipfile

import numpy as np

from baselines.data import npz

# Unpacking is fastest, and everything stays in the processor's cache.
_BLOCK_BYTES = 1 << 20
# Fortran order cannot be cut into rows; so much is read whole instead.
_FORTRAN_BYTES = 256 << 20


class StreamedArray:
    """An array in an open npz file.

    Attributes:
        shape: tuple of int.
        dtype: as the file has it.
    """

    def __init__(self, path: str, key: str, member: BinaryIO, size: int):
        """Reads the header; made by `open_array`."""
        self._path = path
        self._key = key
        self._member = member
        self.shape, self._fortran, self.dtype = npz.read_header(path, key, member, size)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all rows in order, once; there is at least one axis.

        Yields:
            [rows, *shape[1:]], at least one row, read-only.

        Raises:
            ValueError: the array ends early, or its checksum is wrong.
        """
        row_shape = self.shape[1:]
        row_bytes = math.prod(row_shape) * self.dtype.itemsize
        if not row_bytes or not self.shape[0]:
            return
        if self._fortran:
            yield self._read_fortran()
            return
        rows = max(1, _BLOCK_BYTES // row_bytes)
        starts = range(0, self.shape[0], rows)
        counts = [min(rows, self.shape[0] - start) for start in starts]
        with futures.ThreadPoolExecutor(1) as pool:
            upcoming = pool.submit(self._read, counts[0] * row_bytes)
            for i, count in enumerate(counts):
                content = upcoming.result()
                if i + 1 < len(counts):
                    upcoming = pool.submit(self._read, counts[i + 1] * row_bytes)
                yield np.frombuffer(content, self.dtype).reshape(count, *row_shape)

    def _read(self, size: int) -> bytes:
        with npz.explain_damage(self._path):
            content = self._member.read(size)
            if len(content) != size:
                raise EOFError(f'{self._key} ends early')
            return content

    def _read_fortran(self) -> np.ndarray:
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > _FORTRAN_BYTES:
            raise npz.FieldError(
                f'{self._path}: {self._key} is in Fortran order and, with '
                f'{size:,} bytes, too large for that; save it again with '
                'numpy.ascontiguousarray'
            )
        array = np.frombuffer(self._read(size), self.dtype)
        return array.reshape(self.shape, order='F')


@contextlib.contextmanager
def open_array(path: str, key: str, max_bytes: int) -> Iterator[StreamedArray]:
    """Opens one array of an npz file; inside the block it can be read.

    Raises:
        ValueError: the file (or the array, unpacked) is damaged or has more than
            `max_bytes`, or there is no such array, now or while blocks are read.
        OSError: the file cannot be read.
    """
    with contextlib.ExitStack() as stack:
        with npz.explain_damage(path):
            archive = stack.enter_context(npz.open_archive(path, max_bytes))
            info = _member_info(path, key, archive)
            if info.file_size > max_bytes:
                raise npz.FieldError(
                    f'{path}: {key} claims {info.file_size:,} bytes, more than '
                    f'the {max_bytes:,} that such a file may have'
                )
            member = stack.enter_context(archive.open(info))
            array = StreamedArray(path, key, member, info.file_size)
        yield array


def _member_info(path: str, key: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(f'{key}.npy')
    except KeyError:
        there = [os.path.splitext(name)[0] for name in archive.namelist()]
        raise npz.missing(path, key, there) from None
