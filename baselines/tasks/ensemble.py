"""Several runs of a collection as one model: their scores, averaged."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from baselines.ranking import comparison
from baselines.ranking import ensembles
from baselines.ranking import report
from baselines.ranking import submission
from baselines.tasks import predict
from baselines.tasks import prediction
from baselines.training import runs


class Scored(NamedTuple):
    """A split, scored by several runs.

    Attributes:
        predictor: of the first run.
        store: the split.
        split: its name.
        runs: by model directory.
        scores: for each run a list with float32 [configurations] of each graph.
    """

    predictor: prediction.Predictor
    store: Any
    split: str
    runs: Dict[str, runs.Run]
    scores: List[List[np.ndarray]]


def score(
    model_dirs: Sequence[str],
    data: prediction.DataOptions,
    models_file: str = '',
    split: str = 'test',
    must_measure: bool = False,
) -> Scored:
    """Scores a split with each of several runs, one after the other.

    Args:
        model_dirs: the runs' model directories.
        data: where graphs come from.
        models_file: a models.py in place of ours.
        split: which graphs.
        must_measure: refuse a split without runtimes.

    Raises:
        ValueError: there are fewer than two runs, or one twice; they are not of
            one collection, or would score different graphs; one of them or the
            data are unusable; runtimes are needed and not known.
    """
    loaded = {model_dir: runs.load(model_dir) for model_dir in model_dirs}
    places = {run.model_dir for run in loaded.values()}
    if len(places) < 2 or len(places) < len(model_dirs):
        raise ValueError(
            '--dirs: an ensemble is of two or more different runs, not '
            f'{" ".join(model_dirs)}'
        )
    names = {d: prediction.collection_of(run).name for d, run in loaded.items()}
    first_dir = model_dirs[0]
    for model_dir, name in names.items():
        if name != names[first_dir]:
            raise ValueError(
                f'--dirs: {model_dir} is a run of {name}, but {first_dir} of '
                f'{names[first_dir]}'
            )
    first: Optional[prediction.Predictor] = None
    scores = []
    for model_dir in model_dirs:
        predictor = predict.load_predictor(model_dir, data, models_file)
        store = predictor.open_split(split)
        if first is None:
            first, first_store = predictor, store
            if must_measure:
                predict.check_runtimes(store)
        if store.fingerprint != first_store.fingerprint:
            raise ValueError(
                f'--dirs: {model_dir} would score {store.source}, but {first_dir} '
                f'{first_store.source}, and their graphs differ; name one '
                '--data_root, or --split=test for runs of several folds'
            )
        scores.append([found for _, found in predictor.score(store)])
    return Scored(first, first_store, split, loaded, scores)


def average(
    scored: Scored, weights: Optional[Sequence[float]] = None, by: str = 'scores'
) -> List[np.ndarray]:
    """Averages what the runs say: float64 [configurations] of each graph.

    Args:
        scored: from `score`.
        weights: of the runs; None means equal.
        by: 'scores' or 'ranks', see `ensembles.average`.
    """
    return [ensembles.average(members, weights, by) for members in zip(*scored.scores)]


def write(scored: Scored, averaged: Sequence[np.ndarray], output: str) -> int:
    """Writes the ensemble's ranking; returns the number of rows.

    Raises:
        OSError: it cannot be written.
    """
    rows = [
        scored.predictor.row(graph_id, scores)
        for graph_id, scores in zip(scored.store.graph_ids, averaged)
    ]
    submission.write_predictions(output, rows)
    return len(rows)


def measure(scored: Scored, averaged: Sequence[np.ndarray], by: str) -> Dict[str, Any]:
    """Measures the ensemble and each run, and compares them graph by graph.

    Args:
        scored: from `score`; runtimes are known.
        averaged: from `average`.
        by: how.

    Returns:
        A dict:
          ensemble: its summary, as `predict.evaluate` returns it.
          members: {model directory: summary}.
          gain_over: {model directory: gains}, from `comparison.paired_gain`.
          gain_over_mean: gains over the mean of the runs' figures.
    """
    store, predictor = scored.store, scored.predictor
    labels = [predictor.labels(store, i) for i in range(store.num_graphs)]

    def results(scores):
        return [
            report.GraphResult(*parts) for parts in zip(store.graph_ids, scores, labels)
        ]

    ours = results(averaged)
    members = [results(scores) for scores in scored.scores]
    summary = predictor.summarise(ours)
    task = summary['task']
    described = predict.describe(predictor.run, store, scored.split)
    return {
        'ensemble': {**described, 'model': 'ensemble', 'by': by, **summary},
        'members': {
            model_dir: {
                **predict.describe(run, store, scored.split),
                **predictor.summarise(theirs),
            }
            for (model_dir, run), theirs in zip(scored.runs.items(), members)
        },
        'gain_over': {
            model_dir: comparison.paired_gain(task, ours, [theirs])
            for model_dir, theirs in zip(scored.runs, members)
        },
        'gain_over_mean': comparison.paired_gain(task, ours, members),
    }
