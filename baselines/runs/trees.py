"""Gradient-boosted trees of LightGBM, as a run keeps them.

    trees = Trees(names, Options())
    trees.fit(Rows(columns, targets), None, seed=0)
    trees.predict(columns)          # of those in `trees.used`: float64 [rows]
    trees.save(folder)              # trees.txt: LightGBM's own text

LightGBM (Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision
Tree", NeurIPS 2017) comes with the extra [trees].  Its text may come from a
stranger: what is read is checked number by number and written anew before
LightGBM sees it.  Nothing is ever unpickled.
"""

import dataclasses
import hashlib
import importlib.util
import math
import os
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
)

import numpy as np

from baselines import files
from baselines import registry
from baselines.hlo import arrays

# What --model says, and what error messages call them.
NAME = 'Trees'
FILE = 'trees.txt'

# 600 trees of 63 leaves take 3 MB.
_MAX_BYTES = 64 << 20
_MAX_TREES = 10_000
_MAX_LEAVES = 1 << 16
_MAX_COLUMNS = 1 << 14
_PER_SPLIT = (
    'split_feature',
    'threshold',
    'decision_type',
    'left_child',
    'right_child',
)
_HEADER = {'num_class': '1', 'num_tree_per_iteration': '1', 'label_index': '0'}
_IS_CATEGORICAL = 1  # a bit of decision_type
_STOPPING = 50
_ROWS = 1 << 14  # of a table at once


