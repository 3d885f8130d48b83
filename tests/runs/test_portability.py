"""Our models in the published tree, and models written for that tree in ours."""

import importlib
import inspect
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from baselines import config
from baselines.core import registry
from baselines.scoring import prediction
from tests.helpers import conformance
from tests.helpers import elsewhere
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


@pytest.fixture(name='root')
def _root(tmp_path):
    """Random splits in which each rule of the scaling makes a difference."""
    root = tmp_path / 'tile'
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


@pytest.mark.slow
def test_our_models_in_the_published_tree(tmp_path):
    """Tile models score the same there, by `call` and by `forward`, with our weights.

    A process without our code reads the weights of layout models.
    """
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
    models = registry.list_models_in(importlib.import_module('baselines.tiles.models'))
    for name in conformance.distinct(models):
        model = models[name](5, tile_graphs.NUM_OPS)
        model(graph)
        for i, variable in enumerate(model.trainable_variables):
            variable.assign(rng.normal(0, 0.3, variable.shape))
            inputs[f'{name}_{i}'] = variable.numpy()
        expected[name] = model(graph).numpy()
        tolerance[name] = rules.bound_error(model, graph)
    np.savez(tmp_path / 'inputs.npz', **inputs)
    layout = {}
    program, _ = layout_programs.merge([layout_programs.random_program(0)], range(5))
    for name, model_class in registry.drop_aliases(
        registry.find_models('layout')
    ).items():
        layout[name] = model_class(5, 10)
        layout[name](program)
        # Without the calls, which take seconds to trace.
        layout[name].save(tmp_path / name, include_optimizer=False, save_traces=False)
    process = elsewhere.start(
        [
            'score_models.py',
            tmp_path / 'inputs.npz',
            tmp_path / 'scores.npz',
            *expected,
        ],
        ['load_models.py', tmp_path, *(tmp_path / name for name in layout)],
        path=[elsewhere.write_published_tree(tmp_path)],
    )
    elsewhere.finish(process)
    scores = np.load(tmp_path / 'scores.npz')
    for name in expected:
        for way in (name, name + '_forward'):
            conformance.assert_close(scores[way], expected[name], tolerance[name])
    for name, model in layout.items():
        loaded = np.load(tmp_path / f'{name}.npz')
        for variable, key in zip(model.trainable_variables, loaded, strict=True):
            np.testing.assert_array_equal(loaded[key], variable.numpy())


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
models = registry.find_models('layout')
print('GCN is', models['GCN'].__module__, 'next to', models['ChebNet'].__module__)
"""


@pytest.mark.slow
def test_models_of_the_published_tree_copied_over_ours(root, tmp_path):
    repo = tmp_path / 'repo'
    shutil.copytree(_ROOT / 'baselines', repo / 'baselines')  # with its bytecode
    shutil.copy(_STUDENT, repo / 'baselines' / 'tiles' / 'models.py')
    foreign = pathlib.Path(tiny_layout_models.__file__).read_text(encoding='utf-8')
    (repo / 'baselines' / 'layout' / 'models.py').write_text(
        foreign + '\n\nclass GCN(Tiny):\n    pass\n'  # the zoo has the name, too
    )
    out = tmp_path / 'out'
    settings = tile_runs.settings(
        root,
        model='GatedPool',
        model_kwargs_json='{"rounds": 1, "width": 6}',
        epochs=1,
        batch=3,
        out_dir=str(out),
        results_csv=f'{out}/results.csv',
    )
    words = [sys.executable, '-c', _TRAIN, json.dumps(config.to_json(settings))]
    done = subprocess.run(words, cwd=repo, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(_ROOT) not in done.stdout + done.stderr
    # The zoo stays, but for a model of a name that the file has.
    assert 'GCN is baselines.layout.models next to baselines.layout.zoo.' in done.stdout
    # The same file, not copied over but named, gives the same ranking.
    [model_dir] = map(str, out.glob('model_*'))
    folders, output = (settings.data_root, settings.cache_dir), tmp_path / 'again.csv'
    options = prediction.Options(*folders, models_file=str(_STUDENT))
    prediction.write_predictions([model_dir], options, str(output))
    assert output.read_text() == (out / 'results.csv').read_text()
    assert output.read_text().count('\n') == 1 + 5
    with pytest.raises(ValueError, match='GatedPool.*--models_file'):
        prediction.load(model_dir, prediction.Options(*folders))


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
