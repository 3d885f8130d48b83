"""Makes finished runs, and the untrained estimate, ready to score.

predictor = load_predictor('latest', prediction.Options())
write_predictions(['latest'], prediction.Options(), 'test.csv')
"""

import os
from typing import Dict, List, Mapping, Sequence

from baselines import files
from baselines.data import collections
from baselines.runs import differences
from baselines.runs import finding
from baselines.runs import prediction
from baselines.runs import run_predictor


def load_predictor(name: str, options: prediction.Options) -> prediction.Predictor:
    """Makes a run, or the estimate, ready to score.

    Args:
        name: of the run, as `finding.find` takes it; or 'estimate'.
        options: the place of graphs, a models.py, and the task of 'latest'.

    Raises:
        ValueError: a run is incomplete or does not fit the model's code; there is no
            such collection, or one is named for a run.
    """
    if name == finding.ESTIMATE:
        return _estimate_predictor(options)
    check_no_collection(options.collection)
    run = finding.load(name, options.task)
    return run_predictor.RunPredictor(run, options)


def load_predictors(
    names: Sequence[str], options: prediction.Options
) -> Dict[str, prediction.Predictor]:
    """Makes runs and the estimate ready to score; see `load_predictor`.

    Returns:
        By name of the predictor; the estimate comes last.
    """
    trained = [name for name in names if name != finding.ESTIMATE]
    if len(trained) == len(names):
        check_no_collection(options.collection)
    predictors: Dict[str, prediction.Predictor] = {
        model_dir: run_predictor.RunPredictor(run, options)
        for model_dir, run in finding.load_all(trained, options.task).items()
    }
    if len(trained) < len(names):
        predictors[finding.ESTIMATE] = _estimate_predictor(options)
    return predictors


def load_alike(
    names: Sequence[str], options: prediction.Options
) -> Dict[str, run_predictor.RunPredictor]:
    """Makes runs of one collection ready to score.

    Args:
        names: of the runs, as `finding.find` takes them.
        options: the place of graphs, and a models.py.

    Returns:
        By model directory.

    Raises:
        ValueError: the runs are of several collections, or one of them is unusable.
    """
    runs = finding.load_all(names)
    collection_of = {name: run.collection().name for name, run in runs.items()}
    first = next(iter(runs))
    for model_dir, collection in collection_of.items():
        if collection != collection_of[first]:
            raise ValueError(
                f'--dirs: {model_dir} is a run of {collection}, but {first} of '
                f'{collection_of[first]}'
            )
    return {
        model_dir: run_predictor.RunPredictor(run, options)
        for model_dir, run in runs.items()
    }


def _estimate_predictor(options: prediction.Options) -> prediction.EstimatePredictor:
    if options.workers:
        raise ValueError('--runner is for runs: the estimate needs no workers')
    of_task = [c.name for c in collections.COLLECTIONS if options.task in ('', c.task)]
    return prediction.EstimatePredictor(options.collection or of_task[0], options)


def check_no_collection(collection: str) -> None:
    """Raises ValueError where --collection is given without the estimate."""
    if collection:
        raise ValueError(
            f'--collection={collection} is for --dir estimate: a run is of the '
            'collection that it was trained on'
        )


def labels_of(
    predictors: Mapping[str, prediction.Predictor],
) -> Dict[str, differences.Label]:
    """Returns labels by name of the predictor: their models, and differing settings."""
    runs = {name: p.run for name, p in predictors.items() if p.run}
    labels = dict(zip(runs, differences.labels(list(runs.values()))))
    untrained = differences.Label(finding.ESTIMATE, finding.ESTIMATE)
    return {name: labels.get(name, untrained) for name in predictors}


def write_predictions(
    names: Sequence[str], options: prediction.Options, output: str, split: str = 'test'
) -> List[str]:
    """Ranks a split with each run and writes a CSV for each.

    Args:
        names: of the runs, see `load_predictors`.
        options: the place of graphs, a models.py, and the task of 'latest'.
        output: the CSV; with several runs `_<hash>`, or `_estimate`, goes into its
            name.
        split: which graphs to rank.

    Returns:
        The paths written.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    files.check_file_writable(output, 'output')
    predictors = load_predictors(names, options).values()
    written = []
    for predictor in predictors:
        store = predictor.open_split(split)
        path = files.expand(output)
        if len(predictors) > 1:
            stem, ending = os.path.splitext(path)
            suffix = predictor.run.hash if predictor.run else predictor.name
            path = f'{stem}_{suffix}{ending}'
        predictor.write(path, store, predictor.score(store))
        written.append(path)
    return written