@dataclasses.dataclass(frozen=True)
class Options:
    """How trees are grown, as --model_kwargs_json may say.

    Attributes:
        trees: most of them; fewer where validation stops getting better.
        learning_rate: what each new tree counts.
        num_leaves: most leaves of a tree.
        min_leaf: fewest rows in a leaf; a hundredth of all, but 2, if that is less.
        column_share: of the columns, that each tree may use.
        row_share: of the rows, that each tree is grown on.
        rows: most configurations to train on, drawn evenly from all graphs.
    """

    trees: int = 600
    learning_rate: float = 0.08
    num_leaves: int = 63
    min_leaf: int = 20
    column_share: float = 0.5
    row_share: float = 0.8
    rows: int = 1 << 19

    def __post_init__(self):
        limits = {
            'trees': (1, _MAX_TREES),
            'learning_rate': (1e-6, 1),
            'num_leaves': (2, _MAX_LEAVES),
            'min_leaf': (1, math.inf),
            'column_share': (1e-3, 1),
            'row_share': (1e-3, 1),
            'rows': (100, 1 << 24),
        }
        for name, (low, high) in limits.items():
            value, whole = getattr(self, name), type(getattr(Options, name)) is int
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else (int, float))
                or not low <= value <= high
            ):
                raise ValueError(
                    f'--model_kwargs_json: {name} is a{" whole" * whole} number from '
                    f'{low:g} to {high:g}, not {value!r}'
                )

    @classmethod
    def of(cls, kwargs: Mapping[str, Any]) -> 'Options':
        """Takes the options of --model_kwargs_json.

        Raises:
            ValueError: there is no such option, or it is out of range.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        registry.check_options(NAME, kwargs, names)
        return cls(**kwargs)


# Beside a graph model: they score three times as fast, and the mean of both is as good.
FEWER = Options(trees=250, learning_rate=0.15)


def check_installed(what: str) -> None:
    """Raises ValueError unless LightGBM is there; `what` needs it."""
    if importlib.util.find_spec('lightgbm') is None:
        raise ValueError(f'{what} needs LightGBM: pip install -e .[trees]')


class Rows(NamedTuple):
    """What trees are grown on, or checked with.

    Attributes:
        columns: float32 [rows, columns].
        targets: float64 [rows].
        weights: float64 [rows], what each row counts; None: all alike.
    """

    columns: np.ndarray
    targets: np.ndarray
    weights: Optional[np.ndarray] = None


class Table(Protocol):
    """Columns of configurations, such as `features.tile_table.FlatTable`."""

    names: List[str]

    @property
    def counts(self) -> np.ndarray:
        """int64 [graphs], configurations of each."""

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """int64 [r] graphs and configurations -> float32 [r, columns]."""


class Trees:
    """Trees over named columns, to fit or to read back.

    Attributes:
        names: of all columns.
        used: names of those that they look at; `predict` wants these alone.
        options: how they are grown.
    """

    def __init__(self, names: Sequence[str] = (), options: Options = Options()):
        self.names = list(names)
        self.options = options
        self.used: List[str] = []

    def fit(
        self, train: Rows, valid: Optional[Rows], seed: int
    ) -> Dict[str, List[float]]:
        """Grows trees; stops when validation does not get better.

        Args:
            train: at least two rows.
            valid: what says when to stop; None for no validation.
            seed: the same one gives the same trees.

        Returns:
            The mean squared errors `train_loss` and `val_loss` by tree.
        """
        import lightgbm

        options, curve = self.options, {}
        # Columns that never change would be carried along for nothing.
        low, high = train.columns.min(axis=0), train.columns.max(axis=0)
        varies = np.flatnonzero(low < high)
        varies = varies if len(varies) else np.arange(1)
        sets: List[Any] = []
        for rows in filter(None, (train, valid)):
            columns = np.take(rows.columns, varies, axis=1)
            first = sets[0] if sets else None
            sets.append(
                lightgbm.Dataset(columns, rows.targets, first, weight=rows.weights)
            )
        callbacks = [lightgbm.record_evaluation(curve)]
        if valid is not None:
            callbacks.append(lightgbm.early_stopping(_STOPPING, verbose=False))
        grown = lightgbm.train(
            {
                'objective': 'regression',
                'metric': 'l2',
                'learning_rate': options.learning_rate,
                'num_leaves': options.num_leaves,
                'min_data_in_leaf': min(
                    options.min_leaf, max(2, len(train.targets) // 100)
                ),
                'feature_fraction': options.column_share,
                'bagging_fraction': options.row_share,
                'bagging_freq': 1,
                'bin_construct_sample_cnt': 50_000,
                'deterministic': True,
                'force_row_wise': True,
                'num_threads': 0,  # as many as there are cores
                'seed': seed,
                'verbose': -1,
            },
            sets[0],
            options.trees,
            valid_sets=sets,
            valid_names=['training', 'valid'][: len(sets)],
            callbacks=callbacks,
        )
        text = grown.model_to_string(num_iteration=grown.best_iteration)
        self._set(_Text.parse(text).renumbered(varies, self.names))
        names = {'training': 'train_loss', 'valid': 'val_loss'}
        return {name: curve[key]['l2'] for key, name in names.items() if key in curve}

    def predict(self, columns: np.ndarray) -> np.ndarray:
        """Predicts rows: float32 [rows, len(used)] -> float64 [rows]."""
        return self._booster.predict(columns, num_threads=1)

    @property
    def count(self) -> int:
        """Number of trees."""
        return self._booster.num_trees()

    def save(self, folder: str) -> None:
        """Writes the text file.

        Raises:
            OSError: it cannot be written.
        """
        with open(os.path.join(folder, FILE), 'w', encoding='ascii') as stream:
            stream.write(self._text.write())

    def digest(self) -> str:
        """A hash of the text."""
        return hashlib.sha256(self._text.write().encode()).hexdigest()

    def read(self, folder: str) -> None:
        """Reads the text file of a model directory.

        Raises:
            ValueError: it is missing or damaged.
        """
        path = os.path.join(folder, FILE)
        if not os.path.lexists(path):
            raise ValueError(f'{path} is missing; copy the directory again')
        with files.open_regular(path, _MAX_BYTES) as stream:
            content = stream.read(_MAX_BYTES + 1)
        try:
            self._set(_Text.parse(content.decode('ascii')))
        except ValueError as error:
            raise ValueError(f'{path}: the trees cannot be read: {error}') from None

    def _set(self, text: '_Text') -> None:
        """Keeps all trees, and makes LightGBM's of the columns used alone."""
        import lightgbm

        self._text, self.names = text, text.names
        used = text.used()
        place = np.full(len(self.names), -1)
        place[used] = np.arange(len(used))
        self.used = [self.names[column] for column in used]
        used_alone = text.renumbered(place, self.used)
        self._booster = lightgbm.Booster(model_str=used_alone.write())


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
        some = numbers[group]
        sizes = table.counts[some]
        rows = np.repeat(some, sizes), arrays.ranges(np.zeros_like(sizes), sizes)
        ends = np.cumsum(sizes)
        found = [trees.predict(columns) for columns in slices(table, *rows)]
        yield from np.split(np.concatenate(found).astype(np.float32), ends[:-1])


def slices(
    table: Table, graphs: np.ndarray, configs: np.ndarray
) -> Iterator[np.ndarray]:
    """Yields rows of a table, not too many at once."""
    for start in range(0, len(graphs), _ROWS):
        rows = slice(start, start + _ROWS)
        yield table.rows(graphs[rows], configs[rows])


