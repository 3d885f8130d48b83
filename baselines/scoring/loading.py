"""Makes finished runs, and the untrained estimate, ready to score.

predictor = load_predictor('latest', graph_source.SourceOptions())
write_predictions(['latest'], graph_source.SourceOptions(), 'test.csv')
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import os
from typing import TYPE_CHECKING

import numpy as np

from baselines import config as config_lib
from baselines.core import files
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.data import variants
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import code_files
from baselines.runs import differences
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import scaling as scaling_lib
from baselines.scoring import graph_source
from baselines.scoring import prediction
from baselines.scoring import scorers
from baselines.tasks import lookup
from baselines.trees import booster

if TYPE_CHECKING:
    import tensorflow as tf


def load_predictor(
    name: str, options: graph_source.SourceOptions
) -> prediction.Predictor:
    """Makes a run, or the estimate, ready to score.

    Args:
        name: of the run, as `finding.find` takes it; or 'estimate'.
        options: where graphs are, a models.py, and the task of 'latest'.

    Raises:
        ValueError: a run is incomplete or does not fit the model's code; there is no
            such collection, or the run is of others; it is of several, and none is
            named.
    """
    if name == finding.ESTIMATE:
        return _of_estimate(options)
    return of_run(finding.load(name, options.task), options)


def load_predictors(
    names: Sequence[str], options: graph_source.SourceOptions
) -> dict[str, prediction.Predictor]:
    """Makes runs and the estimate ready to score; see `load_predictor`.

    A run of several collections has a predictor for each, unless one is named.

    Returns:
        By name of the predictor, the model directory, with the collection if there are
        several; the estimate comes last.
    """
    trained = [name for name in names if name != finding.ESTIMATE]
    has_estimate = len(trained) < len(names)
    predictors: dict[str, prediction.Predictor] = {}
    for model_dir, run in finding.load_all(trained, options.task).items():
        parts = run.collection().parts
        if has_estimate and len(parts) == 1:  # --collection is of the estimate
            predictors[model_dir] = of_run(
                run, dataclasses.replace(options, collection='')
            )
        elif options.collection or len(parts) == 1:
            predictors[model_dir] = of_run(run, options)
        else:
            for part in parts:
                predictors[f'{model_dir} {part.name}'] = of_run(
                    run, dataclasses.replace(options, collection=part.name)
                )
    if has_estimate:
        predictors[finding.ESTIMATE] = _of_estimate(options)
    return predictors


def load_alike(
    names: Sequence[str], options: graph_source.SourceOptions
) -> dict[str, prediction.Predictor]:
    """Makes runs of one collection ready to score; returns them by model directory.

    Args:
        names: of the runs, as `finding.find` takes them.

    Raises:
        ValueError: the runs are of different collections, or one of them is unusable.
    """
    runs = finding.load_all(names)
    collection_of = {
        name: graph_source.collection_of(run, options.collection).name
        for name, run in runs.items()
    }
    first = next(iter(runs))
    for model_dir, collection in collection_of.items():
        if collection != collection_of[first]:
            raise ValueError(
                f'--dirs: {model_dir} is a run of {collection}, but {first} of '
                f'{collection_of[first]}'
            )
    return {model_dir: of_run(run, options) for model_dir, run in runs.items()}


def of_run(
    run: run_files.RunFile,
    options: graph_source.SourceOptions = graph_source.SourceOptions(),
) -> prediction.Predictor:
    """Makes a run ready to score; reads its models.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """
    source = graph_source.RunSource(run, options)
    return prediction.Predictor(run_scorer(run, source), source, run)


def run_scorer(
    run: run_files.RunFile, source: graph_source.RunSource
) -> scorers.RunScorer:
    """Reads the models of a run.

    Args:
        source: its options say how to score; a run of the published code is scaled
            as its training split.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """
    options = source.options
    code_files.note_difference(run, options.models_file)
    with text.located(run.file):
        columns = source.collection.config_columns
        variant = variants.Variant.from_json(run.info, columns)
        scaling = scaling_lib.stored(run)
    if scaling is None:
        scaling = _fitted_scaling(run, source, variant)
    # Trees alone need no TensorFlow.
    trees = graph_model = keras_model = None
    if run.has_trees:
        trees = booster.Trees.read(run.trees_file)
        run.check_digest('trees', trees.digest())
    if run.has_model:
        keras_model = _read_model(run, scaling, options.models_file)
        graph_model = source.task.inference(
            keras_model, options.memory_budget, options.once
        )
    models = scorers.Models(
        *(source.task, graph_model, trees),
        *(run.member_weights, run.most_multiply_adds),
    )
    estimate = bool(run.args.get('estimate'))
    # A run of several collections reads a flag column for each of them.
    names = [part.name for part in run.collection().parts]
    flag = scorers.Flag(source.collection.name, names) if len(names) > 1 else None
    return scorers.RunScorer(models, scaling, variant, keras_model, estimate, flag)


def _read_model(
    run: run_files.RunFile, scaling: scaling_lib.Scaling, models_file: registry.Own
) -> 'tf.keras.Model':
    """Makes the graph model of a run and reads its weights; raises ValueError."""
    starting.start_tensorflow()
    from baselines.runs import weights

    kwargs = config_lib.model_kwargs(run.args.get('model_kwargs_json') or '{}')
    # A run file may come from someone else: its options could ask for a huge model.
    with weights.limited(run.model_dir, kwargs):
        model = lookup.of(run.collection()).make_model(
            run.args['model'],
            kwargs,
            models_file,
            _configs(run),
            scaling.num_ops,
            scaling.normalizer,
        )
    weights.read(run, model)
    return model


def _configs(run: run_files.RunFile) -> int:
    """Returns the number of configurations of a graph in each step of the training."""
    return int(run.args.get('configs', config_lib.CONFIGS[run.task].configs))


def _fitted_scaling(
    run: run_files.RunFile, source: graph_source.Source, variant: variants.Variant
) -> scaling_lib.Scaling:
    """Fits the scaling to the training data again, as the published code does."""
    text.note(
        'this run does not hold its normaliser; fitting it to '
        f'{source.options.data_root or "the measured data"}'
    )
    train, *others = [source.open(split) for split in ('train', 'valid', 'test')]
    train = variant.check(train, 'the model was trained on')
    chosen = np.flatnonzero(train.config_counts >= _configs(run))
    opcodes = [train.max_opcode[chosen], *(store.max_opcode for store in others)]
    normalizer = normalizer_lib.Normalizer.fit(train, chosen)
    return scaling_lib.Scaling(normalizer, normalizer_lib.num_ops(*opcodes))


def _of_estimate(options: graph_source.SourceOptions) -> prediction.Predictor:
    """Makes the untrained estimate ready to score."""
    of_task = [c.name for c in collections.COLLECTIONS if options.task in ('', c.task)]
    collection = collections.collection_by_name(options.collection or of_task[0])
    return prediction.Predictor(
        scorers.EstimateScorer(collection), graph_source.Source(collection, options)
    )


def labels_of(
    predictors: Mapping[str, prediction.Predictor],
) -> dict[str, differences.Label]:
    """Returns labels by name of the predictor: their models, and differing settings."""
    runs = {p.name: p.run for p in predictors.values() if p.run}
    labels = dict(zip(runs, differences.labels(list(runs.values()))))
    untrained = differences.Label(finding.ESTIMATE, finding.ESTIMATE)
    return {name: labels.get(p.name, untrained) for name, p in predictors.items()}


def write_predictions(
    names: Sequence[str],
    options: graph_source.SourceOptions,
    output: str,
    split: str = 'test',
    score: Callable[..., Iterable[np.ndarray]] | None = None,
) -> list[str]:
    """Ranks a split with each run and writes a CSV for each; returns their paths.

    Args:
        options: where graphs are, a models.py, and the task of 'latest'.
        output: the CSV; with several runs `_<hash>`, or `_estimate`, goes into its
            name, and of a run of several collections `_<source>_<search>`.
        score: a function of a predictor and a split, which it has opened, that yields
            the scores of each graph; None to score in this process.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    predictors = load_predictors(names, options)
    several = len({predictor.name for predictor in predictors.values()}) > 1
    paths = {}
    for name, predictor in predictors.items():
        stem, ending = os.path.splitext(files.expand(output))
        if several:
            stem += f'_{predictor.run.hash if predictor.run else predictor.name}'
        if name != predictor.name:
            stem = '_'.join([stem, *predictor.collection.flags.values()])
        paths[name] = stem + ending
        files.check_file_writable(paths[name], 'output', [submission.HEADER])
    for name, predictor in predictors.items():
        store = predictor.open_split(split)
        scored = score and score(predictor, store)
        predictor.write(paths[name], store, predictor.score(store, scored))
    return list(paths.values())
