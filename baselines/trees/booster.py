"""Gradient-boosted trees of LightGBM, as a run keeps them.

    trees = Trees.read(path)        # trees.txt: LightGBM's own text
    trees.predict(columns)          # of those in `trees.used`: float64 [rows]

LightGBM (Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision
Tree", NeurIPS 2017) comes with the extra [trees].  Its text is untrusted: every
number is checked against a grammar that Python and LightGBM read alike, and the text
is written again before LightGBM sees it.  Nothing is ever unpickled.
"""

import hashlib
import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Pattern, Sequence, Tuple

import numpy as np

from baselines.core import starting
from baselines.core import text as text_lib
from baselines.core import untrusted

# 600 trees of 63 leaves take 3 MB.
_MAX_BYTES = 64 << 20
MAX_TREES = 10_000
MAX_LEAVES = 1 << 16
_MAX_COLUMNS = 1 << 14
_PER_SPLIT = (
    'split_feature',
    'threshold',
    'decision_type',
    'left_child',
    'right_child',
)
# What each split gained in training; in trees trained before it was kept it is missing.
_GAIN = 'split_gain'
_PRIOR = 'prior'  # a line of the header that LightGBM does not have
_HEADER = {'num_class': '1', 'num_tree_per_iteration': '1', 'label_index': '0'}
_IS_CATEGORICAL = 1  # a bit of decision_type
_STEPS_PER_UNIT = 1 << 13

# As LightGBM writes them.  Python alone would also take 1_0, and LightGBM alone 1x.
_INT = re.compile(r'-?(0|[1-9][0-9]{0,8})')
_FLOAT = re.compile(r'-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?')
_COLUMN = re.compile(r'[A-Za-z0-9_]+')

# The lines of a tree in the text: the values, as they are written, by key.
_Lines = Dict[str, List[str]]


def check_installed(user: str) -> None:
    """Raises ValueError unless LightGBM is installed, which `user` needs."""
    if not starting.has_lightgbm():
        raise ValueError(f'{user} needs LightGBM: pip install -e .[trees]')


def rounded(columns: np.ndarray) -> np.ndarray:
    """Rounds columns to multiples of 2^-13, which all machines agree on.

    Most columns are logarithms and their sums, whose last bits depend on the
    processor and on NumPy's release.  Trees would otherwise split between two
    roundings of the same number, and rank differently on another machine.

    Args:
        columns: float32 [rows, columns].

    Returns:
        A new array of the same shape and dtype.
    """
    return np.round(columns * np.float32(_STEPS_PER_UNIT)) / np.float32(_STEPS_PER_UNIT)


class Importance(NamedTuple):
    """What trees owe to a column."""

    column: str  # its name
    # the share of what its splits took off the squared error in training, of all
    # splits; None where the file of the trees does not have it
    gain: Optional[float]
    splits: int  # how many splits look at it


class Prior(NamedTuple):
    """An untrained score that trees correct: a column's normal scores in each graph."""

    column: str  # the name of the column, which is lower where it is faster
    weight: float  # what these normal scores are multiplied by


class Trees:
    """Gradient-boosted trees (LightGBM) over named columns.

    Attributes:
        names: of all columns.
        prior: what the trees correct; None: they score alone.
        used: names of the columns that they and the prior look at; `predict` wants
            these alone.

    Args:
        prior: what the trees correct; None: what the text says.

    Raises:
        ValueError: the text is not of trees that split by numbers.
    """

    def __init__(self, text: str, prior: Optional[Prior] = None):
        lightgbm = starting.import_lightgbm()

        self._trees, self.names, stored_prior = _parse(text)
        self.prior = prior or stored_prior
        columns = {int(c) for tree in self._trees for c in tree['split_feature']}
        if self.prior:
            columns.add(self.names.index(self.prior.column))
        used = sorted(columns or {0})
        self.used = [self.names[column] for column in used]
        places = {column: str(place) for place, column in enumerate(used)}
        renumbered = [
            {**tree, 'split_feature': [places[int(c)] for c in tree['split_feature']]}
            for tree in self._trees
        ]
        text = _write(renumbered, self.used, None)
        self._booster = lightgbm.Booster(model_str=text)

    @classmethod
    def read(cls, path: str) -> 'Trees':
        """Reads the text file of a run.

        Raises:
            ValueError: it is missing or damaged.
        """
        if not os.path.lexists(path):
            raise ValueError(f'{path} is missing; copy the directory again')
        content = untrusted.read(path, _MAX_BYTES)
        try:
            return cls(content.decode('ascii'))
        except ValueError as error:
            raise ValueError(f'{path}: the trees cannot be read: {error}') from None

    def predict(self, columns: np.ndarray) -> np.ndarray:
        """Predicts float64 [rows] of float32 [rows, len(used)], which are `rounded`."""
        return np.asarray(self._booster.predict(rounded(columns), num_threads=1))

    def importances(self) -> List[Importance]:
        """Returns the columns that splits look at, the most important first.

        Importance is the gain (Breiman et al., "Classification and Regression Trees",
        1984), or the number of splits where gains are not known.  Of columns that
        say nearly the same, one may have what is the others' as well.
        """
        columns = [int(c) for tree in self._trees for c in tree['split_feature']]
        splits = np.bincount(columns, minlength=len(self.names))
        shares: List[Optional[float]] = [None] * len(self.names)
        if all(_GAIN in tree for tree in self._trees):
            each = [float(gain) for tree in self._trees for gain in tree[_GAIN]]
            gains = np.bincount(columns, each, len(self.names))
            shares = (gains / max(gains.sum(), np.finfo(float).tiny)).tolist()
        rows = map(Importance, self.names, shares, splits.tolist())
        used = [row for row in rows if row.splits]
        return sorted(used, key=lambda row: (-(row.gain or 0), -row.splits))

    @property
    def count(self) -> int:
        """Number of trees."""
        return self._booster.num_trees()

    def save(self, path: str) -> None:
        """Writes the text file.

        Raises:
            OSError: it cannot be written.
        """
        with open(path, 'w', encoding='ascii') as stream:
            stream.write(_write(self._trees, self.names, self.prior))

    def digest(self) -> str:
        """Hashes the text that `save` writes."""
        text = _write(self._trees, self.names, self.prior)
        return hashlib.sha256(text.encode()).hexdigest()


