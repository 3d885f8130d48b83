"""Jobs on finished runs, of whichever collection: rank a split, measure."""

import os
import sys
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from baselines import files
from baselines import registry
from baselines.data.packed import splits
from baselines.finished import differences
from baselines.finished import finding
from baselines.ranking import report
from baselines.ranking import submission
from baselines.tasks import prediction
from baselines.tasks import task
from baselines.training import runs


def find_runs(names: Sequence[str]) -> Dict[str, runs.Run]:
    """Finds and reads several runs, before any of them is used.

    Args:
        names: of the runs, as `finding.find` takes them; one that is named more
            than once is there once, and a note says so.

    Returns:
        By model directory, in the order of the names.

    Raises:
        ValueError: a run cannot be found or read.
    """
    found = finding.find_all(names)
    for model_dir, called in found.items():
        if len(called) > 1:
            print(
                f'note: {model_dir} is named {len(called)} times '
                f'({", ".join(dict.fromkeys(called))}); it counts once',
                file=sys.stderr,
            )
    return {model_dir: runs.load(model_dir) for model_dir in found}


def load_predictors(
    names: Sequence[str], data: prediction.DataOptions, models_file: registry.Own = ''
) -> Dict[str, prediction.Predictor]:
    """Loads several runs, before any of them is used; arguments as above and below."""
    found = find_runs(names)
    return {d: _predictor(run, data, models_file) for d, run in found.items()}


def labels_of(
    predictors: Mapping[str, prediction.Predictor],
) -> Dict[str, differences.Label]:
    """What tells several runs apart, by model directory."""
    loaded = [predictor.run for predictor in predictors.values()]
    return dict(zip(predictors, differences.labels(loaded)))


def load_predictor(
    model_dir: str, data: prediction.DataOptions, models_file: registry.Own = ''
) -> prediction.Predictor:
    """Loads a run for prediction.

    Args:
        model_dir: the run's model directory, or what else `finding.find` takes.
        data: where graphs come from.
        models_file: a models.py, or classes, beside ours.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """
    return _predictor(runs.load(model_dir), data, models_file)


def _predictor(run, data, models_file) -> prediction.Predictor:
    kind = task.kind_of(prediction.collection_of(run))
    return kind.Predictor(run, data, models_file)


def write_predictions(
    model_dirs: Sequence[str],
    data: prediction.DataOptions,
    output: str,
    models_file: registry.Own = '',
    split: str = 'test',
) -> List[str]:
    """Ranks a split with each run and writes a CSV for each.

    Args:
        model_dirs: the runs' model directories.
        data: where graphs come from.
        output: the CSV; with several runs `_<hash>` goes into its name.
        models_file: a models.py, or classes, beside ours.
        split: which graphs to rank.

    Returns:
        The paths written.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    runs.check_file_writable(output, 'output')
    written = []
    predictors = load_predictors(model_dirs, data, models_file).values()
    for predictor in predictors:
        store = predictor.open_split(split)
        rows = predictor.rows(store, predictor.score(store))
        path = files.expand(output)
        if len(predictors) > 1:
            stem, ending = os.path.splitext(path)
            path = f'{stem}_{predictor.run.hash}{ending}'
        submission.write_predictions(path, rows)
        print(f'{path}: {len(rows)} rows')
        written.append(path)
    return written


def evaluate(
    model_dir: str,
    data: prediction.DataOptions,
    models_file: registry.Own = '',
    split: str = 'valid',
) -> Dict[str, Any]:
    """Measures a run on a split whose runtimes are known.

    Returns:
        What `report` makes of it, with `model`, `collection`, `fold`, `split`
        and `data` added.

    Raises:
        ValueError: the run or the data are unusable, or no runtime is known.
    """
    return measure(load_predictor(model_dir, data, models_file), split)


def measure(predictor: prediction.Predictor, split: str) -> Dict[str, Any]:
    """The same of a run that is loaded."""
    return measure_graphs(predictor, split)[0]


def measure_graphs(
    predictor: prediction.Predictor, split: str
) -> Tuple[Dict[str, Any], List[report.GraphResult]]:
    """The same, and each graph with its scores and runtimes."""
    store = predictor.open_split(split)
    check_runtimes(store)
    results = predictor.results(store, predictor.score(store))
    summary = predictor.summarise(results)
    return {**describe(predictor.run, store, split), **summary}, results


def check_runtimes(store: splits.PackedSplit) -> None:
    """Raises ValueError unless the runtimes of a split are known."""
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )


def describe(run: runs.Run, store: splits.PackedSplit, split: str) -> Dict[str, Any]:
    """Returns what a summary says of the run and data that it is of."""
    return {
        'model': run.args['model'],
        'collection': prediction.collection_of(run).name,
        'fold': run.args.get('fold', ''),
        'split': split,
        'data': store.source,
    }
