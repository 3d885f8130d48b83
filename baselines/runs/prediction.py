"""Ranks graphs, with a run or the untrained estimate, and says where graphs are.

predictor = loading.load_predictor('latest', Options())
for scores in predictor.score(predictor.open_split('test')):  # a graph's
    print(scores.argmin())
"""

import abc
import dataclasses
import os
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Protocol,
    Tuple,
    cast,
)

import numpy as np

from baselines import config as config_lib
from baselines import files
from baselines import phases
from baselines import registry
from baselines import text
from baselines.data import collections
from baselines.data import published
from baselines.data import stores as stores_lib
from baselines.data import variants
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.hlo import schema
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import tasks
from baselines.runs import trees as trees_lib


class Workers(Protocol):
    """Scores splits with other processes than this one."""

    def scores(self, predictor: Any, store: splits.PackedSplit) -> List[np.ndarray]:
        """Returns float32 [configurations] of each graph of a split.

        Args:
            predictor: a `RunPredictor`, which has opened `store` last.
            store: the split.
        """


@dataclasses.dataclass(frozen=True)
class Options:
    """The place of graphs, and how a run is made ready to score them.

    Attributes:
        data_root: folder of the data; '' for where the run was trained, if
            that is there, or else the default.
        cache_dir: where packed splits are kept; '' for the default.
        sample_data: the measured data that ship, in place of `data_root`.
        toy_data: only the first few files of each split; None: as the run, if
            neither `data_root` nor `sample_data` is given.
        skip_bad_files: leave damaged files out; None: likewise.
        memory_budget: megabytes that scoring programs may take.
        workers: other processes that score; None for this one.
        models_file: a models.py, or classes, beside ours.  The one that a run file
            names is not run: the file may come from a stranger.
        task: of the latest run, or of the estimate; '' for any.
        collection: of the estimate; '' for the first one of `task`, or of all.
        once: the process ends when it has scored, so that a few small graphs are not
            worth compiling for.
    """

    data_root: str = ''
    cache_dir: str = ''
    sample_data: bool = False
    toy_data: Optional[bool] = None
    skip_bad_files: Optional[bool] = None
    memory_budget: int = config_lib.LayoutConfig.memory_budget
    workers: Optional[Workers] = None
    models_file: registry.Own = ''
    task: str = ''
    collection: str = ''
    once: bool = False

    def __post_init__(self):
        config_lib.check_data(self.data_root, self.sample_data)

    def or_defaults(self, defaults: Any) -> 'Options':
        """Fills in empty folders from the defaults of a config class."""
        root = self.data_root or ('' if self.sample_data else defaults.data_root)
        cache_dir = self.cache_dir or defaults.cache_dir
        return dataclasses.replace(self, data_root=root, cache_dir=cache_dir)


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )


# The scores of a graph by each member of a model: its graph model, its trees.
Members = Tuple[np.ndarray, ...]


class Scorer(NamedTuple):
    """Scores graphs with a graph model, with trees, or with both.

    Attributes:
        task: of the graphs.
        model: scores with the graph model; None where trees do alone.
        trees: None where the graph model does alone.
    """

    task: tasks.Task
    model: Optional[tasks.ModelScorer]
    trees: Optional[trees_lib.Trees]

    def members(
        self,
        store: splits.PackedSplit,
        graphs: Any,
        numbers: Optional[np.ndarray] = None,
    ) -> Iterator[Members]:
        """Yields for each graph a float [configurations] of each member.

        Args:
            store: a split.
            graphs: the same split, from `Task.graphs`; None where trees do alone.
            numbers: int64, of the graphs, ascending; None for all.
        """
        parts = []
        if self.model is not None:
            parts.append(self.model.scores(graphs, numbers))
        if self.trees is not None:
            table = self.task.table(store, self.trees.used, graphs)
            parts.append(trees_lib.scores(self.trees, table, numbers))
        return zip(*parts)

    def scores(
        self,
        store: splits.PackedSplit,
        graphs: Any,
        numbers: Optional[np.ndarray] = None,
    ) -> Iterator[np.ndarray]:
        """Yields the mean of the members of each graph; see `members`."""
        return map(mean_score, self.members(store, graphs, numbers))


