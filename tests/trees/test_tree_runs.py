"""Runs of trees, alone and with a graph model, are runs as all others."""

import gzip
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from baselines import recipes
from baselines.evaluation import ensembles
from baselines.layout import layout_table
from baselines.runs import run_files
from baselines.scoring import prediction
from baselines.trees import growing
from baselines.trees import tree_scores
from tests.helpers import finished_runs
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs.ranking import sources

pytest.importorskip('lightgbm')

_KWARGS = {'trees': 4, 'num_leaves': 4, 'min_leaf': 3}
_TREES = dict(model='Trees', model_kwargs_json=json.dumps(_KWARGS))


@pytest.fixture(name='tiles', scope='module')
def _tiles(tmp_path_factory):
    root = tmp_path_factory.mktemp('tile')
    tile_records.write_splits(root / 'data')
    return root, *tile_runs.train(root, **_TREES)


def _predicted(root, model_dir, *words):
    """What `predict` writes of a run."""
    path = root / 'predicted.csv'
    places = ['--output', path, '--cache_dir', root / 'cache']
    assert processes.command('predict', '--dir', model_dir, *places, *words) == 0
    return path.read_text()


def test_a_tile_run(tiles, tmp_path):
    root, model_dir, printed = tiles
    assert 'Trees: at most 4 trees' in printed
    assert processes.list_files(model_dir) == ['trees.txt']
    info = finished_runs.read_info(model_dir)
    assert set(info['digest']) == {'trees', 'settings'}
    assert len(info['normalizer']['node_used']) == 140
    curve = info['train_curve']
    assert curve['epoch'] == [*range(len(curve['train_loss']))]
    assert len(curve['val_opa']) == len(curve['epoch'])
    assert info['best_epoch'] < 4
    assert f'val OPA of all models: {info["val_score"]["value"]:.3f}' in printed
    assert 0 <= info['val_score']['value'] <= 1
    # The directory, its run file and the graphs to rank are enough.
    shutil.copytree(model_dir, tmp_path / model_dir.name)
    shutil.copy(run_files.run_file(str(model_dir)), tmp_path)
    shutil.copytree(root / 'data' / 'test', tmp_path / 'data' / 'test')
    words = ('--data_root', tmp_path / 'data')
    predicted = _predicted(tmp_path, tmp_path / model_dir.name, *words)
    assert predicted == finished_runs.read_csv(model_dir)


_TRAIN = """
import sys
from baselines import config
from baselines.training import run_training
settings = dict(zip(sys.argv[1::2], sys.argv[2::2]))
run_training.train(config.TileConfig(model='Trees', **settings))
loaded = {'tensorflow', 'tensorflow_gnn', 'keras', 'tf_keras'} & set(sys.modules)
assert not loaded, loaded
"""


def test_it_is_trained_without_tensorflow(tiles, tmp_path):
    root, model_dir, _ = tiles
    settings = dict(data_root=root / 'data', cache_dir=root / 'cache', out_dir=tmp_path)
    settings['model_kwargs_json'] = _TREES['model_kwargs_json']
    words = [str(word) for pair in settings.items() for word in pair]
    command = [sys.executable, '-c', _TRAIN, *words]
    done = subprocess.run(command, cwd=places.ROOT, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b'')
    [trees] = tmp_path.glob('model_*/trees.txt')
    assert trees.read_text() == (model_dir / 'trees.txt').read_text()


def test_it_is_exported_as_the_file_of_lightgbm(tiles, tmp_path, capsys):
    _, model_dir, _ = tiles
    output = tmp_path / 'out'
    assert processes.command('export', model_dir, output) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f'{output}: Trees on tile:xla'
    assert re.fullmatch(r'  trees.txt: [1-4] trees? of LightGBM; round .*', printed[1])
    text = (model_dir / 'trees.txt').read_text()
    assert (output / 'trees.txt').read_text() == text
    described = json.loads((output / 'metadata.json').read_text())
    [names] = re.findall('^feature_names=(.*)', text, re.M)
    assert described['columns'] == names.split() and described['prior'] is None


def test_its_settings_shape_it_and_seeds_repeat(tiles, tmp_path):
    root, model_dir, _ = tiles
    again, _ = tile_runs.train(root, out_dir=str(tmp_path / 'same'), **_TREES)
    other, _ = tile_runs.train(root, out_dir=str(tmp_path / 'other'), seed=1, **_TREES)
    texts = [(each / 'trees.txt').read_text() for each in (model_dir, again, other)]
    assert texts[0] == texts[1] != texts[2]
    resumed, printed = tile_runs.train(root, resume=True, **_TREES)
    assert resumed == model_dir and 'is finished already' in printed


def test_a_run_that_was_tampered_with(tiles, tmp_path):
    root, model_dir, _ = tiles
    other, _ = tile_runs.train(root, out_dir=str(tmp_path), seed=2, **_TREES)
    data = prediction.Options()

    def load():
        prediction.load(str(other), data)

    own = (other / 'trees.txt').read_text()
    (other / 'trees.txt').write_text((model_dir / 'trees.txt').read_text())
    refusals.assert_refused(load, 'another directory', 'trees')
    (other / 'trees.txt').write_text(own)
    info = finished_runs.read_info(other)
    info['args']['seed'] = 5
    path = run_files.run_file(str(other))
    pathlib.Path(path).write_bytes(gzip.compress(json.dumps(info).encode()))
    refusals.assert_refused(load, path)
    (other / 'trees.txt').unlink()
    refusals.assert_refused(load, str(other))


