"""Our models in the published tree, and models written for that tree in ours."""

import csv
import importlib
import inspect
import json
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.core import registry
from baselines.runs import saved
from baselines.scoring import prediction
from baselines.training import run_training
from tests.helpers import conformance
from tests.helpers import elsewhere
from tests.helpers import finished_runs
from tests.helpers import layout_programs
from tests.helpers import places
from tests.helpers import tile_graphs
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tests.helpers import tiny_layout_models
from tpugraphs.handin import conformance as rules
from tpugraphs.handin import importable

_ROOT = places.ROOT
_STUDENT = elsewhere.PUBLISHED_TREE / 'student_models.py'


@pytest.fixture(scope='module', name='root')
def _root(tmp_path_factory):
    """Random splits in which each rule of the scaling makes a difference."""
    root = tmp_path_factory.mktemp('tile')
    width = dict(node_features=12, config_features=6)
    train = tile_records.make_records(7, seed=1, **width)
    for record in train:
        record.node_feat[:, 3] = 7  # constant: not a feature
        record.config_feat[:, 0] = 0
    # Fewer than the ten configurations of a training step: it does not count
    # for minimum, maximum and the number of opcodes, nor are columns varied.
    rng = np.random.default_rng(2)
    small = tile_records.make_record(rng, 'program_0_small', configs=9, **width)
    small.node_feat[:] *= 10
    small.node_opcode[:] = 250
    valid = tile_records.make_records(3, seed=3, **width)
    # A small kernel of another split does count for the number of opcodes.
    valid.append(tile_records.make_record(rng, 'program_9_small', configs=4, **width))
    valid[-1].node_opcode[:] = 199
    test = tile_records.make_records(
        5, seed=5, configs=[2, 7, 12, 30, 40], is_test=True, **width
    )
    for name, records in (('train', [*train, small]), ('valid', valid), ('test', test)):
        tile_records.write_split(root / 'data' / name, records)
    return root


def _settings(root, out_dir, **changes):
    fields = dict(out_dir=str(out_dir), results_csv=f'{out_dir}/results.csv', epochs=1)
    return tile_runs.settings(root, **{**fields, 'batch': 3, **changes})


def _options(settings, models_file=''):
    return prediction.Options(
        settings.data_root, settings.cache_dir, models_file=models_file
    )


def _rows(path):
    with open(path, newline='') as stream:
        return dict(csv.reader(stream))


class _Published(NamedTuple):
    """What the published tree makes of our models, and what we do.

    Attributes:
        scores: of a kernel by model, once with `call`, and once with `forward`.
        expected: our scores by model.
        tolerance: by model, what rounding may change.
        layout: saved layout models, and their variables as loaded there, by name.
    """

    scores: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: dict[str, float]
    layout: dict[str, tuple[tf.keras.Model, list[np.ndarray]]]


@pytest.fixture(scope='module', name='published')
def _published(tmp_path_factory):
    folder = tmp_path_factory.mktemp('published')
    rng = np.random.default_rng(0)
    kernel = tile_graphs.random_kernel(
        rng, 6, 5, edges=[(1, 0), (2, 0), (2, 0), (4, 3), (5, 5)]
    )
    graph = tile_graphs.by_hand([kernel])
    inputs = dict(
        num_ops=tile_graphs.NUM_OPS,
        node_opcode=kernel.op,
        node_feat=kernel.feats,
        edge_index=kernel.edges,
        config_feat=kernel.configs,
        config_runtime=kernel.runtimes,
        config_runtime_normalizers=kernel.normalizers,
    )
    expected, tolerance = {}, {}
    # Only the drop-in file travels; models of the zoo stay here.
    models = registry.models_in(importlib.import_module('baselines.tiles.models'))
    for name in conformance.distinct(models):
        model = models[name](5, tile_graphs.NUM_OPS)
        model(graph)
        for i, variable in enumerate(model.trainable_variables):
            variable.assign(rng.normal(0, 0.3, variable.shape))
            inputs[f'{name}_{i}'] = variable.numpy()
        expected[name] = model(graph).numpy()
        tolerance[name] = rules.bound_error(model, graph)
    np.savez(folder / 'inputs.npz', **inputs)
    layout = {}
    program, _ = layout_programs.merged([layout_programs.random_program(0)], range(5))
    for name, model_class in registry.distinct(registry.models('layout')).items():
        layout[name] = model_class(5, 10)
        layout[name](program)
        # Without the calls, which take seconds to trace.
        layout[name].save(folder / name, include_optimizer=False, save_traces=False)
    process = elsewhere.start(
        ['score_models.py', folder / 'inputs.npz', folder / 'scores.npz', *expected],
        ['load_models.py', folder, *(folder / name for name in layout)],
        path=[elsewhere.write_published_tree(folder)],
    )
    elsewhere.finish(process)
    with np.load(folder / 'scores.npz') as stored:
        scores = dict(stored)
    loaded = {}
    for name, model in layout.items():
        with np.load(folder / f'{name}.npz') as stored:
            loaded[name] = model, [stored[key] for key in stored]
    return _Published(scores, expected, tolerance, loaded)