def _parse(text: str) -> Tuple[List[_Lines], List[str], Optional[Prior]]:
    """Reads LightGBM's text, and checks that it is of trees that split by numbers.

    Returns:
        The trees, the names of all columns, and the prior.

    Raises:
        ValueError: it is not; says where.
    """
    header, *blocks = text.split('\nTree=')
    fields = dict(line.partition('=')[::2] for line in header.splitlines())
    for key, value in _HEADER.items():
        if fields.get(key) != value:
            raise ValueError(f'{key} should be {value}, not {fields.get(key)!r}')
    names = fields.get('feature_names', '').split()
    if fields.get('max_feature_idx') != str(len(names) - 1):
        raise ValueError('max_feature_idx is not the last of feature_names')
    if not 0 < len(names) <= _MAX_COLUMNS:
        raise ValueError(f'{len(names):,} columns are too many or too few')
    if not all(map(_COLUMN.fullmatch, names)):
        raise ValueError('feature_names holds what is no name of a column')
    if not 0 < len(blocks) <= MAX_TREES or '\nend of trees' not in blocks[-1]:
        raise ValueError('the file is not complete')
    blocks[-1] = blocks[-1].partition('\nend of trees')[0]
    trees = []
    for number, block in enumerate(blocks):
        lines = dict(line.partition('=')[::2] for line in block.splitlines())
        with text_lib.located(f'tree {number}'):
            values = {key: value.split() for key, value in lines.items()}
            trees.append(_checked(values, len(names)))
    return trees, names, _prior(fields, names)


def _write(
    trees: Sequence[_Lines], names: Sequence[str], prior: Optional[Prior]
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
        lines += ['', f'Tree={number}', f'num_leaves={len(tree["leaf_value"])}']
        lines.append('num_cat=0')
        for key in (*_PER_SPLIT, _GAIN, 'leaf_value'):
            if tree.get(key):
                lines.append(f'{key}={" ".join(tree[key])}')
        lines += ['is_linear=0', 'shrinkage=1', '']
    return '\n'.join([*lines, '', 'end of trees', ''])


def _prior(fields: Mapping[str, str], names: Sequence[str]) -> Optional[Prior]:
    """Reads the prior of a text's header; raises ValueError if it is damaged."""
    if _PRIOR not in fields:
        return None
    column, _, weight = fields[_PRIOR].partition(' ')
    if column not in names or not _FLOAT.fullmatch(weight) or not 0 < float(weight) < 9:
        raise ValueError(f'{_PRIOR} should be a column and its weight')
    return Prior(column, float(weight))


def _checked(tree: _Lines, columns: int) -> _Lines:
    """Returns the lines of a tree that matter, or raises ValueError."""
    for key in ('num_cat', 'is_linear'):
        if tree.get(key, ['0']) != ['0']:
            raise ValueError(f'{key} should be 0')
    leaves = len(tree.get('leaf_value', ()))
    if not 0 < leaves <= MAX_LEAVES or tree.get('num_leaves') != [str(leaves)]:
        raise ValueError('num_leaves is not the number of leaf_value')
    splits = leaves - 1
    lines = {key: tree.get(key, []) for key in (*_PER_SPLIT, 'leaf_value')}
    if _GAIN in tree:
        lines[_GAIN] = tree[_GAIN]
    if any(len(lines[key]) != splits for key in lines if key != 'leaf_value'):
        raise ValueError(f'{leaves} leaves take {splits} splits')
    for key in {'threshold', 'leaf_value', _GAIN} & {*lines}:
        if not np.isfinite(_numbers(lines, key, _FLOAT, np.float64)).all():
            raise ValueError(f'{key} holds a number that is not finite')
    feature, kind, left, right = (
        _numbers(lines, key, _INT, np.int64)
        for key in ('split_feature', 'decision_type', 'left_child', 'right_child')
    )
    if ((feature < 0) | (feature >= columns)).any():
        raise ValueError(f'split_feature is not one of {columns} columns')
    if ((kind & _IS_CATEGORICAL > 0) | (kind < 0) | (kind > 15)).any():
        raise ValueError('decision_type is not that of a number')
    # Splits are numbered from the root down, leaves below 0: so no way is endless,
    # and each is the child of one split.
    children = np.concatenate([left, right])
    below = np.tile(np.arange(splits), 2)
    wanted = [*range(-leaves, 0), *range(1, splits)] if splits else []
    if (
        sorted(children) != wanted
        or (children[children > 0] <= below[children > 0]).any()
    ):
        raise ValueError('left_child and right_child make no tree')
    return lines


def _numbers(tree: _Lines, key: str, grammar: Pattern, dtype: type) -> np.ndarray:
    """Returns the numbers of a line, or raises ValueError."""
    for word in tree[key]:
        if not grammar.fullmatch(word):
            raise ValueError(f'{key}: {word[:40]!r} is not written as a number')
    return np.array(tree[key], dtype)