def test_without_lightgbm(tiles, monkeypatch, tmp_path):
    root, model_dir, _ = tiles
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *rest: None if name == 'lightgbm' else find(name, *rest),
    )
    wanted = "'.[trees]'"
    train = lambda **flags: tile_runs.train(root, out_dir=str(tmp_path), **flags)
    refusals.assert_refused(lambda: train(**_TREES), '--model=Trees', wanted)
    refusals.assert_refused(lambda: train(trees=True), '--trees', wanted)
    # NumPy scores a run as well.
    assert _predicted(root, model_dir) == finished_runs.read_csv(model_dir)
    assert 'trees' not in recipes.get_settings('strong', 'tile:xla')


@pytest.mark.slow
@pytest.mark.usefixtures('weights_alone')
def test_beside_a_graph_model_the_mean_of_both(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, 'OF_TILES', growing.TreeOptions(**_KWARGS))
    monkeypatch.setattr(ensembles, 'choose_weights', lambda *given: [0.5, 1.0])
    tile_records.write_splits(tmp_path / 'data')
    flags = dict(tile_runs.TINY, epochs=1)
    both, printed = tile_runs.train(tmp_path, trees=True, **flags)
    assert ' 0.5 for the graph model and 1 for the trees' in printed
    assert finished_runs.read_info(both)['member_weights'] == [0.5, 1.0]
    assert {'variables/variables.index', 'trees.txt'} <= set(processes.list_files(both))
    digest = finished_runs.read_info(both)['digest']
    assert set(digest) == {'trees', 'weights', 'settings'}
    options = prediction.Options(
        cache_dir=str(tmp_path / 'cache'), models_file=flags['models_file']
    )
    predictor = prediction.load(str(both), options)
    store = predictor.open_split('test')
    together = list(predictor.score(store))
    predictor.write(str(tmp_path / 'p.csv'), store, together)
    assert (tmp_path / 'p.csv').read_text() == finished_runs.read_csv(both)
    trees = predictor.scorer.trees
    table = predictor.task.table(store, trees.used, None)
    of_trees = list(tree_scores.scores(trees, table))
    members = list(predictor.score_members(store))
    for mean, (one, other), of_tree in zip(together, members, of_trees):
        np.testing.assert_array_equal(other, of_tree)
        standard = [(x - x.mean()) / (x.std() or 1) for x in (one, other)]
        wanted = (0.5 * standard[0] + standard[1]) / 1.5
        np.testing.assert_allclose(mean, wanted, atol=1e-5)
    [ranked] = sources.rank(predictor, store.record(0))[0]
    assert ranked.agreement == ensembles.compute_agreement(members[0])


@pytest.mark.slow
def test_layouts(tmp_path):
    layout_runs.write_splits(tmp_path / 'data' / 'xla' / 'random')
    model_dir, printed = layout_runs.train(tmp_path, **_TREES)
    assert 'Trees: at most 4 trees' in printed
    names = (model_dir / 'trees.txt').read_text().split('feature_names=')[1]
    assert names.splitlines()[0].split() == list(layout_table.NAMES)
    assert _predicted(tmp_path, model_dir) == finished_runs.read_csv(model_dir)


def test_what_trees_predict():
    runtimes = np.array([40, 10, 20, 10])
    # Ranks 4, 1.5, 3 and 1.5 of 4 lie at 7/8, 1/4, 5/8 and 1/4.
    wanted = [1.150, -0.674, 0.319, -0.674]
    assert ensembles.get_normal_scores(runtimes) == pytest.approx(wanted, abs=1e-3)
    # 2, 0, 1 and 0 times the logarithm of 2, less their mean.
    logs = np.log(2) * np.array([1.25, -0.75, 0.25, -0.75])
    # Layouts are judged by their order alone; of tiles it also matters how slow.
    for by_tau, targets in ((True, wanted), (False, wanted + logs)):
        rows = _drawn([runtimes], by_tau)
        found = rows.targets[np.argsort(rows.columns[:, 0])]
        assert found == pytest.approx(targets, abs=1e-3)
    # Graphs count by their weight and by the root of their size:
    rows = _drawn([np.arange(1, 5), np.arange(1, 2)], True, np.array([0.5, 3]))
    # 4 rows of 1/2 / sqrt(4), and one of 3 / sqrt(1).
    np.testing.assert_allclose(rows.weights, [0.25] * 4 + [3])


def _drawn(runtimes, by_tau, weights=1.0):
    """All configurations of graphs, whose one column is their number."""
    judged_by = 'kendall_tau' if by_tau else 'opa'
    task = types.SimpleNamespace(judged_by=judged_by, prior='')
    store = types.SimpleNamespace(labels=lambda graph: runtimes[graph])
    table = types.SimpleNamespace(
        names=['number'],
        counts=np.array(list(map(len, runtimes))),
        rows=lambda graphs, configs: configs[:, None],
    )
    graphs, rng = np.arange(len(runtimes)), np.random.default_rng(0)
    return growing.draw_rows(rng, task, store, table, graphs, 1000, weights)
