"""Runs, measured and written as an HTML report."""

from typing import Any, Dict, List, Sequence

from baselines import files
from baselines.reporting import figures
from baselines.reporting import page
from baselines.tasks import predict
from baselines.tasks import prediction
from baselines.training import runs


def write(
    names: Sequence[str],
    data: prediction.DataOptions,
    models_file: str,
    split: str,
    output: str,
    sweeps: Sequence[Dict[str, Any]] = (),
) -> None:
    """Measures runs and writes their report; prints where it is.

    Args:
        names: of the runs, as `finding.find` takes them.
        data: where graphs come from.
        models_file: a models.py beside ours.
        split: whose graphs.
        output: the HTML file.
        sweeps: what is said of them beside the runs, see `page.write`.

    Raises:
        ValueError: the runs are of different collections; one of them or the data
            are unusable, or no runtime is known.
        OSError: `output` cannot be written.
    """
    runs.check_file_writable(output, 'output')
    found = predict.find_runs(names)
    collections = {prediction.collection_of(run).name for run in found.values()}
    if len(collections) > 1:
        raise ValueError(
            f'a report is of one collection, not {" and ".join(sorted(collections))}'
        )
    predictors = predict.load_predictors(list(found), data, models_file)
    labels = predict.labels_of(predictors)
    measured: List[figures.Run] = []
    for model_dir, predictor in predictors.items():
        summary, results = predict.measure_graphs(predictor, split)
        name = labels[model_dir].name
        measured.append(figures.Run(name, predictor.run, summary, results))
    page.write(output, measured, sweeps)
    print(f'report: {files.expand(output)}')
