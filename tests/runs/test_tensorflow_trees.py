"""Distilled trees in TensorFlow: columns by hand, scores as LightGBM's, exported."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from baselines.hlo import schema
from baselines.runs import export
from baselines.runs import loading
from baselines.runs import prediction
from baselines.runs import tensorflow_trees
from baselines.runs import trees as trees_lib
from baselines.training import distilling
from baselines.training import growing
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import tile_records


def test_columns_by_hand():
    nodes = np.zeros((2, 3), np.float32)
    nodes[:, 1] = [np.e - 1, 1 - np.e]  # sign(x) log(1 + |x|) is 1 and -1
    nodes[1, 2] = np.expm1(3)
    configs = np.array([[4, 0], [2, 0]], np.float32)
    found = tensorflow_trees.columns(
        {
            'node_feat': tf.constant(nodes),
            'node_opcode': tf.constant([7, 200]),
            'config_feat': tf.constant(configs),
        }
    ).numpy()
    names = tensorflow_trees.column_names(3, 2)
    assert found.shape == (2, len(names)) and len(set(names)) == len(names)
    rows = [dict(zip(names, row)) for row in found.tolist()]
    first, second = schema.TILE.names[:2]
    assert [row[f'config_{first}'] for row in rows] == [4, 2]
    assert [row[f'share_{first}'] for row in rows] == [1, 0.5]
    assert [row[f'most_{first}'] for row in rows] == [4, 4]
    assert [row[f'share_{second}'] for row in rows] == [0, 0]
    assert rows[0]['mean_1'] == pytest.approx(0) and rows[0]['max_1'] == pytest.approx(
        1
    )
    assert rows[0]['mean_2'] == pytest.approx(1.5)
    assert (rows[0]['count_7'], rows[0]['count_127'], rows[0]['nodes']) == (1, 1, 2)


@pytest.mark.parametrize('leaves', [2, 15])
def test_trees_score_as_in_lightgbm(leaves):
    pytest.importorskip('lightgbm')
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(300, 5)).astype(np.float32)
    rows = growing.Rows(columns, np.sin(columns[:, 3]) + columns[:, 1])
    options = growing.Options(trees=7, num_leaves=leaves, min_leaf=5)
    trees, _ = growing.fit(list('abcde'), options, rows, None, 0)
    used = ['abcde'.index(name) for name in trees.used]
    np.testing.assert_allclose(
        tensorflow_trees.forest(trees)(tf.constant(columns)),
        trees.predict(columns[:, used]),
        rtol=0,
        atol=1e-5,
    )


def test_a_tree_of_one_leaf():
    """As LightGBM writes one that found nothing to split."""
    alone = trees_lib.Tree(
        *(np.empty(0, kind) for kind in (np.int32, np.float64, np.int32, np.int32)),
        np.array([0.5]),
    )
    split = trees_lib.Tree(
        np.array([1], np.int32),
        np.array([2.0]),
        np.array([-1], np.int32),
        np.array([-2], np.int32),
        np.array([10.0, 20.0]),
    )
    rows = tf.constant([[0.0, 2.0], [0.0, 2.5]])
    for arrays, wanted in (
        ([alone, split], [10.5, 20.5]),
        ([split, alone], [10.5, 20.5]),
        ([alone], [0.5, 0.5]),
    ):
        trees = type('Trees', (), {'as_arrays': lambda self, arrays=arrays: arrays})()
        assert tensorflow_trees.forest(trees)(rows).numpy().tolist() == wanted


@pytest.mark.slow
def test_a_run_with_an_estimate_is_distilled(tmp_path, capsys, monkeypatch):
    pytest.importorskip('lightgbm')
    monkeypatch.setattr(distilling, '_OPTIONS', growing.Options(trees=5, rows=100))
    distilled, distil = [], distilling.distil
    keep = lambda predictor: distilled.append(distil(predictor)) or distilled[0]
    monkeypatch.setattr(distilling, 'distil', keep)
    tile_records.write_splits(tmp_path / 'data')
    args = {'model': 'EarlyJoinSAGE', 'model_kwargs_json': made_runs.KWARGS}
    args.update(configs=2, data_root=str(tmp_path / 'data'))
    model_dir = made_runs.make_tile_run(tmp_path, estimate=True, args=args)
    monkeypatch.setenv('HOME', str(tmp_path))
    served = tmp_path / 'served'
    assert processes.command('export', model_dir, served) == 0
    printed = capsys.readouterr().out
    assert ' over raw columns; valid of tile:xla: top-1' in printed
    options = prediction.Options(data_root=str(tmp_path / 'data'))
    predictor = loading.load_predictor(model_dir, options)
    [trees] = distilled
    [record] = [predictor.open_split('valid').record(0)]
    names = ('node_feat', 'node_opcode', 'edge_index', 'config_feat')
    inputs = {name: tf.constant(getattr(record, name)) for name in names}
    model = tf.saved_model.load(str(served))
    found = model.signatures['serving_default'](**inputs)['scores']
    expected = tensorflow_trees.forest(trees)(tensorflow_trees.columns(inputs))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    content = json.loads((served / 'assets.extra' / 'metadata.json').read_text())
    assert content['distilled_trees'] == trees.count
    assert content['inputs']['config_feat']['columns'] == list(schema.TILE.names)
    assert content['inputs']['config_feat']['shape'] == [None, 24]
    assert content['outputs']['scores']['dtype'] == 'float32'
    assert content['versions']['exporter'] == tf.__version__
    with pytest.raises(ValueError, match=r'outside TensorFlow \(estimate\): `tp'):
        export.export(predictor, str(tmp_path / 'other'))


def test_trees_of_layouts_are_not_exported(tmp_path):
    predictor = types.SimpleNamespace(
        run=types.SimpleNamespace(model_dir='model_0', args={'model': 'Trees'}),
        model=None,
        trees='trees',
        normalizer=types.SimpleNamespace(table_parts=()),
    )
    refusal = r'^model_0 computes outside TensorFlow \(trees\): `tpugraphs rank --json`'
    with pytest.raises(ValueError, match=refusal):
        export.export(predictor, str(tmp_path / 'new'))
