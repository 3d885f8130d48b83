"""The public package, as a user would call it."""

import csv
import io
import json
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import documents
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import refusals
from tests.helpers import tile_records
from tests.helpers import tiny_models
from tests.helpers.hlo_modules import tile_file
import tpugraphs


def _squares(labels, scores):
    """A loss of the user's."""
    return tf.reduce_mean((labels - scores) ** 2, axis=1)


def _train(root, **changes):
    folders = dict(data=root / 'data', out_dir=root / 'out')
    folders['cache_dir'] = str(root / 'cache')
    return tpugraphs.train('tile', **folders, **{'epochs': 1, 'batch': 2, **changes})


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp('api')
    tile_records.write_splits(root / 'data')
    return root


class _Notebook:
    """A callback that writes down what it is told."""

    def __init__(self):
        self.epochs = []

    def on_epoch(self, run, metrics):
        print('told of an epoch')
        self.epochs.append((repr(run), dict(run.settings), dict(metrics)))


@pytest.fixture(name='notebook', scope='module')
def _notebook():
    return _Notebook()


@pytest.fixture(name='run', scope='module')
def _run(root, notebook):
    """Trained with a class, a function and a callback."""
    own = dict(model=tiny_models.Tiny, loss=_squares, callbacks=[notebook])
    return _train(root, lr=1, run_id='mine', **own)


@pytest.mark.slow
def test_a_training_with_a_class_a_function_and_a_callback(run, root, notebook):
    assert run.settings['model'] == 'Tiny' and run.settings['losses'] == '_squares'
    assert run.settings['lr'] == 1.0 and run.settings['epochs'] == 1
    assert run.curve['epoch'] == [0]
    assert run.info['command'].startswith("tpugraphs.train(task='tile', out_dir=")
    assert run.info['seconds'] > 0
    assert repr(run).startswith('<Run Tiny on tile:xla, valid OPA 0.')
    assert f'<td>run</td><td>{run.dir}</td>' in run._repr_html_()
    [(shown, settings, metrics)] = notebook.epochs
    assert shown == '<Training of Tiny after 1 epochs>'
    assert settings['run_id'] == 'mine' and settings['lr'] == 1.0
    curve = {name: values[0] for name, values in run.curve.items()}
    assert metrics == {n: value for n, value in curve.items() if value is not None}


def test_callbacks_of_the_guide(monkeypatch):
    """As printed there, with stand-ins for the services.

    `test_python_runs_as_pasted` runs the one for TensorBoard.
    """
    [code] = [
        block.text.partition('\n\n\nrun = ')[0]
        for block in documents.blocks('docs/guide/python.md')
        if 'class TensorBoard' in block.text
    ]
    names = {}
    exec(code, names)
    said = []
    mlflow = types.SimpleNamespace(
        log_params=lambda settings: said.append(settings),
        log_metrics=lambda metrics, step: said.append((step, metrics)),
    )
    wandb = types.SimpleNamespace(run=None, log=said.append)
    wandb.init = lambda project, config: said.append((project, config))
    monkeypatch.setitem(sys.modules, 'mlflow', mlflow)
    monkeypatch.setitem(sys.modules, 'wandb', wandb)
    training, metrics = tpugraphs.Training({'lr': 1.0}), {'epoch': 0, 'val_opa': 0.75}
    for name in ('MLflow', 'WeightsAndBiases'):
        names[name]().on_epoch(training, metrics)
    settings = {'lr': 1.0}
    assert said == [settings, (0, metrics), ('tpugraphs', settings), metrics]


@pytest.mark.slow
def test_a_training_that_says_nothing(root, capsys):
    class Failing(_Notebook):
        def on_epoch(self, run, metrics):
            super().on_epoch(run, metrics)
            raise RuntimeError('enough')

    own = dict(model=tiny_models.Tiny, callbacks=[Failing()])
    with pytest.raises(RuntimeError, match='enough'):
        _train(root, seed=5, verbose=False, **own)
    assert capsys.readouterr() == ('told of an epoch\n', '')


