"""The splits and leaves of gradient-boosted trees as arrays, scored with NumPy.

    nodes = Nodes.from_lines(trees, columns=3)     # lines of LightGBM's text
    nodes.predict(table, nodes.feature)    # float64 [rows]

The text is untrusted: every number is checked against a grammar that Python and
LightGBM read alike.
"""

from collections.abc import Callable, Sequence
import itertools
import re
from re import Pattern
from typing import Any, NamedTuple

import numpy as np

from baselines.core import text as text_lib

MAX_LEAVES = 1 << 16
PER_SPLIT = ('split_feature', 'threshold', 'decision_type', 'left_child', 'right_child')
# What each split gained in training; in trees trained before it was kept it is missing.
GAIN = 'split_gain'
LEAF = 'leaf_value'

# As LightGBM writes them.  Python alone would also take 1_0, and LightGBM alone 1x.
_INT = re.compile(r'-?(0|[1-9][0-9]{0,8})')
FLOAT = re.compile(r'-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?')
# Types of decision: by a number that is never missing.  The 2 says where missing ones
# would go.
_BY_NUMBER = (0, 2)

_NO_TREE = 'left_child and right_child make no tree'

# The lines of a tree in the text, by key.
Lines = dict[str, str]


class Nodes(NamedTuple):
    """The splits and leaves of all trees, one tree after the other.

    Attributes:
        feature: int64 [splits], the column that a split looks at.
        threshold: float64 [splits]; values up to it go left.
        left: int64 [splits], the split there; below 0, -1 less the leaf.
        right: likewise.
        leaf: float64 [leaves], the value that a leaf adds to the score.
        root: int64 [trees], as in `left`.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    root: np.ndarray

    @classmethod
    def from_lines(cls, trees: Sequence[Lines], columns: int) -> 'Nodes':
        """Reads the numbers of trees, and checks them.

        Args:
            columns: the number of columns.

        Raises:
            ValueError: they are no trees that split by numbers; says where.
        """
        for number, tree in enumerate(trees):
            with text_lib.locate_errors(f'tree {number}'):
                _check_lengths(tree)
        feature, kind, left, right = (
            _read_numbers(trees, key, _INT, int)
            for key in ('split_feature', 'decision_type', 'left_child', 'right_child')
        )
        threshold, leaf = read_floats(trees, 'threshold'), read_floats(trees, LEAF)
        leaves = np.array([count_words(tree[LEAF]) for tree in trees])
        tree_of = np.repeat(np.arange(len(trees)), leaves - 1)  # of each split
        is_column = (feature >= 0) & (feature < columns)
        _require(is_column, tree_of, f'split_feature is not one of {columns} columns')
        is_number = np.isin(kind, _BY_NUMBER)
        _require(is_number, tree_of, 'decision_type is not that of a number')
        left, right, root = _link_splits(left, right, leaves)
        return cls(feature, threshold, left, right, leaf, root)

    def predict(self, columns: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Predicts float64 [rows], exactly as LightGBM does.

        Args:
            columns: float32 [rows, columns].
            place: int64 [splits], the column that a split looks at.
        """
        # As LightGBM does where a split's decision type knows no missing numbers.
        columns = np.where(np.isnan(columns), 0, columns)
        count, width = columns.shape
        values = columns.ravel()
        at = np.repeat(self.root, count)  # where each row is in each tree
        start = np.tile(np.arange(count) * width, len(self.root))
        moving = np.flatnonzero(at >= 0)  # not in a leaf yet
        while len(moving):
            split = at[moving]
            value = values[start[moving] + place[split]]
            goes_left = value <= self.threshold[split]
            at[moving] = np.where(goes_left, self.left[split], self.right[split])
            moving = moving[at[moving] >= 0]
        # Added in the order of the trees, on which the last bits depend.
        added = self.leaf[-1 - at].reshape(len(self.root), count)
        total: np.ndarray = np.cumsum(added, axis=0)[-1]
        return total