class _Text(NamedTuple):
    """LightGBM's text, of which we know every number."""

    trees: List[Dict[str, List[str]]]  # the lines of each that matter, key -> words
    names: List[str]  # of the columns

    @classmethod
    def parse(cls, text: str) -> '_Text':
        """Reads the text, and checks that it is of trees that split by numbers.

        Raises:
            ValueError: it is not; says where.
        """
        header, *blocks = text.split('\nTree=')
        known = dict(line.partition('=')[::2] for line in header.splitlines())
        for key, value in _HEADER.items():
            if known.get(key) != value:
                raise ValueError(f'{key} should be {value}, not {known.get(key)!r}')
        names = known.get('feature_names', '').split()
        if known.get('max_feature_idx') != str(len(names) - 1):
            raise ValueError('max_feature_idx is not the last of feature_names')
        if not 0 < len(names) <= _MAX_COLUMNS:
            raise ValueError(f'{len(names):,} columns are too many or too few')
        if not 0 < len(blocks) <= _MAX_TREES or '\nend of trees' not in blocks[-1]:
            raise ValueError('the file is not complete')
        blocks[-1] = blocks[-1].partition('\nend of trees')[0]
        trees = []
        for number, block in enumerate(blocks):
            lines = dict(line.partition('=')[::2] for line in block.splitlines())
            try:
                words = {key: value.split() for key, value in lines.items()}
                trees.append(_checked(words, len(names)))
            except ValueError as error:
                raise ValueError(f'tree {number}: {error}') from None
        return cls(trees, names)

    def used(self) -> np.ndarray:
        """Numbers of the columns that any tree looks at; one at least."""
        found = {int(c) for tree in self.trees for c in tree['split_feature']}
        return np.array(sorted(found or {0}), np.int64)

    def renumbered(self, numbers: np.ndarray, names: List[str]) -> '_Text':
        """The same trees over other columns: of column c those numbers[c]."""
        trees = []
        for tree in self.trees:
            columns = [str(numbers[int(c)]) for c in tree['split_feature']]
            trees.append({**tree, 'split_feature': columns})
        return _Text(trees, names)

    def write(self) -> str:
        """The text, without what LightGBM does not need to predict."""
        lines = [
            'tree',
            'version=v4',
            *(f'{key}={value}' for key, value in _HEADER.items()),
            f'max_feature_idx={len(self.names) - 1}',
            'objective=regression',
            f'feature_names={" ".join(self.names)}',
            f'feature_infos={" ".join(["none"] * len(self.names))}',
        ]
        for number, tree in enumerate(self.trees):
            lines += ['', f'Tree={number}', f'num_leaves={len(tree["leaf_value"])}']
            lines.append('num_cat=0')
            for key in (*_PER_SPLIT, 'leaf_value'):
                if tree[key]:
                    lines.append(f'{key}={" ".join(tree[key])}')
            lines += ['is_linear=0', 'shrinkage=1', '']
        return '\n'.join([*lines, '', 'end of trees', ''])


def _checked(tree: Dict[str, List[str]], columns: int) -> Dict[str, List[str]]:
    """Returns the lines of a tree that matter, or raises ValueError."""
    for key in ('num_cat', 'is_linear'):
        if tree.get(key, ['0']) != ['0']:
            raise ValueError(f'{key} should be 0')
    leaves = len(tree.get('leaf_value', ()))
    if not 0 < leaves <= _MAX_LEAVES or tree.get('num_leaves') != [str(leaves)]:
        raise ValueError('num_leaves is not the number of leaf_value')
    splits = leaves - 1
    found = {key: tree.get(key, []) for key in (*_PER_SPLIT, 'leaf_value')}
    if any(len(found[key]) != splits for key in _PER_SPLIT):
        raise ValueError(f'{leaves} leaves take {splits} splits')
    for key in ('threshold', 'leaf_value'):
        if not np.isfinite(_numbers(found[key], float)).all():
            raise ValueError(f'{key} holds a number that is not finite')
    feature, kind, left, right = (
        _numbers(found[key], int)
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
    return found


def _numbers(words: Sequence[str], kind: type) -> np.ndarray:
    if any(len(word) > (9 if kind is int else 40) for word in words):
        raise ValueError('a number is too long')
    return np.array([kind(word) for word in words], np.int64 if kind is int else float)