def mean_score(members: Members) -> np.ndarray:
    """Averages the scores of a graph over members, each scaled to a deviation of 1."""
    if len(members) == 1:
        return members[0]
    return ensembles.average(members, by='standard')


class Predictor(abc.ABC):
    """Scores graphs, with a run or with the untrained estimate.

    Attributes:
        name: the run's model directory, or 'estimate'.
        model_name: of the run's model, or 'estimate'.
        run: the run; None for the estimate.
        collection: the graphs that it is for.
        task: of the collection.
        options: the place of graphs, with the task's defaults.
        variant: the meaning of the columns that it reads.
        num_ops: it reads the opcodes below this number.
        split: the one that was opened last.
    """

    run: Optional[run_files.Run] = None
    variant: variants.Variant
    num_ops: int

    def __init__(
        self,
        name: str,
        model_name: str,
        collection: collections.Collection,
        options: Options,
    ):
        self.name, self.model_name = name, model_name
        self.collection, self.task = collection, tasks.of(collection)
        self.options = options.or_defaults(config_lib.CONFIGS[collection.task])
        self.split = ''

    @abc.abstractmethod
    def _member_scores(self, store: splits.PackedSplit) -> Iterator[Members]:
        """Yields the members' scores of each graph of a checked split."""

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split of the data to predict."""
        self.split = split
        return stores_lib.open_split(self.collection, self.options, split)

    def describe(self, store: splits.PackedSplit) -> Dict[str, Any]:
        """Describes the model, and the data: the split that was opened last."""
        return {
            'model': self.model_name,
            'collection': self.collection.name,
            'fold': self.run.args.get('fold', '') if self.run else '',
            'split': self.split,
            'protocol': report.ALL,
            'data': store.source,
        }

    def measure(
        self, split: str, protocol: str = ''
    ) -> Tuple[Dict[str, Any], List[report.GraphResult]]:
        """Measures how graphs are ranked whose runtimes are known.

        Beside a run stands the estimate, where the data have the columns that it reads.

        Args:
            split: 'train', 'valid' or 'test'.
            protocol: of `report.PROTOCOLS`; '': published where the graphs are those
                of the published validation split of layouts, else all.

        Returns:
            The summary of `report`, with `model`, `collection`, `fold`, `split`,
            `protocol` and `data` added; and each graph with its scores and runtimes.

        Raises:
            ValueError: there is no such protocol, the data are unusable, no runtime is
                known, or the published protocol has no list for a graph.
        """
        if protocol:
            registry.resolve(protocol, report.PROTOCOLS, 'protocol')
        store = self.open_split(split)
        check_runtimes(store)
        described = self.describe(store)
        lists = self._listed_configurations(store, protocol)
        if lists:
            store = cast(layout_store.LayoutStore, store).with_configurations(lists)
            described['protocol'] = report.PUBLISHED
        results = self.task.results(store, self.score(store), self.estimates(store))
        if lists:  # a configuration listed twice was measured once
            results = [result._replace(configurations=None) for result in results]
        summary = report.summarise(self.collection.task, results)
        return {**described, **summary}, results

    def estimates(self, store: splits.PackedSplit) -> Optional[Iterator[np.ndarray]]:
        """Yields untrained scores of each graph, to compare with a run's.

        Returns:
            None for the estimate itself, and for other columns than the published.
        """
        published_columns = variants.Variant(
            config_features=self.collection.config_columns
        )
        if not self.run or variants.Variant.of(store) != published_columns:
            return None
        return self.task.estimates(store)

    def _listed_configurations(
        self, store: splits.PackedSplit, protocol: str
    ) -> List[np.ndarray]:
        """Returns the configurations of each graph to measure on; [] for all."""
        lists = published.validation_lists(self.collection.name)
        in_full = self.split == 'valid' and {*store.graph_ids} == {*lists}
        if protocol == report.ALL or not (
            protocol or in_full and not self.options.workers
        ):
            return []
        if self.options.workers:
            raise ValueError(
                '--protocol=published scores little, and that here: leave --runner out'
            )
        for graph_id, count in zip(store.graph_ids, store.config_counts):
            if graph_id not in lists:
                raise ValueError(
                    f'--protocol=published: there is no list for {graph_id}; there are '
                    'lists for the published validation graphs of layouts'
                )
            if lists[graph_id].max() >= count:
                raise ValueError(
                    f'--protocol=published: {graph_id} has {count:,} configurations, '
                    f'and its list has number {lists[graph_id].max():,}: these are '
                    'not the published files; measure with --protocol=all'
                )
        return [lists[graph_id] for graph_id in store.graph_ids]

    def write(
        self, path: str, store: splits.PackedSplit, scored: Iterable[np.ndarray]
    ) -> None:
        """Writes the ranking of a split as CSV, and prints its path; raises OSError."""
        path = files.expand(path)
        rows = tasks.rows(self.collection, store, scored)
        submission.write_predictions(path, rows)
        print(f'{path}: {text.count(len(rows), "row")}')

    def score(self, store: splits.PackedSplit) -> Iterator[np.ndarray]:
        """Yields the scores of each graph's configurations; lower is faster.

        Raises:
            ValueError: the graphs cannot be scored; says why.
        """
        return map(mean_score, self.score_members(store))

    def score_members(self, store: splits.PackedSplit) -> Iterator[Members]:
        """Yields the members' scores of each graph, whose mean `score` yields.

        Raises:
            ValueError: the graphs cannot be scored; says why.
        """
        self.check(store)
        title = f'ranking {os.path.basename(store.source)}'
        with tasks.verifying(store):
            scored = self._member_scores(store)
            yield from phases.each(scored, title, store.num_graphs, store.noun)

    @abc.abstractmethod
    def check(self, store: splits.PackedSplit) -> None:
        """Raises ValueError unless the graphs of a split can be scored."""

    def score_record(self, record: Any) -> np.ndarray:
        """Scores a graph that is in memory.

        Args:
            record: a `TileRecord` or `LayoutRecord`, whichever the run is of.

        Returns:
            float32 [configurations]; lower is faster.

        Raises:
            ValueError: it cannot be scored, or one of its arrays is of a wrong
                type or shape.
        """
        return mean_score(self.score_record_members(record))

    def score_record_members(self, record: Any) -> Members:
        """Returns the members' scores of a graph in memory; see `score_record`."""
        store_class = stores_lib.STORES[self.collection.task]
        if not isinstance(record, store_class.record_class):
            wanted, given = store_class.record_class.__name__, type(record).__name__
            raise ValueError(f'the run ranks {wanted}s, not {given}')
        store = store_class.of_records(str(record.graph_id), [record.checked()])
        return next(self.score_members(store))


class EstimatePredictor(Predictor):
    """Scores graphs by formulas alone, those of a TPU v3: `--dir estimate`.

    Tiles by `features.estimate`, layouts by `layout.estimate`.

    Args:
        name: of the collection whose graphs it scores.
        options: the place of graphs.

    Raises:
        ValueError: there is no such collection.
    """

    def __init__(self, name: str, options: Options = Options()):
        collection = collections.of_name(name)
        super().__init__(finding.ESTIMATE, finding.ESTIMATE, collection, options)
        self.variant = variants.Variant(config_features=collection.config_columns)
        self.num_ops = max(schema.OPCODE_NUMBERS.values()) + 1

    def check(self, store: splits.PackedSplit) -> None:
        """Makes sure that columns are the published ones."""
        self.variant.check(store, 'the estimate reads')

    def _member_scores(self, store: splits.PackedSplit) -> Iterator[Members]:
        return zip(self.task.estimates(store))
