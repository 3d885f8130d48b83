"""Gradient-boosted trees of LightGBM, as a run keeps them.

    trees = Trees.read(path)        # trees.txt: LightGBM's own text
    trees.predict(columns)          # columns `trees.used` -> float64 [rows]

LightGBM (Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision
Tree", NeurIPS 2017) comes with the extra [trees], and grows trees.
"""

# Trees are scored here: LightGBM's reader crashes or hangs on damaged files (numbers of
# columns out of range, a node that is its own parent), is no faster, and would be
# needed for the run that ships.

from collections.abc import Mapping, Sequence
import hashlib
import os
import re
from re import Match
from typing import NamedTuple

import numpy as np

from baselines.core import text as text_lib
from baselines.core import untrusted
from baselines.trees import nodes as nodes_lib

# 600 trees of 63 leaves take 3 MB.
_MAX_BYTES = 64 << 20
MAX_TREES = 10_000
_MAX_COLUMNS = 1 << 14
_PRIOR = 'prior'  # a line of the header that LightGBM does not have
_HEADER = {'num_class': '1', 'num_tree_per_iteration': '1', 'label_index': '0'}
_STEPS_PER_UNIT = 1 << 13
_BLOCK = 256  # rows that are scored at a time: their places stay in the cache

_COLUMN = re.compile(r'[A-Za-z0-9_]+')
_LEAVES = re.compile(r'^leaf_value=(.*)$', re.MULTILINE)


