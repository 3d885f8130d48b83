"""Trees on the table of a task: draws rows, grows them, computes scores."""

import time
from typing import Any, Dict, List, Sequence

import numpy as np

from baselines.data.packed import splits
from baselines.runs import trees as trees_lib
from baselines.training import loop

_CELLS = 1 << 27  # of a table to train on: 512 MB


class Boosting:
    """Grows the trees of a training; what `Descent` is to a graph model.

    Args:
        job: the training: its data, and where the trees go.
        options: how to grow them.
    """

    def __init__(self, job: Any, options: trees_lib.Options):
        self._job = job
        self._options = options

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
        rows = self._draw(rng, train, table, job.chosen, most)
        valid = job.stores['valid']
        checked = None
        if valid.has_runtimes:
            most = config.validation_configs * valid.num_graphs
            every = np.arange(valid.num_graphs)
            checked = self._draw(rng, valid, job.table(valid), every, most)
        found = trees_lib.Trees(table.names, self._options)
        started = time.monotonic()
        losses = found.fit(rows, checked, config.seed)
        job.trees = found
        grown = len(losses['train_loss'])
        curve: Dict[str, List[Any]] = {name: [None] * grown for name in loop.CURVES}
        seconds = (time.monotonic() - started) / grown
        curve.update(losses, epoch=list(range(grown)))
        curve.update(train_seconds=[seconds] * grown, val_seconds=[0.0] * grown)
        print(f'trees: {found.count}, looking at {len(found.used)} columns')
        return {'train_curve': curve, 'best_epoch': min(found.count, grown) - 1}

    def _draw(
        self,
        rng: np.random.Generator,
        store: splits.PackedSplit,
        table: trees_lib.Table,
        graphs: np.ndarray,
        most: int,
    ) -> trees_lib.Rows:
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
        return trees_lib.Rows(
            np.concatenate(list(trees_lib.slices(table, *rows))),
            np.concatenate(targets),
            np.repeat(shares**-0.5, shares),
        )


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
