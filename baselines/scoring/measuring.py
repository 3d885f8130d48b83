"""Measures how a predictor ranks graphs whose runtimes are known."""

from collections.abc import Iterator
import itertools
from typing import cast

import numpy as np

from baselines.core import registry
from baselines.core import text
from baselines.data import published
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.evaluation import report
from baselines.evaluation import score_files
from baselines.runs import finding
from baselines.scoring import prediction

_Measured = tuple[text.JsonObject, list[report.GraphResult]]
_Opened = tuple[splits.PackedSplit, list[np.ndarray]]  # see `Measurer.open`


def measure(
    predictor: prediction.Predictor, split: str, protocol: str = '', scores: str = ''
) -> _Measured:
    """Measures the ranking of a split; see `Measurer`."""
    measurer = Measurer(split, protocol)
    return measurer.measure(predictor, measurer.open(predictor), scores)


class Measurer:
    """Measures predictors on a split.

    What does not depend on the predictor is measured once for all with the same graphs:
    runtimes, random choice, and the estimate, where the data have the columns that it
    reads.

    Args:
        split: 'train', 'valid' or 'test'.
        protocol: a key of `report.PROTOCOLS`; '': published where the graphs are those
            of the published validation split of layouts, else all.
        by_group: False to measure all graphs together alone.

    Raises:
        ValueError: there is no such protocol.
    """

    def __init__(self, split: str, protocol: str = '', by_group: bool = True):
        if protocol:
            registry.resolve(protocol, report.PROTOCOLS, 'protocol')
        self._split, self._protocol, self._by_group = split, protocol, by_group
        # By data: results without scores, and the references of these.
        self._known: dict[tuple, tuple[list[report.GraphResult], list]] = {}

    def open(self, predictor: prediction.Predictor) -> _Opened:
        """Opens the split for a predictor, whose models are not read for that.

        Returns:
            The split; and lists of configurations for the published protocol, or [] to
            measure on all.

        Raises:
            ValueError: as `measure`.
        """
        store = predictor.open_split(self._split)
        check_runtimes(store)
        return store, _list_configurations(predictor, store, self._protocol)

    def measure(
        self, predictor: prediction.Predictor, opened: _Opened, scores: str = ''
    ) -> _Measured:
        """Measures a predictor.

        Args:
            opened: from `open`.
            scores: a file with the scores, see `score_files`, which may lack some
                graphs; '' to score here.

        Returns:
            The summary of `report`, with the fields of `describe` added; and each graph
            with its scores and runtimes.

        Raises:
            ValueError: the data or the file are unusable, no runtime is known, or the
                published protocol has no list for a graph.
        """
        store, lists = opened
        counts = dict(zip(store.graph_ids, store.config_counts.tolist()))
        collection, task = predictor.collection, predictor.task
        given = score_files.read(scores, collection.name, counts) if scores else None
        # A run of the published code opens other splits to be read.
        described = {**describe(predictor, store), 'split': self._split}
        if lists:
            store = cast(layout_store.LayoutStore, store).with_configurations(lists)
            described['protocol'] = report.PUBLISHED
        formula = estimates(predictor, store)
        key = collection.name, store.fingerprint, bool(lists), formula is None
        if key not in self._known:
            # References do not depend on scores: they are computed once for all runs.
            unscored = [np.zeros(0)] * len(store)
            results = report.join_results(store, unscored, formula)
            if lists:  # a configuration listed twice was measured once
                results = [result._replace(configurations=None) for result in results]
            self._known[key] = (
                results,
                [report.measure_reference(task.name, result) for result in results],
            )
        results, references = self._known[key]
        scored = predictor.score(store, given and given.in_order(counts, lists))
        results = [
            result._replace(scores=of_graph, first=given and given.first)
            for result, of_graph in zip(results, scored)
        ]
        if given:
            kept = [result.graph_id in given.by_graph for result in results]
            results = [*itertools.compress(results, kept)]
            references = [*itertools.compress(references, kept)]
        summary = report.summarise(
            task.name, results, described['protocol'], references, self._by_group
        )
        return {**described, **summary}, results


def describe(
    predictor: prediction.Predictor, store: splits.PackedSplit
) -> text.JsonObject:
    """Describes the model, and the data: the split that was opened last."""
    return {
        'model': predictor.model_name,
        'collection': predictor.collection.name,
        'fold': predictor.run.args.get('fold', '') if predictor.run else '',
        'split': predictor.split,
        'protocol': report.ALL,
        'data': store.source,
    }


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )


def estimates(
    predictor: prediction.Predictor, store: splits.PackedSplit
) -> Iterator[np.ndarray] | None:
    """Yields untrained scores of each graph, to compare with a run's.

    Returns:
        None for the estimate itself, and for other columns than the published.
    """
    columns = predictor.collection.config_columns
    published_columns = splits.Variant(config_features=columns)
    is_estimate = predictor.name == finding.ESTIMATE
    if is_estimate or splits.Variant.from_store(store) != published_columns:
        return None
    return predictor.task.estimates(store)


def _list_configurations(
    predictor: prediction.Predictor, store: splits.PackedSplit, protocol: str
) -> list[np.ndarray]:
    """Returns the configurations of each graph to measure on; [] for all."""
    # By default only where the split is exactly the published one.
    lists = published.read_validation_lists(predictor.collection.name)
    in_full = predictor.split == 'valid' and {*store.graph_ids} == {*lists}
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
