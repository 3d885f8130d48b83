"""Ranks and measures graphs with a run, or with the untrained estimate.

predictor = loading.load_predictor('latest', graph_source.SourceOptions())
for scores in predictor.score(predictor.open_split('test')):  # a graph's
    print(scores.argmin())
"""

from collections.abc import Iterable, Iterator
import os
from typing import cast

import numpy as np

from baselines.core import files
from baselines.core import phases
from baselines.core import registry
from baselines.core import text
from baselines.data import graph_files
from baselines.data import published
from baselines.data import variants
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import graph_source
from baselines.scoring import scorers


class Predictor:
    """Scores the splits of a source, ranks them, and measures the ranking.

    Attributes:
        run: whose models score; None for the estimate.
        scorer: scores graphs.
        source: opens splits.
        name: the run's model directory, or 'estimate'.
        model_name: of the run's model, or 'estimate'.
        collection: the graphs that it is for.
        task: of the collection.
        options: where graphs are, with the task's defaults.

    Args:
        run: whose models score; None for the estimate.
    """

    def __init__(
        self,
        scorer: scorers.Scorer,
        source: graph_source.Source,
        run: run_files.RunFile | None = None,
    ):
        self.scorer, self.source, self.run = scorer, source, run
        self.name = run.model_dir if run else finding.ESTIMATE
        self.model_name = run.args['model'] if run else finding.ESTIMATE
        self.collection, self.task = source.collection, source.task
        self.options = source.options

    def open_split(self, split: str) -> splits.PackedSplit:
        """Opens a split of the source; see `Source.open`."""
        return self.source.open(split)

    def describe(self, store: splits.PackedSplit) -> text.JsonObject:
        """Describes the model, and the data: the split that was opened last."""
        return {
            'model': self.model_name,
            'collection': self.collection.name,
            'fold': self.run.args.get('fold', '') if self.run else '',
            'split': self.source.split,
            'protocol': report.ALL,
            'data': store.source,
        }

    def measure(
        self, split: str, protocol: str = ''
    ) -> tuple[text.JsonObject, list[report.GraphResult]]:
        """Measures how graphs are ranked whose runtimes are known.

        The estimate is measured too, where the data have the columns that it reads.

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
        graph_source.check_runtimes(store)
        # Lists for the published protocol, or [] to measure on all configurations.
        described = self.describe(store)
        lists = self._listed_configurations(store, protocol)
        if lists:
            store = cast(layout_store.LayoutStore, store).with_configurations(lists)
            described['protocol'] = report.PUBLISHED
        results = self.task.results(store, self.score(store), self.estimates(store))
        if lists:  # a configuration listed twice was measured once
            results = [result._replace(configurations=None) for result in results]
        protocol = described['protocol']
        summary = report.summarise(self.collection.task, results, protocol)
        return {**described, **summary}, results

    def estimates(self, store: splits.PackedSplit) -> Iterator[np.ndarray] | None:
        """Yields untrained scores of each graph, to compare with a run's.

        Returns:
            None for the estimate itself, and for other columns than the published.
        """
        published_columns = variants.Variant(
            config_features=self.collection.config_columns
        )
        if not self.run or variants.Variant.from_store(store) != published_columns:
            return None
        return self.task.estimates(store)

    def _listed_configurations(
        self, store: splits.PackedSplit, protocol: str
    ) -> list[np.ndarray]:
        """Returns the configurations of each graph to measure on; [] for all."""
        # By default only where the split is exactly the published one.
        lists = published.validation_lists(self.collection.name)
        in_full = self.source.split == 'valid' and {*store.graph_ids} == {*lists}
        if protocol == report.ALL or not (protocol or in_full):
            return []
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
        rows = submission.make_rows(self.collection.name, store.graph_ids, scored)
        submission.write_predictions(path, rows)
        print(f'{path}: {text.count(len(rows), "row")}')

    def score(
        self, store: splits.PackedSplit, scored: Iterable[np.ndarray] | None = None
    ) -> Iterator[np.ndarray]:
        """Yields the scores of each graph's configurations; lower is faster.

        Prints a note if no score depends on the configuration.

        Args:
            scored: the scores, where other processes make them; None to score here.

        Raises:
            ValueError: the graphs cannot be scored; says why.
        """
        self._note_unknown_opcodes(store)
        if scored is None:
            scored = map(self.scorer.mean, self.score_members(store))
        return scorers.noting_ties(self.name, store, scored)

    def _note_unknown_opcodes(self, store: splits.PackedSplit) -> None:
        """Prints how many graphs have opcodes that the graph model does not know."""
        num_ops = self.scorer.num_ops
        count = int((store.max_opcode >= num_ops).sum())
        if self.run and self.scorer.reads_opcodes and count:
            text.note(
                f'{store.source}: opcodes of {num_ops} or more, in {count:,} of '
                f'{text.count(len(store), store.noun)}, are new to '
                f'{self.run.model_dir}; it takes them for the unknown opcode'
            )

    def score_members(self, store: splits.PackedSplit) -> Iterator[scorers.Members]:
        """Yields the members' scores of each graph, whose mean `score` yields."""
        # Refuses other columns than those of the training, adds those of --extra.
        store = self.scorer.check(store)
        title = f'ranking {os.path.basename(store.source)}'
        scored = self.scorer.members(store)
        yield from phases.each(scored, title, len(store), store.noun)

    def score_record(self, record: graph_files.GraphRecord) -> np.ndarray:
        """Scores a graph that is in memory.

        Args:
            record: a `TileRecord` or `LayoutRecord`, whichever the run is of.

        Returns:
            float32 [configurations]; lower is faster.

        Raises:
            ValueError: it cannot be scored, or one of its arrays is of a wrong
                type or shape.
        """
        return self.scorer.mean(self.score_record_members(record))

    def score_record_members(self, record: graph_files.GraphRecord) -> scorers.Members:
        """Returns the members' scores of a graph in memory; see `score_record`."""
        store_class = self.task.store_class
        if not isinstance(record, store_class.record_class):
            wanted, given = store_class.record_class.__name__, type(record).__name__
            raise ValueError(f'the run ranks {wanted}s, not {given}')
        store = store_class.from_records(str(record.graph_id), [record.checked()])
        return next(self.score_members(store))
