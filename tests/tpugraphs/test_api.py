"""The public package, as a user would call it."""

import csv
import io
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import tile_records
from tests.helpers import tiny_models
from tests.helpers.hlo_modules import tile_file
import tpugraphs


def _squares(labels, scores):
    """A loss of the user's."""
    return tf.reduce_mean((labels - scores) ** 2, axis=1)


def _train(root, **changes):
    settings = dict(
        data=root / 'data',
        out_dir=str(root / 'out'),
        cache_dir=str(root / 'cache'),
        epochs=1,
        batch=2,
    )
    return tpugraphs.train('tile', **{**settings, **changes})


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp('api')
    tile_records.write_splits(root / 'data')
    return root


@pytest.fixture(name='run', scope='module')
def _run(root):
    """Trained with a class and a function."""
    return _train(root, model=tiny_models.Tiny, loss=_squares, lr=1, run_id='mine')


@pytest.mark.slow
def test_a_training_with_a_class_and_a_function(run, root):
    assert run.dir.startswith(f'{root}/out/model_')
    assert run.settings['model'] == 'Tiny' and run.settings['losses'] == '_squares'
    assert run.settings['lr'] == 1.0 and run.settings['epochs'] == 1
    assert run.curve['epoch'] == [0]
    assert run.info['command'].startswith("tpugraphs.train(task='tile', out_dir=")
    assert run.info['seconds'] > 0
    assert repr(run).startswith('<Run Tiny on tile:xla, best valid OPA 0.')


@pytest.mark.slow
def test_a_run_is_loaded_by_name(run, root):
    for which in ('latest', 'mine', run.dir[-32:-20]):
        again = tpugraphs.load(which, model=tiny_models.Tiny, out_dir=root / 'out')
        assert again.dir == run.dir
    found = again.evaluate('valid', cache_dir=str(root / 'cache'))
    assert found['overall']['graphs'] == 4
    assert found['overall']['top_5_error']['mean'] == pytest.approx(
        run.info['final_error']['val']['5'], rel=1e-6
    )
    [row] = tpugraphs.runs(root / 'out')
    assert (row.model, row.run_id, row.path) == ('Tiny', 'mine', run.dir)


@pytest.mark.slow
def test_records_are_ranked_as_they_are_scored(run, root):
    data = tpugraphs.open(root / 'data', 'valid', cache_dir=str(root / 'cache'))
    ranker = run.ranker()
    ranking = run.rank(data)
    assert [ranked.kernel for ranked in ranking] == data.ids
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
def test_trees_rank_records_as_the_run_does(root):
    pytest.importorskip('lightgbm')
    kwargs = {'trees': 4, 'num_leaves': 4, 'min_leaf': 3}
    run = _train(root, model='Trees', model_kwargs=kwargs)
    [record, *_] = data = tpugraphs.open(
        root / 'data', 'valid', cache_dir=str(root / 'cache')
    )
    kernel, order, scores = run.rank(data)[0]
    found = run.ranker()(record)
    assert kernel == record.graph_id
    np.testing.assert_array_equal(found[order], scores)
    assert run.ranker()(record, record.config_feat[3:7]).shape == (4,)


@pytest.mark.slow
def test_candidates_are_given_as_dicts(run, root):
    record = tpugraphs.open(root / 'data', 'valid', cache_dir=str(root / 'cache'))[0]
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
    assert [int(row['run_index']) for row in rows[:3]] == ranking[0].order.tolist()
    # A module by itself, with the candidates of the file.
    tiles = [{'kernel_bounds': [i + 1, 8 * i]} for i in range(3)]
    [bare] = run.rank(made_runs.FIRST.module, tiles)
    np.testing.assert_array_equal(bare.order, ranking[0].order)
    np.testing.assert_allclose(bare.scores, ranking[0].scores, atol=1e-6)
    finished_runs.assert_refused(
        lambda: run.rank(made_runs.FIRST.module), 'give candidates'
    )
    finished_runs.assert_refused(lambda: run.rank(tmp_path / 'none.pb'), 'no such file')


@pytest.mark.slow
def test_a_tensorflow_function_is_ranked(tmp_path):
    run = tpugraphs.load(made_runs.make_tile_run(tmp_path / 'out'))
    module = tpugraphs.hlo_module(lambda x: tf.nn.relu(x) + 1.0, tf.zeros([4, 8]))
    [ranked] = run.rank(module, [{'output_bounds': [4, 8]}, {'output_bounds': [2, 8]}])
    assert sorted(ranked.order) == [0, 1]


@pytest.mark.slow
def test_layouts(tmp_path):
    run = tpugraphs.load(made_runs.make_layout_run(tmp_path / 'out'))
    program = layout_files.make_program(np.random.default_rng(0), 'p', nodes=9)
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
    finished_runs.assert_refused(
        lambda: ranker(record, configs[:, :1]), 'p: node_config_feat has shape'
    )


@pytest.mark.slow
def test_a_run_ranks_records_of_its_own_task(run):
    program = layout_files.make_program(np.random.default_rng(0), 'p', nodes=9)
    finished_runs.assert_refused(
        lambda: run.rank(program), 'the run ranks TileRecords, not LayoutRecord'
    )


def test_records(root):
    data = tpugraphs.open(root / 'data', 'train', cache_dir=str(root / 'cache'))
    assert len(data) == 4 and data.ids == sorted(data.ids)
    assert data[0].node_feat.shape[1] == 140 and data[0].config_feat.shape[1] == 24
    assert data[data.ids[2]].graph_id == data[2].graph_id == data[2:3][0].graph_id
    assert repr(data) == f'<4 records of {root}/data/train>'
    with pytest.raises(IndexError):
        data[4]
    with pytest.raises(KeyError, match='did you mean'):
        data[data.ids[0][:-1]]


@pytest.mark.parametrize(
    'call, words',
    [
        (lambda root: tpugraphs.open(root / 'data', 'vaild'), "did you mean 'valid'?"),
        (lambda root: tpugraphs.open(root / 'none'), 'there is no such folder'),
        (lambda root: tpugraphs.train('tiles'), "did you mean 'tile'?"),
        (
            lambda root: tpugraphs.train(epoch=3),
            "there is no setting 'epoch'; did you mean 'epochs'?",
        ),
        (
            lambda root: tpugraphs.train(epochs='3'),
            "epochs should be a whole number, not '3'",
        ),
        (lambda root: tpugraphs.load(root / 'none'), 'there is no directory '),
        (lambda root: tpugraphs.load(out_dir=root / 'data'), 'train one: python'),
    ],
)
def test_mistakes_are_one_line(root, call, words):
    finished_runs.assert_refused(lambda: call(root), words)
