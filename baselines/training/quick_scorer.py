"""Boosted trees on the configurations of one graph, faster than one by one.

    scorer = QuickScorer.of(trees)      # None: they are not of the kind it takes
    scorer.predict(rows)                # float64 [rows], as LightGBM's

Most splits of a tree ask for what all configurations of a graph share, or for what
lies outside of their range.  These are decided first, and the trees pruned.  What is
left is scored as QuickScorer does (Lucchese et al., "QuickScorer: A Fast Algorithm
to Rank Documents with Additive Ensembles of Regression Trees", SIGIR 2015): a
tree is a field of bits, one for each leaf, from left to right.  A split that sends a
row to the right clears the bits of the leaves on its left.  When all splits
are done, in any order, the lowest bit left of the field is the row's leaf.  What
all splits by one column clear is looked up by the value's place among thresholds.
Pruned trees are small: a dozen of them share a word of 64 bits.
"""

from typing import Mapping, Optional, Sequence, Tuple

import numpy as np

Tree = Mapping[str, Sequence[str]]

_WORD = 64  # bits; no tree has more leaves
_MOST = 20  # words to look up for a row and tree
_MOST_WORDS = 1 << 22  # of masks: 32 MB
_BLOCK = 1 << 8  # rows at once: what is computed of them stays in cache
# `decision_type` of splits that know no missing values.
_PLAIN = {'0', '2'}
_ZERO = float(np.float32(1e-35))  # LightGBM takes what is no larger for 0
_ONE = np.uint64(1)


