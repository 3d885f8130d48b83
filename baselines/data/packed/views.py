"""Graphs of packed splits as another split, read where they are.

    joined = view([train, valid], [[0, 5, 7], [2]], 'three and one')

A view is a store of its splits' class, so whatever takes a store takes it.  Its
long columns are `GatheredRows`: nothing of them is copied or packed again, and a
graph's rows are still a plain view of the mapped file.
"""

from typing import Any, Dict, Optional, Sequence, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from numpy.typing import DTypeLike

from baselines.data.packed import splits

SplitType = TypeVar('SplitType', bound=splits.PackedSplit)


class GatheredRows:
    """Pieces of some arrays, put end to end without copying them.

    Indexed by a slice within one piece it gives a view, by a longer slice or an
    integer array a copy of the rows asked for; `np.asarray` copies all.

    Args:
        bases: arrays that differ in their number of rows alone.
        of_base: int [pieces], which array a piece is of.
        starts: int [pieces], its first row there.
        sizes: int [pieces], its number of rows.

    Attributes:
        shape: tuple, that of the array which this stands for.
        dtype: of its values.
    """

    def __init__(
        self,
        bases: Sequence[np.ndarray],
        of_base: np.ndarray,
        starts: np.ndarray,
        sizes: np.ndarray,
    ):
        kept = np.asarray(sizes) > 0
        of_base, starts, sizes = (
            np.asarray(part, np.int64)[kept] for part in (of_base, starts, sizes)
        )
        # What follows its predecessor in the same array is one piece with it.
        is_new = np.full(len(sizes), True)
        is_next = starts[1:] == starts[:-1] + sizes[:-1]
        is_new[1:] = (of_base[1:] != of_base[:-1]) | ~is_next
        first = np.flatnonzero(is_new)
        ends = np.cumsum(sizes)
        self._bases = list(bases)
        self._of_base = of_base[first]
        self._starts = starts[first]
        self._begins = (ends - sizes)[first]
        self._ends = np.append(self._begins[1:], ends[-1:])
        self.dtype = bases[0].dtype
        self.shape = (int(sizes.sum()), *bases[0].shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(
        self, dtype: DTypeLike = None, copy: Optional[bool] = None
    ) -> np.ndarray:
        whole = self[:]
        return np.array(whole, dtype) if copy else np.asarray(whole, dtype)

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step < 0:
                return self._gather(np.arange(start, stop, step))
            return self._slice(start, max(start, stop))[::step]
        return self._gather(np.asarray(key))

    def _slice(self, start: int, stop: int) -> np.ndarray:
        if start == stop:
            return self._bases[0][:0]
        first = np.searchsorted(self._ends, start, side='right')
        last = np.searchsorted(self._ends, stop)
        parts = []
        for piece in range(first, last + 1):
            shift = self._starts[piece] - self._begins[piece]
            low = max(start, self._begins[piece]) + shift
            high = min(stop, self._ends[piece]) + shift
            parts.append(self._bases[self._of_base[piece]][low:high])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        if rows.dtype.kind not in 'iu':
            raise TypeError(f'rows are chosen by whole numbers, not by {rows.dtype}')
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f'rows {rows.min()} to {rows.max()} of {len(self)}')
        piece = np.searchsorted(self._ends, rows, side='right')
        there = rows + (self._starts - self._begins)[piece]
        of_base = self._of_base[piece]
        found = np.empty((*rows.shape, *self.shape[1:]), self.dtype)
        for number, base in enumerate(self._bases):
            mine = of_base == number
            found[mine] = base[there[mine]]
        return found


def view(
    stores: Sequence[SplitType],
    graphs: Sequence[ArrayLike],
    source: str,
    fingerprint: str,
) -> SplitType:
    """Makes a split of some graphs of others.

    Args:
        stores: packed splits of one collection, whose columns mean the same.
        graphs: for each split, the numbers of the graphs that are wanted; those
            of the first split come first.
        source: what the view is called, in messages.
        fingerprint: of the view.
    """
    numbers = [np.asarray(wanted, np.int64) for wanted in graphs]
    of_store = np.repeat(np.arange(len(stores)), [len(wanted) for wanted in numbers])
    picked = list(zip(stores, numbers))
    arrays: Dict[str, Any] = {}
    for what in sorted(set(stores[0].columns.values()) - {'graph'}):
        offsets = [np.asarray(s.arrays[f'{what}_offsets']) for s in stores]
        starts = np.concatenate([o[:-1][n] for o, n in zip(offsets, numbers)])
        sizes = np.concatenate([np.diff(o)[n] for o, n in zip(offsets, numbers)])
        arrays[f'{what}_offsets'] = np.insert(np.cumsum(sizes), 0, 0)
        for column, owner in stores[0].columns.items():
            if owner == what:
                arrays[column] = GatheredRows(
                    [s.arrays[column] for s in stores], of_store, starts, sizes
                )
    for column, owner in stores[0].columns.items():
        if owner == 'graph':
            arrays[column] = np.concatenate(
                [np.asarray(s.arrays[column])[n] for s, n in picked]
            )
    manifest = {
        **stores[0].manifest,
        'graph_ids': [s.graph_ids[i] for s, some in picked for i in some],
        'has_runtimes': any(s.has_runtimes for s, some in picked if len(some)),
        'skipped': [entry for s in stores for entry in s.skipped],
        'folders': [entry for s in stores for entry in s.manifest.get('folders', ())],
        'fingerprint': fingerprint,
    }
    return type(stores[0])(source, manifest, arrays)