def round_columns(columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Rounds columns to multiples of 2^-13, which all machines agree on.

    Most columns are logarithms and their sums, whose last bits depend on the
    processor and on NumPy's release.  Trees would otherwise split between two
    roundings of the same number, and rank differently on another machine.

    Args:
        columns: float32 [rows, columns].
        out: an array for the result, such as `columns`; None: a new one.
    """
    steps = np.multiply(columns, np.float32(_STEPS_PER_UNIT), out=out)
    np.round(steps, out=steps)
    steps /= np.float32(_STEPS_PER_UNIT)  # exact: a power of two
    return steps


def shorten_leaves(text: str) -> str:
    """Rounds the leaves in LightGBM's text to nine digits, the precision of float32.

    An eighth of the file is saved; scores are float32.
    """

    def rounded_leaves(line: Match[str]) -> str:
        leaves = [f'{float(value):.9g}' for value in line[1].split()]
        return f'leaf_value={" ".join(leaves)}'

    return _LEAVES.sub(rounded_leaves, text)


class Importance(NamedTuple):
    """How much the splits of trees gain by a column."""

    column: str  # its name
    # the share of its splits in the reduction of the squared error by all splits, in
    # training; None where the file of the trees does not have it
    gain: float | None
    splits: int  # how many splits look at it


class Prior(NamedTuple):
    """An untrained score that trees correct: a column's normal scores in each graph."""

    column: str  # the name of the column, which is lower where it is faster
    weight: float  # the factor of these normal scores


class Trees:
    """Gradient-boosted trees over named columns.

    Attributes:
        names: the names of all columns.
        prior: the column that the trees correct; None: they score alone.
        used: names of the columns that they and the prior look at; `predict` wants
            these alone.

    Args:
        prior: the column that the trees correct; None: the one that the text names.

    Raises:
        ValueError: the text is not of trees that split by numbers.
    """

    def __init__(self, text: str, prior: Prior | None = None):
        self._trees, self.names, stored_prior = _parse_text(text)
        self._nodes = nodes_lib.Nodes.from_lines(self._trees, len(self.names))
        self.prior = prior or stored_prior
        columns = {*self._nodes.feature.tolist()}
        if self.prior:
            columns.add(self.names.index(self.prior.column))
        self._used = sorted(columns or {0})
        self.used = [self.names[column] for column in self._used]
        place = np.zeros(len(self.names), np.int64)
        place[self._used] = np.arange(len(self._used))
        self._place = place[self._nodes.feature]  # of each split's column in `used`

    @classmethod
    def read(cls, path: str) -> 'Trees':
        """Reads the text file of a run.

        Raises:
            ValueError: it is missing or damaged.
        """
        if not os.path.lexists(path):
            raise ValueError(f'{path} is missing; copy directory and run file again')
        content = untrusted.read(path, _MAX_BYTES)
        with text_lib.locate_errors(f'{path}: the trees cannot be read'):
            return cls(content.decode('ascii'))

    def predict(self, columns: np.ndarray) -> np.ndarray:
        """Predicts float64 [rows] from float32 [rows, len(used)], which it rounds."""
        columns = round_columns(columns)
        blocks = np.split(columns, range(_BLOCK, len(columns), _BLOCK))
        scores = [self._nodes.predict(block, self._place) for block in blocks]
        return np.concatenate(scores)

    def compute_importances(self) -> list[Importance]:
        """Returns the columns that splits look at, the most important first.

        Importance is the gain (Breiman et al., "Classification and Regression Trees",
        1984), or the number of splits where gains are not known.  Among correlated
        columns, one may have the gain of the others.
        """
        columns = self._nodes.feature
        splits = np.bincount(columns, minlength=len(self.names))
        shares: list[float | None] = [None] * len(self.names)
        if all(nodes_lib.GAIN in tree for tree in self._trees):
            each = nodes_lib.read_floats(self._trees, nodes_lib.GAIN)
            gains = np.bincount(columns, each, len(self.names))
            shares = (gains / max(gains.sum(), np.finfo(float).tiny)).tolist()
        rows = map(Importance, self.names, shares, splits.tolist())
        used = [row for row in rows if row.splits]
        return sorted(used, key=lambda row: (-(row.gain or 0), -row.splits))

    @property
    def count(self) -> int:
        """Number of trees."""
        return len(self._trees)

    def save(self, path: str) -> None:
        """Writes the text file.

        Raises:
            OSError: it cannot be written.
        """
        with open(path, 'w', encoding='ascii') as stream:
            stream.write(_format_text(self._trees, self.names, self.prior))

    def digest(self) -> str:
        """Hashes the text that `save` writes."""
        text = _format_text(self._trees, self.names, self.prior)
        return hashlib.sha256(text.encode()).hexdigest()


def _parse_text(text: str) -> tuple[list[nodes_lib.Lines], list[str], Prior | None]:
    """Reads LightGBM's text as lines.

    Returns:
        The trees, the names of all columns, and the prior.

    Raises:
        ValueError: something is missing; says where.
    """
    header, *blocks = text.split('\nTree=')
    fields = dict(line.partition('=')[::2] for line in header.splitlines())
    for key, value in _HEADER.items():
        if fields.get(key) != value:
            raise ValueError(
                f'{key} must be {value}, not {text_lib.quoted(fields.get(key))}'
            )
    names = fields.get('feature_names', '').split()
    if fields.get('max_feature_idx') != str(len(names) - 1):
        raise ValueError('max_feature_idx is not the last of feature_names')
    if not 0 < len(names) <= _MAX_COLUMNS:
        raise ValueError(f'{len(names):,} columns are too many or too few')
    if not all(map(_COLUMN.fullmatch, names)):
        raise ValueError('feature_names holds something that is no name of a column')
    if not 0 < len(blocks) <= MAX_TREES or '\nend of trees' not in blocks[-1]:
        raise ValueError('the file is not complete')
    blocks[-1] = blocks[-1].partition('\nend of trees')[0]
    trees = [
        dict(line.partition('=')[::2] for line in block.splitlines())
        for block in blocks
    ]
    return trees, names, _parse_prior(fields, names)


def _format_text(
    trees: Sequence[nodes_lib.Lines], names: Sequence[str], prior: Prior | None
) -> str:
    """Writes trees as LightGBM's text, with the lines that it needs to predict."""
    lines = [
        'tree',
        'version=v4',
        *(f'{key}={value}' for key, value in _HEADER.items()),
        f'max_feature_idx={len(names) - 1}',
        'objective=regression',
        f'feature_names={" ".join(names)}',
        f'feature_infos={" ".join(["none"] * len(names))}',
    ]
    if prior:
        lines.append(f'{_PRIOR}={prior.column} {prior.weight}')
    for number, tree in enumerate(trees):
        leaves = nodes_lib.count_words(tree[nodes_lib.LEAF])
        lines += ['', f'Tree={number}', f'num_leaves={leaves}', 'num_cat=0']
        for key in (*nodes_lib.PER_SPLIT, nodes_lib.GAIN, nodes_lib.LEAF):
            if tree.get(key):
                lines.append(f'{key}={tree[key]}')
        lines += ['is_linear=0', 'shrinkage=1', '']
    return '\n'.join([*lines, '', 'end of trees', ''])


def _parse_prior(fields: Mapping[str, str], names: Sequence[str]) -> Prior | None:
    """Reads the prior of a text's header; raises ValueError if it is damaged."""
    if _PRIOR not in fields:
        return None
    column, _, weight = fields[_PRIOR].partition(' ')
    if (
        column not in names
        or not nodes_lib.FLOAT.fullmatch(weight)
        or not 0 < float(weight) < 9
    ):
        raise ValueError(f'{_PRIOR} must be a column and its weight')
    return Prior(column, float(weight))
