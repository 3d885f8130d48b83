"""Several runs of a collection as one model: their scores, averaged."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from baselines.core import text
from baselines.data.packed import splits
from baselines.evaluation import comparison
from baselines.evaluation import report
from baselines.runs import differences
from baselines.runs import finding
from baselines.scoring import measuring
from baselines.scoring import prediction


class Scored(NamedTuple):
    """A split, scored by several runs."""

    predictors: Mapping[str, prediction.Predictor]  # the runs, by model directory
    store: splits.PackedSplit  # the split
    # for each run a list with float32 [configurations] of each graph
    scores: list[list[np.ndarray]]

    @property
    def first(self) -> prediction.Predictor:
        """The first run: others read the same graphs, and write the same rows."""
        return next(iter(self.predictors.values()))

    def describe(self) -> text.JsonObject:
        """Describes the first model and the data, with the folds of all models."""
        described = [
            measuring.describe(p, self.store) for p in self.predictors.values()
        ]
        folds = dict.fromkeys(d['fold'] for d in described if d['fold'])
        return {**described[0], 'fold': ', '.join(folds)}

    def results(
        self, models: Sequence[Sequence[np.ndarray]]
    ) -> list[list[report.GraphResult]]:
        """Joins the graphs of the split with the scores of each of several models."""
        untrained = measuring.estimates(self.first, self.store)
        estimates = None if untrained is None else list(untrained)
        return [report.join_results(self.store, scored, estimates) for scored in models]

    def measure(self, averaged: Sequence[np.ndarray], by: str) -> text.JsonObject:
        """Measures averaged scores and each run, and compares them graph by graph.

        Args:
            by: the way of averaging, see `ensembles.average`.

        Returns:
            A dict:
              ensemble: its summary, as `measuring.measure` returns it.
              members: {model directory: summary}.
              gain_over_mean: gains over the mean of the runs' figures, from
                `comparison.paired_test`.
        """
        store, task = self.store, self.first.collection.task
        # The same graphs, scored by the ensemble and by each of its members.
        ours, *members = self.results([averaged, *self.scores])
        described = self.describe()
        described.update(model='ensemble', name=f'ensemble by {by}', by=by)
        labels = label_predictors(self.predictors)
        tests = comparison.paired_test(task, [ours], members)
        return {
            'ensemble': {**described, **report.summarise(task, ours)},
            'members': {
                model_dir: {
                    **measuring.describe(member, store),
                    **labels[model_dir]._asdict(),
                    **report.summarise(task, theirs),
                }
                for (model_dir, member), theirs in zip(self.predictors.items(), members)
            },
            'gain_over_mean': {
                measure: {name: test[name] for name in ('gain', 'low', 'high')}
                for measure, test in tests.items()
            },
        }


def load(
    names: Sequence[str], options: prediction.Options, fewest: int = 1
) -> dict[str, prediction.Predictor]:
    """Makes runs of one collection ready to score; returns them by model directory.

    Args:
        names: names of runs, as `finding.find` takes them.

    Raises:
        ValueError: there are fewer than `fewest` runs, they are of different
            collections, or one of them is unusable.
    """
    runs = finding.load_all(names)
    if len(runs) < fewest:
        raise ValueError(
            '--dirs: an ensemble is of two or more different runs, not '
            f'{" ".join(names)}'
        )
    parts = {
        name: run.collection.select_part(options.collection, run.model_dir)
        for name, run in runs.items()
    }
    first = next(iter(runs))
    for model_dir, part in parts.items():
        if part != parts[first]:
            raise ValueError(
                f'--dirs: {model_dir} is a run of {part.name}, but {first} of '
                f'{parts[first].name}'
            )
    opened: dict = {}
    return {
        model_dir: prediction.Predictor(parts[model_dir], options, run, opened=opened)
        for model_dir, run in runs.items()
    }


def label_predictors(
    predictors: Mapping[str, prediction.Predictor],
) -> dict[str, differences.Label]:
    """Returns labels by name of the predictor: their models, and differing settings."""
    runs = {p.name: p.run for p in predictors.values() if p.run}
    labels = dict(zip(runs, differences.label_runs(list(runs.values()))))
    return {
        name: labels.get(p.name) or differences.Label(p.model_name, p.model_name)
        for name, p in predictors.items()
    }


def score(
    predictors: Mapping[str, prediction.Predictor],
    split: str = 'test',
    must_measure: bool = False,
) -> Scored:
    """Scores a split with each of several runs, one after the other.

    Raises:
        ValueError: they would score different graphs; the data are unusable;
            runtimes are needed and all 0.
    """
    first_dir, first = next(iter(predictors.items()))
    first_store = first.open_split(split)
    if must_measure:
        measuring.check_runtimes(first_store)
    # All of them before a model is read, which imports TensorFlow.
    for model_dir, predictor in predictors.items():
        store = predictor.open_split(split)
        if store.fingerprint != first_store.fingerprint:
            raise ValueError(
                f'--dirs: {model_dir} would score {store.source}, but {first_dir} '
                f'{first_store.source}, and their graphs differ; name one '
                '--data_root, or --split=test for runs of several folds'
            )
    for predictor in predictors.values():
        predictor.read()
    scores = [list(predictor.score(first_store)) for predictor in predictors.values()]
    return Scored(predictors, first_store, scores)
