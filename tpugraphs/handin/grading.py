"""Predicts the result of a course's script for a hand-in, by the steps of the script.

    for line in check('models.py', '~/out/tpugraphs_tiles/model_0123'):
        print(line)

The hand-in is a models.py, a model directory and its run file.
"""

from collections.abc import Iterator, Mapping
import functools
import os
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

import baselines
from baselines.core import arrays
from baselines.core import phases
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import prediction
from baselines.tasks import lookup
from tpugraphs.handin import importable
from tpugraphs.handin import verdict

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    from baselines.tiles import graphs as graphs_lib

SCRIPT = 'tiles_gen_predictions_csv.py'
_TASK = lookup.TASKS['tile']
# Settings whose runs the published tree cannot read: trees, and other columns.
_ONLY_HERE = ('trees', 'columns', 'extra')
# Two evaluations of a score differ by at most this share of the largest one.
_ROUNDING = 1e-5
_BEST = 5

Scores = dict[str, np.ndarray]  # graph id -> float32 [configurations]
Lines = Iterator[verdict.Line]


def find_hand_in(
    models_file: str, model_dir: str = '', data_root: str = '', toy_data: bool = False
) -> verdict.HandIn:
    """Finds the files of a hand-in.

    Args:
        models_file: a path; 'models.py:Name' for one of its classes.
        model_dir: a run, as `finding.load` takes it; '' for none.

    Raises:
        ValueError: there is no such file or run.
    """
    path, colon, name = models_file.rpartition(':')
    path, name = (path, name) if colon else (models_file, '')
    path = registry.check_code_file(path, '')
    run = finding.load(model_dir, 'tile') if model_dir else None
    return verdict.HandIn(path, name, run, data_root, toy_data)


def check(hand_in: verdict.HandIn) -> Lines:
    """Checks a models.py, whose code is run, and its run if there is one.

    Raises:
        ValueError: there is no such class, or the file needs a module that only the
            published tree has; or the data cannot be read.
    """
    starting.start_tensorflow()
    from tpugraphs.handin import conformance

    path, name, run = hand_in[:3]
    yield from _note_scripts()
    refused = [f'--{name}' for name in _ONLY_HERE if run and run.args.get(name)]
    if refused or (run and not run.has_model):
        note = f'hand in a run without {" ".join(refused) or "--model=Trees"}'
        return (yield verdict.Line('FIX', hand_in.file, note))
    imported = functools.partial(importable.check, path)
    imports = conformance.try_rule(hand_in.file, 'imports', imported)
    yield imports
    try:
        module = registry.load_models_file(path, 'tiles', '')
    except ValueError as error:
        # A module that only the published tree has: nothing can be said here.
        if importable.ASK in imports.note:
            raise ValueError(f'{hand_in.file}: {imports.note}') from error
        if imports.ok:  # else that line has said it
            yield verdict.Line('FIX', hand_in.file, str(error))
        return
    models, trained = registry.list_models_in(module), run.args['model'] if run else ''
    if hasattr(module, trained):  # a class may be private there, or imported
        models[trained] = getattr(module, trained)
    names = [n for n in (name, trained) if n] or [*registry.drop_aliases(models)]
    for model in dict.fromkeys(names or ['*']):
        if model not in models:
            suggested = registry.suggest_name(model, models)
            note = f'there is no model {text.quoted(model)}{suggested}'
            return (yield verdict.Line('FIX', hand_in.file, note))
        kwargs = read_model_kwargs(run) if run and model == trained else {}
        yield from conformance.check(models[model], kwargs)
    if run:
        yield from _grade(models[trained], hand_in, run)


def _note_scripts() -> Lines:
    """Notes scripts of this package that the course's scripts have replaced."""
    for name in (SCRIPT, 'create_kaggle_csv.py'):
        path = pathlib.Path(baselines.__file__).parents[1] / name
        if path.is_file() and b'from baselines' not in path.read_bytes():
            note = f"the course's script is in its place here; `git checkout -- {name}`"
            yield verdict.Line('note', name, f'{note} restores it')


def _grade(model_class: type, hand_in: verdict.HandIn, run: run_files.RunFile) -> Lines:
    """Ranks the test kernels as the course's script does."""
    from tpugraphs.handin import conformance

    subject = os.path.basename(run.model_dir)
    partial = [name for name in ('sample_data', 'toy_data') if run.args.get(name)]
    if hand_in.toy_data and partial == ['toy_data']:
        partial = []
    for name in partial:
        note = f'a run of --{name} cannot be handed in: train on all of tile:xla'
        yield verdict.Line('FIX', subject, note)
    test, trained, fitted = open_data(hand_in, run)
    expected, as_course = run.info.get('test_predictions'), {}

    def rank_as_course() -> str:
        as_course.update(score_as_course(model_class, run, fitted, test))
        return f': {text.count(len(as_course), "kernel")}'

    def rank_as_trained() -> str:
        model, graphs = make_model(model_class, run, trained, test)
        scored = _TASK.scorer(model, 0, False).scores(graphs)
        total, title = len(test.graph_ids), 'ranking as the training'
        scores = dict(zip(test.graph_ids, phases.each(scored, title, total, 'kernel')))
        if differing := count_differing(scores, expected) if expected else 0:
            raise ValueError(
                f'{differing} of {total} differ: hand in the models.py of the training'
            )
        note = '' if expected else ': its run file has no ranking to compare with'
        best = {name: arrays.order_by_score(row) for name, row in scores.items()}
        if differing := count_differing(as_course, best) if as_course else 0:
            note += f', and the script otherwise for {differing}, as it scales features'
            note += ' by all training kernels, and takes whole lists; this is fine'
        return note

    path = hand_in.path
    if not partial:
        rule = f'{SCRIPT} ranks the test kernels'
        line = conformance.try_rule(subject, rule, rank_as_course, path)
        yield line
        if not line.ok:
            return
    rule = 'ranks as the training did'
    yield conformance.try_rule(subject, rule, rank_as_trained, path)


