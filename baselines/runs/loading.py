"""Finished runs, found by name and made ready to score.

predictor = load_predictor('latest', prediction.DataOptions())
write_predictions(['latest'], prediction.DataOptions(), 'test.csv')
"""

import os
import sys
from typing import Dict, List, Mapping, Optional, Sequence

from baselines import files
from baselines import registry
from baselines.runs import differences
from baselines.runs import finding
from baselines.runs import prediction
from baselines.runs import saved
from baselines.runs import spread


def find_runs(names: Sequence[str], task: str = '') -> Dict[str, saved.Run]:
    """Finds and reads several runs, before any of them is used.

    Args:
        names: of the runs, as `finding.find` takes them; one that is named more
            than once is there once, and a note says so.
        task: of the latest run, where that is wanted; see `finding.find`.

    Returns:
        By model directory, in the order of the names.

    Raises:
        ValueError: a run cannot be found or read.
    """
    found = finding.find_all(names, task)
    for model_dir, called in found.items():
        if len(called) > 1:
            print(
                f'note: {model_dir} is named {len(called)} times '
                f'({", ".join(dict.fromkeys(called))}); it counts once',
                file=sys.stderr,
            )
    return {model_dir: saved.Run.load(model_dir) for model_dir in found}


def predictors_of(
    found: Mapping[str, saved.Run],
    data: prediction.DataOptions,
    models_file: registry.Own = '',
    once: bool = False,
) -> Dict[str, prediction.Predictor]:
    """Makes several runs ready to score, before any of them is used.

    Args:
        found: the runs, by model directory.
        data: where graphs come from.
        models_file: a models.py, or classes, beside ours.
        once: see `Predictor`.

    Raises:
        ValueError: a run is incomplete or does not fit the model's code.
    """
    workers: Optional[prediction.Workers] = None
    if data.runner:
        workers = spread.BeamWorkers(data.runner, data.beam_options)
    return {
        model_dir: prediction.Predictor(run, data, models_file, workers, once)
        for model_dir, run in found.items()
    }


def load_predictor(
    name: str,
    data: prediction.DataOptions,
    models_file: registry.Own = '',
    once: bool = False,
) -> prediction.Predictor:
    """The same of one run: its model directory, or what else `finding.find` takes."""
    found = {name: saved.Run.load(name)}
    return predictors_of(found, data, models_file, once)[name]


def labels_of(
    predictors: Mapping[str, prediction.Predictor],
) -> Dict[str, differences.Label]:
    """What tells several runs apart, by model directory."""
    loaded = [predictor.run for predictor in predictors.values()]
    return dict(zip(predictors, differences.labels(loaded)))


def write_predictions(
    names: Sequence[str],
    data: prediction.DataOptions,
    output: str,
    models_file: registry.Own = '',
    split: str = 'test',
    task: str = '',
) -> List[str]:
    """Ranks a split with each run and writes a CSV for each.

    Args:
        names: of the runs, as `finding.find` takes them.
        data: where graphs come from.
        output: the CSV; with several runs `_<hash>` goes into its name.
        models_file: a models.py, or classes, beside ours.
        split: which graphs to rank.
        task: of the latest run, where that is wanted; see `finding.find`.

    Returns:
        The paths written.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    saved.check_file_writable(output, 'output')
    predictors = predictors_of(find_runs(names, task), data, models_file).values()
    written = []
    for predictor in predictors:
        store = predictor.open_split(split)
        path = files.expand(output)
        if len(predictors) > 1:
            stem, ending = os.path.splitext(path)
            path = f'{stem}_{predictor.run.hash}{ending}'
        predictor.write(path, store, predictor.score(store))
        written.append(path)
    return written