@pytest.mark.slow
def test_our_models_score_the_same_in_the_published_tree(published):
    for name, expected in published.expected.items():
        for way in (name, name + '_forward'):
            tolerance = published.tolerance[name]
            conformance.assert_close(published.scores[way], expected, tolerance)


@pytest.mark.slow
def test_a_process_without_our_code_reads_the_weights_of_layout_models(published):
    for model, loaded in published.layout.values():
        assert len(loaded) == len(model.trainable_variables)
        for variable, array in zip(model.trainable_variables, loaded):
            np.testing.assert_array_equal(array, variable.numpy())


_TRAIN = """
import json, sys
from baselines import config
from baselines.core import registry
from baselines.scoring import prediction
from baselines.training import run_training
from baselines.runs import saved
import tensorflow as tf

def save(model, path):  # what is read; a whole SavedModel takes seconds
    tf.train.Checkpoint(variables=model.variables).write(path + '/variables/variables')

saved.save_model = save
run_training.train(config.TileConfig(**json.loads(sys.argv[1])))
models = registry.models('layout')
print('GCN is', models['GCN'].__module__, 'next to', models['ChebNet'].__module__)
"""

# A layout model of a name that the zoo has, too.
_OWN_GCN = """

class GCN(Tiny):
    pass
"""


@pytest.fixture(scope='module', name='copy')
def _copy(root, tmp_path_factory):
    """(settings, process): a training in a copy of ours with other models.py."""
    repo = tmp_path_factory.mktemp('repo')
    shutil.copytree(_ROOT / 'baselines', repo / 'baselines')  # with its bytecode
    shutil.copy(_STUDENT, repo / 'baselines' / 'tiles' / 'models.py')
    foreign = pathlib.Path(tiny_layout_models.__file__).read_text(encoding='utf-8')
    (repo / 'baselines' / 'layout' / 'models.py').write_text(foreign + _OWN_GCN)
    settings = _settings(
        root,
        tmp_path_factory.mktemp('out'),
        model='GatedPool',
        model_kwargs_json='{"rounds": 1, "width": 6}',
    )
    process = subprocess.Popen(
        [sys.executable, '-c', _TRAIN, json.dumps(config.to_json(settings))],
        cwd=repo,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield settings, process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_models_of_the_published_tree_as_models_file(root, tmp_path, copy, monkeypatch):
    assert copy  # trains meanwhile
    monkeypatch.setattr(saved, 'save_model', finished_runs.save_weights)
    settings = _settings(root, tmp_path, model='Stacked', models_file=str(_STUDENT))
    model_dir = run_training.train(settings)
    output = str(tmp_path / 'again.csv')
    prediction.write_predictions([model_dir], _options(settings, str(_STUDENT)), output)
    rows = _rows(output)
    assert len(rows) == 1 + 5 and rows == _rows(settings.results_csv)
    with pytest.raises(ValueError, match='Stacked.*--models_file'):
        prediction.write_predictions([model_dir], _options(settings), output)


@pytest.mark.slow
def test_models_of_the_published_tree_copied_over_ours(tmp_path, copy):
    settings, process = copy
    printed = elsewhere.finish(process)
    assert str(_ROOT) not in printed
    # The zoo stays, but for a model of a name that the file has.
    assert 'GCN is baselines.layout.models next to baselines.layout.zoo.' in printed
    # The same file, not copied over but named, gives the same ranking.
    [model_dir] = pathlib.Path(settings.out_dir).glob('model_*')
    output = str(tmp_path / 'ours.csv')
    prediction.write_predictions(
        [str(model_dir)], _options(settings, str(_STUDENT)), output
    )
    assert _rows(output) == _rows(settings.results_csv)


@pytest.mark.parametrize('task', ['tiles', 'layout'])
def test_our_drop_in_files_import_little(task):
    path = _ROOT / 'baselines' / task / 'models.py'
    package = importable.PACKAGE.replace('tiles', task)
    allowed = {*sys.stdlib_module_names, 'tensorflow', 'tensorflow_gnn'}
    names = {name for _, name in importable.list_imports(str(path), package)}
    others = {name for name in names if name.partition('.')[0] not in allowed}
    assert others <= {f'{importable.PACKAGE}.implicit'}


def test_the_published_layout_models_find_two_layers_in_our_tile_models():
    models = importlib.import_module('baselines.tiles.models')
    for function, names in (
        (models._mlp, 'dims hidden_activation l2reg use_bias'),
        (models._OpEmbedding, 'num_ops embed_d l2reg'),
    ):
        assert [*inspect.signature(function).parameters] == names.split()
