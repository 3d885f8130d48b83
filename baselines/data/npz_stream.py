"""One array of an npz file, block by block, for arrays larger than memory.

    with npz_stream.open_array('graph.npz', 'node_config_feat', 1 << 34) as array:
        for block in array.blocks:          # [rows, ...], about 1 MB each
            ...

A thread unpacks the next block while the caller works on this one.
"""

from concurrent import futures
import contextlib
import math
import os
from typing import Callable, Generator, Iterator, Literal, NamedTuple, Tuple

import numpy as np

from baselines.data import npz

# Unpacking is fastest, and everything stays in the processor's cache.
_BLOCK_BYTES = 1 << 20
# Fortran order cannot be cut into rows; so much is read whole instead.
_FORTRAN_BYTES = 256 << 20


class StreamedArray(NamedTuple):
    """An array in an open npz file.

    Attributes:
        shape: of all of it.
        dtype: as the file has it.
        blocks: all rows in order, once; there is at least one axis.  Each is
            [rows, *shape[1:]], at least one row, read-only.
    """

    shape: Tuple[int, ...]
    dtype: np.dtype
    blocks: Iterator[np.ndarray]


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
            names = archive.namelist()
            if f'{key}.npy' not in names:
                there = [os.path.splitext(name)[0] for name in names]
                raise npz.missing(path, key, there)
            size = archive.getinfo(f'{key}.npy').file_size
            if size > max_bytes:
                raise npz.FieldError(
                    f'{path}: {key} claims {size:,} bytes, more than the '
                    f'{max_bytes:,} that such a file may have'
                )
            member = stack.enter_context(archive.open(f'{key}.npy'))
            shape, fortran, dtype = npz.read_header(path, key, member, size)

        def read(size: int) -> bytes:
            with npz.explain_damage(path):
                content = member.read(size)
                if len(content) != size:
                    raise EOFError(f'{key} ends early')
                return content

        # Closed before the file is, as a thread reads ahead.
        place = f'{path}: {key}'
        order: Literal['C', 'F'] = 'F' if fortran else 'C'
        with contextlib.closing(_blocks(place, shape, order, dtype, read)) as blocks:
            yield StreamedArray(shape, dtype, blocks)


def _blocks(
    place: str,
    shape: Tuple[int, ...],
    order: Literal['C', 'F'],
    dtype: np.dtype,
    read: Callable[[int], bytes],
) -> Generator[np.ndarray, None, None]:
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    if not row_bytes or not shape[0]:
        return
    rows, size = max(1, _BLOCK_BYTES // row_bytes), shape[0] * row_bytes
    if order == 'F':
        rows = shape[0]
        if size > _FORTRAN_BYTES:
            raise npz.FieldError(
                f'{place} is in Fortran order and, with {size:,} bytes, too large '
                'for that; save it again with numpy.ascontiguousarray'
            )
    counts = [min(rows, shape[0] - start) for start in range(0, shape[0], rows)]
    with futures.ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(read, counts[0] * row_bytes)
        for count, following in zip(counts, [*counts[1:], 0]):
            content = upcoming.result()
            if following:
                upcoming = pool.submit(read, following * row_bytes)
            block = np.frombuffer(content, dtype)
            yield block.reshape((count, *shape[1:]), order=order)