class QuickScorer:
    """Trees as fields of bits.

    Args:
        trees: LightGBM's lines of each, checked before (`training.trees`).
    """

    def __init__(self, trees: Sequence[Tree]):
        found = [_read(tree) for tree in trees]
        column, threshold, *leaves, self._values = map(np.concatenate, zip(*found))
        sizes = np.array([len(each[-1]) for each in found])
        # Leaves are numbered through all trees.
        self._bounds = np.concatenate([[0], np.cumsum(sizes)])
        tree = np.repeat(np.arange(len(trees)), sizes - 1)
        order = np.lexsort((threshold, column))
        self._column, self._threshold = column[order], threshold[order]
        self._tree = tree[order]
        # A split has the leaves from `first` to `middle` on its left, and then
        # those before `end` on its right.
        self._first, self._middle, self._end = (
            (each + self._bounds[tree])[order] for each in leaves
        )

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Optional['QuickScorer']:
        """Takes trees; None where one is too large, or missing values matter."""
        if any(
            len(tree['leaf_value']) > _WORD or set(tree['decision_type']) - _PLAIN
            for tree in trees
        ):
            return None
        return cls(trees)

    def predict(self, rows: np.ndarray) -> Optional[np.ndarray]:
        """Predicts rows of one graph: float32 [rows, columns] -> float64 [rows].

        Returns None where so much differs between rows that LightGBM is as quick, or
        memory would not do.
        """
        if np.isnan(rows).any():
            rows = np.where(np.isnan(rows), 0, rows)  # as LightGBM does
        live, splits = self._pruned(rows.min(axis=0), rows.max(axis=0))
        before = np.append(0, np.cumsum(live))  # live leaves before each leaf
        ends = before[self._bounds]
        counts = np.diff(ends)
        fields = _fields(counts)
        words = int(fields[-1]) // _WORD + 1
        column, tree = self._column[splits], self._tree[splits]
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        rows_of_masks = len(splits) + len(starts)
        if (
            len(starts) * words > _MOST * len(fields)
            or rows_of_masks * words > _MOST_WORDS
        ):
            return None
        # What its leaf adds, of each bit and then of all values of each byte.
        of_bit = np.zeros(words * _WORD)
        of_bit[np.repeat(fields - ends[:-1], counts) + np.arange(ends[-1])] = (
            self._values[live]
        )
        of_byte = np.zeros((words * 8, 256))
        for bit, values in enumerate(of_bit.reshape(-1, 8).T[..., np.newaxis]):
            half = 1 << bit
            of_byte[:, half : 2 * half] = of_byte[:, :half] + values
        byte = np.arange(0, of_byte.size, 256)
        lowest = np.zeros(words, np.uint64)
        np.add.at(lowest, fields // _WORD, _bits(fields % _WORD))

        # What each split clears: a row behind one that clears nothing.
        first, middle = before[self._first[splits]], before[self._middle[splits]]
        place = fields[tree] + first - ends[tree]
        cleared = (_bits(middle - first) - _ONE) << (place % _WORD).astype(np.uint64)
        bounds = np.append(starts, len(splits))
        row = np.arange(len(splits)) + np.repeat(
            np.arange(1, len(bounds)), np.diff(bounds)
        )
        masks = np.full((rows_of_masks, words), ~np.uint64(0))
        masks[row, place // _WORD] = ~cleared
        # And it together with those of smaller thresholds.
        lookups = []
        for i, (start, end) in enumerate(zip(bounds, bounds[1:])):
            thresholds = self._threshold[splits[start:end]]
            of_column = masks[start + i : end + i + 1]
            np.bitwise_and.accumulate(of_column, axis=0, out=of_column)
            places = np.searchsorted(thresholds, rows[:, column[start]])
            lookups.append((of_column, places))

        sums = np.empty(len(rows))
        for start in range(0, len(rows), _BLOCK):
            some = slice(start, start + _BLOCK)
            left = np.full((len(sums[some]), words), ~np.uint64(0))
            cleared = np.empty_like(left)
            for of_column, found in lookups:
                left &= of_column.take(found[some], 0, cleared, 'clip')
            left &= ~(left - lowest)  # the lowest bit of each field
            np.einsum('ij->i', of_byte.take(left.view(np.uint8) + byte), out=sums[some])
        return sums

    def _pruned(
        self, low: np.ndarray, high: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray]:
        """Decides splits by the ranges of columns.

        Returns:
            bool [leaves], which may be reached; int64, the splits that are left.
        """
        left = high[self._column] <= self._threshold
        right = low[self._column] > self._threshold
        start = np.append(self._first[right], self._middle[left])
        end = np.append(self._middle[right], self._end[left])
        count = len(self._values)
        opened = np.bincount(start, minlength=count)
        closed = np.bincount(end, minlength=count)[:count]
        live = np.cumsum(opened - closed) == 0
        before = np.append(0, np.cumsum(live))
        reached = before[self._first] < before[self._middle]
        return live, np.flatnonzero(reached & ~left & ~right)


def _fields(sizes: np.ndarray) -> np.ndarray:
    """The first bits of fields of some sizes, none of them across two words."""
    places, end = [], 0
    for size in sizes.tolist():
        if end % _WORD + size > _WORD:
            end += -end % _WORD
        places.append(end)
        end += size
    return np.array(places)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """2 to each power, uint64."""
    return _ONE << numbers.astype(np.uint64)


def _read(tree: Tree) -> Tuple[np.ndarray, ...]:
    """Reads a tree, its leaves from left to right.

    Returns:
        Of each split its column and threshold, its first leaf, the first of those on
        its right and the one after the last; the leaves' values.
    """
    left, right = (list(map(int, tree[key])) for key in ('left_child', 'right_child'))
    values = np.array(tree['leaf_value'], float)
    splits = len(left)
    # Children have larger numbers than their parents; those below 0 are leaves.
    width = [1] * splits
    for split in reversed(range(splits)):
        width[split] = sum(
            width[c] if c >= 0 else 1 for c in (left[split], right[split])
        )
    first, middle, order = [0] * splits, [0] * splits, [0] * len(values)
    for split in range(splits):
        start = first[split]
        for child in (left[split], right[split]):
            if child >= 0:
                first[child] = start
            else:
                order[start] = ~child
            start += width[child] if child >= 0 else 1
            middle[split] = middle[split] or start
    threshold = np.array(tree['threshold'], float)
    # What LightGBM takes for 0 is left of such a threshold, or right of it.
    near = np.where(threshold < 0, np.nextafter(-_ZERO, -1), _ZERO)
    threshold = np.where(abs(threshold) <= _ZERO, near, threshold)
    # The next float32 below: float32 values lie on the same side.
    with np.errstate(over='ignore'):
        rounded = threshold.astype(np.float32)
    above = rounded > threshold
    rounded[above] = np.nextafter(rounded[above], np.float32(-np.inf))
    first = np.array(first, int)
    return (
        np.array(tree['split_feature'], int),
        rounded,
        first,
        np.array(middle, int),
        first + np.array(width[:splits], int),
        values[order],
    )