@pytest.mark.slow
def test_a_run_is_loaded_by_name(run, root):
    for which in ('latest', 'mine', run.dir[-32:-20]):
        again = tpugraphs.load(which, model=tiny_models.Tiny, out_dir=root / 'out')
        assert again.dir == run.dir
    overall = again.evaluate('valid', cache_dir=str(root / 'cache'))['overall']
    error = run.info['final_error']['val']['5']
    assert overall['top_5_error']['mean'] == pytest.approx(error, rel=1e-6)
    scores = again.predict('valid', cache_dir=str(root / 'cache'))
    data = tpugraphs.open(root / 'data', 'valid', cache_dir=str(root / 'cache'))
    assert list(scores) == data.ids
    for record in data:
        found = again.ranker()(record)
        np.testing.assert_allclose(scores[record.graph_id], found, atol=1e-6)
    [row] = runs = tpugraphs.runs(root / 'out')
    assert (row.model, row.run_id, row.path) == ('Tiny', 'mine', run.dir)
    assert 'Tiny' in repr(runs) and '<th>collection</th>' in runs._repr_html_()


@pytest.mark.slow
def test_records_are_ranked_as_they_are_scored(run, root):
    data = tpugraphs.open(root / 'data', 'valid', cache_dir=str(root / 'cache'))
    ranker = run.ranker()
    ranking = run.rank(data)
    assert [ranked.kernel for ranked in ranking] == data.ids
    assert repr(ranking) == f'<Ranking of 4 graphs by {run.dir}>'
    for record, (kernel, order, scores) in zip(data, ranking):
        assert kernel == record.graph_id
        found = ranker(record)
        np.testing.assert_array_equal(scores, np.sort(found))
        np.testing.assert_array_equal(found[order], scores)
        # Some rows alone, and the same from the lists that they are of.
        some = record.config_feat[3:7]
        np.testing.assert_allclose(ranker(record, some), found[3:7], atol=1e-6)
    [alone] = run.rank(data[-1])
    assert alone.kernel == data.ids[-1]


@pytest.mark.slow
def test_candidates_are_given_as_dicts(run, root):
    record = _records(root)[0]
    tiles = [{'output_bounds': [8, 128]}, {'kernel_bounds': [3], 'input_bounds': [5]}]
    rows = np.zeros((2, 24), np.float32)
    # Kernel, output and input bounds: 6 columns, the sum and the product of each.
    rows[0, 8:10], rows[0, 14:16] = [8, 128], [136, 1024]
    rows[1, 0], rows[1, 6:8] = 3, 3
    rows[1, 16], rows[1, 22:24] = 5, 5
    ranker = run.ranker()
    np.testing.assert_array_equal(ranker(record, tiles), ranker(record, rows))
    content = json.loads(run.rank(record, tiles).to_json())
    configs = content['modules'][0]['configurations']
    configs.sort(key=lambda config: config['run_index'])
    assert configs[0]['output_bounds'] == [8, 128]
    assert configs[1]['kernel_bounds'] == [3] and configs[1]['output_bounds'] == []


@pytest.mark.slow
def test_raw_files_and_modules(tmp_path):
    model_dir = made_runs.make_tile_run(tmp_path / 'out')
    run = tpugraphs.load(model_dir)
    path = tmp_path / 'raw.pb'
    path.write_bytes(tile_file(made_runs.FIRST, made_runs.SECOND))
    ranking = run.rank(path)
    assert [len(ranked.order) for ranked in ranking] == [3, 12]
    assert (ranking.failed, ranking.skipped) == ([], {})
    rows = list(csv.DictReader(io.StringIO(ranking.to_csv(tmp_path / 'r.csv'))))
    assert (tmp_path / 'r.csv').read_text() == ranking.to_csv()
    first = ', '.join(rows[k]['run_index'] for k in range(3))
    assert repr(ranking[0]).endswith(f': 3 configurations, first {first}>')
    assert [int(row['run_index']) for row in rows[:3]] == ranking[0].order.tolist()
    # A module by itself, with the candidates of the file.
    tiles = [{'kernel_bounds': [i + 1, 8 * i]} for i in range(3)]
    [bare] = run.rank(made_runs.FIRST.module, tiles)
    np.testing.assert_array_equal(bare.order, ranking[0].order)
    np.testing.assert_allclose(bare.scores, ranking[0].scores, atol=1e-6)
    refusals.assert_refused(lambda: run.rank(tmp_path / 'none.pb'), 'none.pb')
    refusals.assert_refused(lambda: run.rank(made_runs.FIRST.module), './lab')


