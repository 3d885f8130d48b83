"""Gradient-boosted trees of LightGBM, as a run keeps them.

    trees = Trees.read(folder)      # trees.txt: LightGBM's own text
    trees.predict(columns)          # of those in `trees.used`: float64 [rows]

LightGBM (Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision
Tree", NeurIPS 2017) comes with the extra [trees].  Its text may come from a
stranger: it is checked number by number, by a grammar that leaves Python
and LightGBM no choice, and written anew before LightGBM sees it.  Nothing is ever
unpickled.
"""

import hashlib
import os
import re
from typing import (
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Pattern,
    Protocol,
    Sequence,
    Tuple,
)

import numpy as np

from baselines import files
from baselines import starting
from baselines import text as text_lib
from baselines.evaluation import ensembles
from baselines.hlo import arrays
from baselines.runs import run_files

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
_PRIOR = 'prior'  # a line of the header that LightGBM does not have
_HEADER = {'num_class': '1', 'num_tree_per_iteration': '1', 'label_index': '0'}
_IS_CATEGORICAL = 1  # a bit of decision_type
_ROWS = 1 << 14  # of a table at once

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


class Tree(NamedTuple):
    """A tree with s splits, the first of which is its root.

    Attributes:
        column: int32 [s], the column that a split looks at.
        threshold: float64 [s]; up to it a row goes left.
        left: int32 [s], the next split, or -1 - the number of a leaf.
        right: int32 [s].
        value: float64 [s + 1], of the leaves.
    """

    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


class Table(Protocol):
    """Columns of configurations, such as `features.tile_table.TreeTable`."""

    names: List[str]

    @property
    def counts(self) -> np.ndarray:
        """int64 [graphs], configurations of each."""

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows: int64 [r] graphs, configurations -> float32 [r, columns]."""


class Prior(NamedTuple):
    """An untrained score that trees correct: a column's normal scores in each graph.

    Attributes:
        column: the name of the column, which is lower where it is faster.
        weight: what these normal scores are multiplied by.
    """

    column: str
    weight: float


class Trees:
    """Gradient-boosted trees (LightGBM) over named columns.

    Attributes:
        names: of all columns.
        prior: what the trees correct; None: they score alone.
        used: names of the columns that they and the prior look at; `predict` wants
            these alone.

    Args:
        text: LightGBM's.
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
    def read(cls, folder: str) -> 'Trees':
        """Reads the text file of a model directory.

        Raises:
            ValueError: it is missing or damaged.
        """
        path = os.path.join(folder, run_files.TREES_FILE)
        if not os.path.lexists(path):
            raise ValueError(f'{path} is missing; copy the directory again')
        with files.open_regular(path, _MAX_BYTES) as stream:
            content = stream.read(_MAX_BYTES + 1)
        try:
            return cls(content.decode('ascii'))
        except ValueError as error:
            raise ValueError(f'{path}: the trees cannot be read: {error}') from None

    def predict(self, columns: np.ndarray) -> np.ndarray:
        """Predicts rows: float32 [rows, len(used)] -> float64 [rows]."""
        return np.asarray(self._booster.predict(columns, num_threads=1))

    @property
    def count(self) -> int:
        """Number of trees."""
        return self._booster.num_trees()

    def as_arrays(self) -> List[Tree]:
        """Returns the trees as arrays; columns are numbered as in `names`."""
        kinds = (np.int32, np.float64, np.int32, np.int32, np.float64)
        keys = ('split_feature', 'threshold', 'left_child', 'right_child', 'leaf_value')
        return [
            Tree(*(np.array(tree[key], kind) for key, kind in zip(keys, kinds)))
            for tree in self._trees
        ]

    def save(self, folder: str) -> None:
        """Writes the text file.

        Raises:
            OSError: it cannot be written.
        """
        path = os.path.join(folder, run_files.TREES_FILE)
        with open(path, 'w', encoding='ascii') as stream:
            stream.write(_write(self._trees, self.names, self.prior))

    def digest(self) -> str:
        """Hashes the text that `save` writes."""
        text = _write(self._trees, self.names, self.prior)
        return hashlib.sha256(text.encode()).hexdigest()


def scores(
    trees: Trees, table: Table, numbers: Optional[np.ndarray] = None
) -> Iterator[np.ndarray]:
    """Yields the scores of each graph's configurations, in bounded memory.

    Args:
        trees: fitted.
        table: of the columns that they use.
        numbers: int64, of the graphs; None for all.
    """
    if numbers is None:
        numbers = np.arange(len(table.counts))
    for group in arrays.groups(table.counts[numbers], _ROWS):
        graphs = numbers[group]
        sizes = table.counts[graphs]
        rows = np.repeat(graphs, sizes), arrays.ranges(np.zeros_like(sizes), sizes)
        ends = np.cumsum(sizes)[:-1]
        predicted, of_prior = [], []
        for columns in slices(table, *rows):
            predicted.append(trees.predict(columns))
            if trees.prior:
                of_prior.append(columns[:, trees.used.index(trees.prior.column)])
        parts = np.split(np.concatenate(predicted), ends)
        if trees.prior:
            for part, column in zip(parts, np.split(np.concatenate(of_prior), ends)):
                part += trees.prior.weight * ensembles.normal_scores(column)
        yield from (part.astype(np.float32) for part in parts)


def slices(
    table: Table, graphs: np.ndarray, configs: np.ndarray
) -> Iterator[np.ndarray]:
    """Yields rows of a table in slices, which bound the memory."""
    for start in range(0, len(graphs), _ROWS):
        rows = slice(start, start + _ROWS)
        yield table.rows(graphs[rows], configs[rows])


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
        for key in (*_PER_SPLIT, 'leaf_value'):
            if tree[key]:
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
    if any(len(lines[key]) != splits for key in _PER_SPLIT):
        raise ValueError(f'{leaves} leaves take {splits} splits')
    for key in ('threshold', 'leaf_value'):
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
