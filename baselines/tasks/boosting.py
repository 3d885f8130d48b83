"""Trees on the table of a task: drawn, grown, and asked for scores."""

import time
from typing import Any, Dict, Iterator, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from baselines.data.packed import splits
from baselines.hlo import ragged
from baselines.training import loop
from baselines.training import trees as trees_lib

# Graphs of a split, and configurations of each: int64.
Drawn = Dict[int, np.ndarray]

_FOLDS = 5
_ROWS = 1 << 14  # of a table at once
_CELLS = 1 << 27  # of a table to train on: 512 MB


class Table(Protocol):
    """Columns of configurations, such as `features.tile_table.FlatTable`."""

    names: List[str]

    @property
    def counts(self) -> np.ndarray:
        """int64 [graphs], configurations of each."""

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """int64 [r] graphs and configurations -> float32 [r, columns]."""


class Boosting:
    """Grows the trees of a training; what `Descent` is to a graph model.

    Programs that are to validate on as well as to train on are cut into folds of
    configurations: trees are grown without one of them, until they predict it best,
    and those of all folds score with their mean.  So all of few configurations are
    learned from, and all say what that is worth.

    Attributes:
        drawn: what trees have predicted that had not seen it.

    Args:
        job: the training: its data, and where the trees go.
        options: how to grow them.
    """

    def __init__(self, job: Any, options: trees_lib.Options):
        self._job = job
        self._options = options
        self.drawn: Drawn = {}
        self._predicted: List[np.ndarray] = []  # by graph of `drawn`

    def words(self) -> str:
        """What is trained, for people."""
        return f'at most {self._options.trees:,} trees'

    def fit(self, unfinished: Any, after_epoch: Any) -> Dict[str, Any]:
        """Grows the trees, anew after an interruption: it takes a minute or so.

        Returns:
            What the run file says of it.
        """
        del unfinished, after_epoch
        job, config = self._job, self._job.config
        rng = np.random.default_rng([config.seed, 2**31])
        train = job.stores['train']
        table = job.table(train)
        most = min(self._options.rows, _CELLS // len(table.names))
        drawn, some = self._draw(rng, train, table, job.chosen, most)
        valid = job.stores['valid']
        folds = self._folds(rng, drawn)
        checked = None
        if valid.has_runtimes and folds is None:
            most = config.validation_configs * valid.num_graphs
            every = np.arange(valid.num_graphs)
            _, checked = self._draw(rng, valid, job.table(valid), every, most)
        found = trees_lib.Trees(table.names, self._options)
        started = time.monotonic()
        if folds is None:
            losses = found.fit(some, checked, config.seed)
        else:
            found, losses = self._grow_in_folds(table.names, drawn, some, folds)
        job.trees = found
        grown = len(losses['train_loss'])
        curve: Dict[str, List[Any]] = {name: [None] * grown for name in loop.CURVES}
        seconds = (time.monotonic() - started) / grown
        curve.update(losses, epoch=list(range(grown)))
        curve.update(train_seconds=[seconds] * grown, val_seconds=[0.0] * grown)
        print(f'trees: {found.count}, looking at {len(found.used)} columns')
        return {'train_curve': curve, 'best_epoch': min(found.count, grown) - 1}

    def unseen(self, drawn: Drawn) -> Iterator[np.ndarray]:
        """Yields scores of what trees had not seen, by graph.

        Args:
            drawn: the attribute, or none of it.
        """
        yield from self._predicted[: len(drawn)]
        job = self._job
        table = job.table(job.stores['valid'], job.trees.used)
        numbers = np.arange(len(job.validated))
        for whole, some in zip(scores(job.trees, table, numbers), job.validated):
            yield whole[some]

    def _folds(self, rng: np.random.Generator, drawn: Drawn) -> Optional[np.ndarray]:
        """Numbers of folds, int64 [rows], one for equal configurations; or None."""
        train, valid = (self._job.stores[split] for split in ('train', 'valid'))
        kinds = [self._job.configurations(train, graph) for graph in drawn]
        if not set(valid.graph_ids) <= set(train.graph_ids) or kinds[0] is None:
            return None
        pairs = [
            np.stack([np.full(len(some), graph), kind[some]])
            for (graph, some), kind in zip(drawn.items(), kinds)
        ]
        pairs, number = np.unique(np.hstack(pairs), axis=1, return_inverse=True)
        different = pairs.shape[1]
        count = min(_FOLDS, different // 2)
        return rng.permutation(different)[number.reshape(-1)] % count

    def _grow_in_folds(
        self, names: List[str], drawn: Drawn, rows: trees_lib.Rows, folds: np.ndarray
    ) -> Tuple[trees_lib.Trees, Dict[str, List[float]]]:
        """Returns the trees of all folds, and how those of the first grew."""
        members, curves = [], []
        predicted = np.empty(len(folds))
        for fold in range(folds.max() + 1):
            parts = (folds != fold, folds == fold)
            inside, outside = (trees_lib.Rows(*(x[p] for x in rows)) for p in parts)
            found = trees_lib.Trees(names, self._options)
            curves.append(found.fit(inside, outside, self._job.config.seed))
            used = [names.index(name) for name in found.used]
            predicted[parts[1]] = found.predict(outside.columns[:, used])
            members.append(found)
        ends = np.cumsum([len(some) for some in drawn.values()])
        self.drawn, self._predicted = drawn, np.split(predicted, ends[:-1])
        return trees_lib.mean(members), curves[0]

    def _draw(
        self,
        rng: np.random.Generator,
        store: splits.PackedSplit,
        table: Table,
        graphs: np.ndarray,
        most: int,
    ) -> Tuple[Drawn, trees_lib.Rows]:
        """Draws evenly from graphs: columns, and what to predict of them.

        That is the normal scores of their ranks where Kendall's tau counts: of most
        layouts that were measured, runtimes differ by a thousandth of what a few slow
        ones add.  Of tiles it is their sum with log runtimes less the mean: the slowest
        of a kernel would decide what is learned of the others, and how much slower
        they are matters, too.

        Large graphs count more than small ones, but less than by their number of
        configurations: by its square root.
        """
        counts = table.counts[graphs]
        shares = np.minimum(counts, _share(counts, most))
        configs = [rng.permutation(c)[:s] for c, s in zip(counts, shares)]
        targets = []
        for graph, some in zip(graphs, configs):
            labels = self._job.labels(store, graph)[some]
            targets.append(_normal_scores(labels))
            if not self._job.chosen_by_tau:
                targets[-1] += _centred(labels)
        rows = np.repeat(graphs, shares), np.concatenate(configs)
        return dict(zip(graphs.tolist(), configs)), trees_lib.Rows(
            np.concatenate(list(_slices(table, *rows))),
            np.concatenate(targets),
            np.repeat(shares**-0.5, shares),
        )


def scores(
    trees: trees_lib.Trees, table: Table, numbers: Optional[np.ndarray] = None
) -> Iterator[np.ndarray]:
    """Yields the scores of each graph's configurations, in bounded memory.

    Args:
        trees: fitted.
        table: of the columns that they use.
        numbers: int64, of the graphs; None for all.
    """
    if numbers is None:
        numbers = np.arange(len(table.counts))
    for group in ragged.groups(table.counts[numbers], _ROWS):
        some = numbers[group]
        sizes = table.counts[some]
        rows = np.repeat(some, sizes), ragged.ranges(np.zeros_like(sizes), sizes)
        found, ends = [], np.cumsum(sizes)
        for i, columns in enumerate(_slices(table, *rows)):
            # Trees are quickest where they see one graph at a time.
            cuts = ends - i * _ROWS
            cuts = cuts[(0 < cuts) & (cuts < len(columns))]
            found += [trees.predict(part) for part in np.split(columns, cuts)]
        yield from np.split(np.concatenate(found).astype(np.float32), ends[:-1])


def _slices(
    table: Table, graphs: np.ndarray, configs: np.ndarray
) -> Iterator[np.ndarray]:
    """Yields rows of a table, not too many at once."""
    for start in range(0, len(graphs), _ROWS):
        rows = slice(start, start + _ROWS)
        yield table.rows(graphs[rows], configs[rows])


def _centred(labels: np.ndarray) -> np.ndarray:
    """Logarithms less their mean."""
    logs = np.log(labels)
    return logs - logs.mean()


def _normal_scores(labels: np.ndarray) -> np.ndarray:
    """The normal distribution's quantile at each rank; equal labels share a rank."""
    from scipy import stats  # half a second, of each `rank`

    return stats.norm.ppf((stats.rankdata(labels) - 0.5) / len(labels))


def _share(counts: Sequence[int], most: int) -> int:
    """The largest number so that min(number, count) add up to `most` at most; >= 1."""
    low, high = 1, int(np.max(counts))
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(counts, middle).sum() <= most:
            low = middle
        else:
            high = middle - 1
    return low