def open_data(
    hand_in: verdict.HandIn, run: run_files.RunFile
) -> tuple[splits.PackedSplit, normalizer_lib.Scaling, normalizer_lib.Scaling]:
    """Opens the test kernels, and scales features as the training and the script do.

    Returns:
        The test split, the training's scaling, and the script's, which fits it to all
        training kernels.

    Raises:
        ValueError: a split is missing or damaged.
    """
    collection = run.collection.select_part('', run.model_dir)
    options = prediction.Options(hand_in.data_root, toy_data=hand_in.toy_data or None)
    options = prediction.resolve(options, collection, run)
    open_split = _TASK.store_class.open_collection
    train, *others = (open_split(collection, options, s) for s in collections.SPLITS)

    def fit(least: int) -> normalizer_lib.Scaling:
        # The training leaves out kernels with fewer configurations, the script none.
        chosen = np.flatnonzero(train.config_counts >= least)
        opcodes = [train.max_opcode[chosen], *(s.max_opcode for s in others)]
        normalizer = normalizer_lib.Normalizer.fit(train, chosen)
        return normalizer_lib.Scaling(normalizer, normalizer_lib.count_ops(*opcodes))

    # A run of the published code holds no scaling.
    trained = normalizer_lib.Scaling.from_json(run.info) or fit(run.configs)
    return others[-1], trained, fit(0)


def read_model_kwargs(run: run_files.RunFile) -> text.JsonObject:
    """Returns the options of a run's model."""
    return settings_lib.parse_model_kwargs(run.args.get('model_kwargs_json') or '{}')


def score_hand_in(hand_in: verdict.HandIn, run: run_files.RunFile) -> Scores:
    """Scores the test kernels of a run as the course's script does; see below."""
    module = registry.load_models_file(hand_in.path, 'tiles', '')
    test, _, fitted = open_data(hand_in, run)
    return score_as_course(getattr(module, run.args['model']), run, fitted, test)


def score_as_course(
    model_class: type,
    run: run_files.RunFile,
    scaling: normalizer_lib.Scaling,
    test: splits.PackedSplit,
) -> Scores:
    """Scores test kernels as the course's script does, one by one.

    Raises:
        ValueError: the directory's variables do not fit, or the model fails on a
            kernel; names it.
        Exception: as the model's code raises it while it is made.
    """
    model, graphs = make_model(model_class, run, scaling, test)
    scored: Scores = {}
    title, total = f'ranking as {SCRIPT}', len(test.graph_ids)
    ids = phases.each(test.graph_ids, title, total, 'kernel')
    for number, graph_id in enumerate(ids):
        try:
            kernel, configs = _make_kernel(graphs, number)
            scored[graph_id] = np.asarray(model.forward(kernel, configs))[0]
        except (Exception, SystemExit) as error:
            wrong = registry.describe_error(error, registry.find_file(model_class))
            raise ValueError(f'kernel {graph_id}: {wrong}') from error
    return scored


def make_model(
    model_class: type,
    run: run_files.RunFile,
    scaling: normalizer_lib.Scaling,
    test: splits.PackedSplit,
) -> tuple['tf.keras.Model', 'graphs_lib.TileGraphs']:
    """Makes the model of a run as the course's script does.

    It is made by keyword, `forward` on the first kernel builds it, and trainable
    variables are copied by position.

    Returns:
        The model, and the test kernels in its scaling.
    """
    from baselines.runs import weights
    from tpugraphs.handin import conformance

    graphs = _TASK.graphs(test, scaling.normalizer, False, False)
    kwargs = read_model_kwargs(run)
    loaded = conformance.load_as_a_grader(run.model_dir)
    # A run file may come from someone else, and ask for a huge model.
    with registry.limit_size(weights.compute_size_limit(run.model_dir, kwargs)):
        model = model_class(num_configs=run.configs, num_ops=scaling.num_ops, **kwargs)
        model.forward(*_make_kernel(graphs, 0))
    conformance.copy_variables(loaded, model)
    return model, graphs


def _make_kernel(
    graphs: 'graphs_lib.TileGraphs', number: int
) -> tuple['tfgnn.GraphTensor', int]:
    """Returns a kernel with all its configurations, and their number."""
    import tensorflow as tf

    from baselines.tiles import graphs as graphs_lib

    packed = graphs.pack_all(np.array([number]), pairs=None)
    configs = int(packed['configs_per_kernel'][0])
    tensors = {key: tf.convert_to_tensor(array) for key, array in packed.items()}
    return graphs_lib.unpack(tensors, 0, 1, configs)[0], configs


def count_differing(scores: Scores, chosen: Mapping[str, Any]) -> int:
    """Counts the kernels whose chosen configurations are not the best by scores.

    Args:
        chosen: by ID the choices, best first; IDs may begin with a collection, and rows
            may be longer than five, or filled up with repeated choices.
    """
    rows = {row_id.rpartition(':')[2]: row for row_id, row in chosen.items()}
    differing = 0
    for graph_id in {**scores, **rows}:
        row = scores.get(graph_id, np.zeros(0))
        best = np.sort(row)[:_BEST]
        choices = dict.fromkeys(map(int, rows.get(graph_id, ())))
        # Scores of the choices: configurations of equal scores may be swapped.
        taken = row[[c for c in choices if 0 <= c < len(row)][:_BEST]]
        most = _ROUNDING * np.abs(row).max(initial=0)
        is_same = 0 < len(taken) == len(best) and np.abs(taken - best).max() <= most
        differing += not is_same
    return differing