@pytest.mark.slow
def test_layouts(tmp_path):
    run = tpugraphs.load(made_runs.make_layout_run(tmp_path / 'out'))
    program = layout_files.make_record(np.random.default_rng(0), 'p', nodes=9)
    layout_files.write_split(tmp_path / 'xla' / 'random' / 'valid', [program])
    root = tmp_path / 'xla' / 'random'
    [record] = tpugraphs.open(root, 'valid', cache_dir=str(tmp_path / 'cache'))
    np.testing.assert_array_equal(record.node_config_feat, program.node_config_feat)
    ranker, configs = run.ranker(), program.node_config_feat
    scores = ranker(record)
    assert scores.shape == (len(configs),)
    np.testing.assert_allclose(ranker(record, configs[2:5]), scores[2:5], atol=1e-5)
    [ranked] = run.rank(record)
    np.testing.assert_array_equal(ranked.order, np.argsort(scores, kind='stable'))
    stored = json.loads(run.rank(record).to_json())['modules'][0]['configurations'][0]
    assert set(stored['layouts']) == set(map(str, program.node_config_ids.tolist()))
    message = 'p: node_config_feat has shape'
    refusals.assert_refused(lambda: ranker(record, configs[:, :1]), message)


@pytest.mark.slow
def test_rankings_and_runs_as_pandas(run, root, monkeypatch):
    ranking, runs = run.rank(_records(root)[:1]), tpugraphs.runs(root / 'out')
    monkeypatch.setitem(sys.modules, 'pandas', None)
    for table in (ranking, runs):
        refusals.assert_refused(table.to_pandas, "pip install -e '.[notebook]'")
    monkeypatch.undo()
    pandas = pytest.importorskip('pandas')
    frame = ranking.to_pandas()
    read = pandas.read_csv(io.StringIO(ranking.to_csv()))
    assert frame.columns.tolist() == read.columns.tolist()
    assert frame['run_index'].tolist() == ranking[0].order.tolist()
    assert runs.to_pandas()['path'].tolist() == [row.path for row in runs]


def _records(root):
    return tpugraphs.open(root / 'data', 'train', cache_dir=str(root / 'cache'))


def test_records(root):
    data = _records(root)
    assert len(data) == 4 and data.ids == sorted(data.ids)
    assert data[0].node_feat.shape[1] == 140 and data[0].config_feat.shape[1] == 24
    assert data[data.ids[2]].graph_id == data[2].graph_id == data[2:3][0].graph_id
    nodes, configs = data[0].num_nodes, data[0].num_configs
    assert f'{root}/data/train' in repr(data) and data.ids[0] in repr(data[0])
    assert f'{nodes} nodes, {configs} configurations' in repr(data[0])
    row = f'<td>{data.ids[0]}</td><td>{nodes}</td><td>{configs}</td>'
    assert row in data._repr_html_()
    assert f'<td>[{configs}, 24]</td>' in data[0]._repr_html_()
    with pytest.raises(IndexError):
        data[4]
    with pytest.raises(KeyError, match=data.ids[0]):
        data[data.ids[0][:-1]]


@pytest.mark.parametrize(
    'call, words',
    [
        (lambda root: tpugraphs.open(root / 'data', 'vaild'), "'valid'?"),
        (lambda root: tpugraphs.train('tiles'), "'tile'?"),
        (lambda root: tpugraphs.train(epochs='3'), 'epochs '),
        (lambda root: tpugraphs.load(3), ' 3'),
        (lambda root: tpugraphs.train(model=3), 'model '),
        (lambda root: tpugraphs.train(callbacks=[3]), 'on_epoch'),
    ],
)
def test_mistakes_are_one_line(root, call, words):
    refusals.assert_refused(lambda: call(root), words)