def _link_splits(
    left: np.ndarray, right: np.ndarray, leaves: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checks that splits are linked to trees, and numbers them through all trees.

    A tree's splits are numbered from the root down, and leaves below 0: so no way is
    endless, and each but the root is the child of one split.

    Args:
        left: int64 [splits], numbered by tree.
        right: likewise.
        leaves: int64 [trees].

    Returns:
        `left`, `right` and `root` of `Nodes`.

    Raises:
        ValueError: they make no tree; says where.
    """
    splits, trees = leaves - 1, np.arange(len(leaves))
    first, first_leaf = np.cumsum(splits) - splits, np.cumsum(leaves) - leaves
    tree_of = np.repeat(trees, splits)
    number = np.arange(len(tree_of)) - first[tree_of]
    linked = []
    for child in (left, right):
        is_inside = (child > number) & (child < splits[tree_of])
        is_leaf = (child < 0) & (child >= -leaves[tree_of])
        _require(is_inside | is_leaf, tree_of, _NO_TREE)
        shift = np.where(is_leaf, -first_leaf[tree_of], first[tree_of])
        linked.append(child + shift)
    root = np.where(splits > 0, first, -1 - first_leaf)
    count = leaves.sum()
    # Leaves are below 0: shifted by their number, they come before the splits.
    seen = np.bincount(np.concatenate([*linked, root]) + count)
    tree_of_seen = np.concatenate([np.repeat(trees, leaves)[::-1], tree_of])
    _require(seen == 1, tree_of_seen, _NO_TREE)
    return linked[0], linked[1], root


def _require(fits: np.ndarray, tree_of: np.ndarray, message: str) -> None:
    """Raises ValueError, with the tree, where something does not fit."""
    if not fits.all():
        raise ValueError(f'tree {tree_of[fits.argmin()]}: {message}')


def _check_lengths(tree: Lines) -> None:
    """Raises ValueError unless each split and leaf of a tree has its numbers."""
    for key in ('num_cat', 'is_linear'):
        if tree.get(key, '0') != '0':
            raise ValueError(f'{key} must be 0')
    leaves = count_words(tree.get(LEAF, ''))
    if not 0 < leaves <= MAX_LEAVES or tree.get('num_leaves') != str(leaves):
        raise ValueError('num_leaves is not the number of leaf_value')
    keys = (*PER_SPLIT, *([GAIN] if GAIN in tree else []))
    if any(count_words(tree.get(key, '')) != leaves - 1 for key in keys):
        raise ValueError(f'{leaves} leaves take {leaves - 1} splits')


def count_words(line: str) -> int:
    """Counts the words of a line."""
    return line.count(' ') + 1 if line else 0


def read_floats(trees: Sequence[Lines], key: str) -> np.ndarray:
    """Returns the numbers of a line of all trees.

    Raises:
        ValueError: one is not written as a number, or not finite; says where.
    """
    return _read_numbers(trees, key, FLOAT, float)


def _read_numbers(
    trees: Sequence[Lines], key: str, grammar: Pattern, kind: Callable[[str], Any]
) -> np.ndarray:
    """Returns the numbers of a line of all trees; see `read_floats`."""
    words = [tree[key].split(' ') if tree.get(key) else [] for tree in trees]
    together = [*itertools.chain.from_iterable(words)]
    if not all(map(grammar.fullmatch, {*together})):
        for number, own in enumerate(words):
            for word in itertools.filterfalse(grammar.fullmatch, own):
                about = f'{text_lib.quoted(word)} is not written as a number'
                raise ValueError(f'tree {number}: {key}: {about}')
    dtype = np.int64 if kind is int else np.float64
    numbers = np.fromiter(map(kind, together), dtype, len(together))
    tree_of = np.repeat(np.arange(len(trees)), [*map(len, words)])
    _require(np.isfinite(numbers), tree_of, f'{key} holds a number that is not finite')
    return numbers
