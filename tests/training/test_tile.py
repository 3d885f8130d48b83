"""The tile collection's jobs from end to end, on small random data."""

import csv
import io
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.runs import loading
from baselines.runs import prediction
from baselines.runs import saved
from baselines.training import task_data
from tests.helpers import finished_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = pytest.mark.slow


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    """Splits; one training kernel is too small, and test has no runtimes."""
    root = tmp_path_factory.mktemp('tile')
    small = tile_records.make_record(
        np.random.default_rng(9),
        'small',
        configs=4,
        config_feat=np.full((4, 24), 1000, np.float32),
        node_opcode=np.full(5, 250, np.int32),
    )
    tile_records.write_split(
        root / 'data' / 'train', [*tile_records.make_records(6), small]
    )
    tile_records.write_split(
        root / 'data' / 'valid', tile_records.make_records(4, seed=1)
    )
    tile_records.write_split(
        root / 'data' / 'test',
        [
            *tile_records.make_records(2, seed=2, is_test=True),
            tile_records.make_record(
                np.random.default_rng(3), 'three', configs=3, is_test=True
            ),
        ],
    )
    return root


@pytest.fixture(name='trained', scope='module')
def _trained(root):
    """(model directory, what was printed) of an MLP with default flags."""
    return tile_runs.train(root)


@pytest.fixture(name='data')
def _data(root):
    """Where training found it, packed already."""
    return prediction.DataOptions(cache_dir=str(root / 'cache'))


def test_what_a_training_leaves(trained):
    model_dir, printed = trained
    run_hash = model_dir.name[len('model_') :]
    names = sorted(os.listdir(model_dir.parent))
    assert names[:1] == [model_dir.name]
    assert re.fullmatch(r'results_1\d{12}\.csv', names[1])
    assert names[2:] == [f'run_{run_hash}.jsonz']
    for name in names:
        assert str(model_dir.parent / name) in printed


def test_fewer_kernels_than_a_batch_are_trained_on_and_it_says_so(trained):
    assert (
        'note: 6 training kernels have at least 10 configurations,\nfewer than '
        '--batch=10; training on batches of 6\n'
    ) in trained[1]


def test_run_file(root, trained):
    info = finished_runs.info_of(trained[0])
    curve = info['train_curve']
    assert {'epoch', 'train_loss', 'train_opa', 'val_loss', 'val_opa'} <= set(curve)
    assert min(curve['train_seconds']) > 0 and min(curve['val_seconds']) > 0
    assert curve['epoch'] == [0, 1, 2]
    for name, values in curve.items():
        assert len(values) == 3 and np.isfinite(values).all(), name
    assert set(info['final_error']['val']) == {'1', '5', '10'}
    assert info['final_error']['test'] is None
    assert info['args'] == config.to_json(tile_runs.settings(root))
    assert info['num_ops'] <= 120  # the small kernel's 250 does not count
    assert max(info['normalizer']['config_max']) < 1000
    assert info['best_epoch'] == int(np.argmax(curve['val_opa']))
    assert set(info['data_fingerprint']) == {'train', 'valid', 'test'}
    assert info['versions']['tensorflow'] == tf.__version__
    assert info['seed'] == 0 and info['measured_data'] is False


def test_ranking(trained):
    rows = list(csv.DictReader(io.StringIO(finished_runs.csv_of(trained[0]))))
    ranked = {row['ID']: [int(i) for i in row['TopConfigs'].split(';')] for row in rows}
    assert ranked == finished_runs.info_of(trained[0])['test_predictions']
    assert [row['ID'] for row in rows] == [
        'tile:xla:program_0_0000',
        'tile:xla:program_1_0001',
        'tile:xla:three',
    ]
    assert [len(set(order)) for order in ranked.values()] == [5, 5, 3]
    assert sorted(ranked['tile:xla:three']) == [0, 1, 2]


def test_a_report_of_a_run(root, run, tmp_path, capsys):
    pytest.importorskip('jinja2')
    page = tmp_path / 'report.html'
    argv = [run, '--cache_dir', root / 'cache', '--output', page]
    assert processes.command('report', *argv) == 0
    assert capsys.readouterr().out == f'report: {page}\n'
    words = page.read_text()
    assert '<title>1 model on tile:xla</title>' in words and '<img src=' in words
    folder = [run, '--output', tmp_path]
    assert processes.command('report', *folder) == 1
    assert 'is a folder' in capsys.readouterr().err


def test_a_directory_alone_predicts_what_training_did(root, run, monkeypatch, capsys):
    # Moved, relative, with a slash: the data is where training found it.
    monkeypatch.chdir(run.parent)
    assert (
        processes.command(
            'predict',
            '--dir',
            f'{run.name}/',
            '--output',
            'p.csv',
            '--cache_dir',
            root / 'cache',
        )
        == 0
    )
    assert pathlib.Path('p.csv').read_text() == finished_runs.csv_of(run)
    assert capsys.readouterr().out == f'{run.parent}/p.csv: 3 rows\n'
    # `~`, another split, several runs: the hash goes into the name.
    monkeypatch.setenv('HOME', str(run.parent.parent))
    other = run.parent / 'model_other'
    shutil.copytree(run, other)
    shutil.copy(saved.run_file(str(run)), saved.run_file(str(other)))
    assert (
        processes.command(
            'predict',
            '--dirs',
            f'~/out/{run.name}',
            '~/out/model_other',
            '--output',
            '~/new/p.csv',
            '--data_root',
            root / 'data',
            '--split',
            'valid',
            '--cache_dir',
            root / 'cache',
        )
        == 0
    )
    written = sorted((run.parent.parent / 'new').iterdir())
    assert [path.name for path in written] == [f'p_{run.name[6:]}.csv', 'p_other.csv']
    assert written[0].read_bytes() == written[1].read_bytes()
    assert written[0].read_text().count('\n') == 1 + 4


def test_evaluate(root, run, capsys):
    output = run.parent / 'out.json'
    assert (
        processes.command(
            'evaluate', '--dir', run, '--output', output, '--cache_dir', root / 'cache'
        )
        == 0
    )
    table = capsys.readouterr().out
    assert table.startswith(f'MLP on valid, {run}\n')
    for words in ('program_0', 'program_2', 'random choice', 'Kaggle', 'OPA'):
        assert words in table
    summary = json.loads(output.read_text())
    assert (summary['model'], summary['split']) == ('MLP', 'valid')
    assert summary['data'] == str(root / 'data' / 'valid')
    overall = summary['overall']
    assert overall['graphs'] == 4
    assert set(summary['groups']) == {'program_0', 'program_1', 'program_2'}
    for k, error in finished_runs.info_of(run)['final_error']['val'].items():
        assert overall[f'top_{k}_error']['mean'] == pytest.approx(error, rel=1e-6)
    assert overall['kaggle_score']['mean'] == pytest.approx(
        1 - overall['top_5_error']['mean']
    )
    assert 0 < overall['top_1_error']['random'] < 4
    assert overall['opa']['random'] == 0.5


def test_a_run_that_is_named_twice_is_evaluated_once(root, run, capsys):
    assert (
        processes.command(
            'evaluate',
            '--dirs',
            run,
            f'{run}/',
            '--json',
            '--cache_dir',
            root / 'cache',
            '--output',
            run.parent / 'all.json',
        )
        == 0
    )
    captured = capsys.readouterr()
    assert captured.err == (
        f'note: {run} is named 2 times ({run}, {run}/); it counts once\n'
    )
    printed = json.loads(captured.out)
    assert printed == json.loads((run.parent / 'all.json').read_text())
    assert printed['overall']['graphs'] == 4
    assert printed['name'] == printed['group'] == 'MLP'


def test_evaluate_without_runtimes(root, run, capsys):
    assert (
        processes.command(
            'evaluate',
            '--dir',
            run,
            '--split',
            'test',
            '--output',
            run.parent / 'none.json',
            '--cache_dir',
            root / 'cache',
        )
        == 1
    )
    printed = capsys.readouterr()
    assert printed.out == '' and printed.err == (
        f'error: {root}/data/test: all runtimes are 0, as in the published test '
        'files; there is nothing to compare with\n'
    )
    assert not (run.parent / 'none.json').exists()


def test_a_run_of_the_published_code(root, data, run, capsys):
    info = finished_runs.info_of(run)
    ours = {
        'models_file',
        'sample_data',
        'skip_bad_files',
        'validation_configs',
        'seed',
        'resume',
    }
    published = {
        key: info[key] for key in ('train_curve', 'final_error', 'test_predictions')
    }
    published['args'] = {
        key: value for key, value in info['args'].items() if key not in ours
    }
    finished_runs.write_info(run, published)
    predictor = loading.load_predictor(str(run), data)
    assert predictor.normalizer.to_json() == info['normalizer']
    assert predictor.num_ops == info['num_ops']
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2 and 'its run file has no digest' in notes[1]
    assert notes[0] == (
        f'note: this run does not hold its normaliser; fitting it to {root}/data'
    )
    assert (
        processes.command(
            'predict',
            '--dir',
            run,
            '--output',
            run.parent / 'p.csv',
            '--cache_dir',
            root / 'cache',
        )
        == 0
    )
    assert (run.parent / 'p.csv').read_text() == finished_runs.csv_of(run)


def test_a_run_file_names_no_code_to_run(data, run, capsys):
    bomb = run.parent / 'bomb.py'
    bomb.write_text(f'open({str(run.parent / "ran")!r}, "w").close()\n')
    info = finished_runs.info_of(run)
    info['args']['models_file'] = str(bomb)
    finished_runs.write_info(run, info)
    loading.write_predictions([str(run)], data, str(run.parent / 'p.csv'))
    assert not (run.parent / 'ran').exists()
    assert (run.parent / 'p.csv').read_text() == finished_runs.csv_of(run)
    assert capsys.readouterr().err == (
        f'note: {run} was trained with --models_file={bomb}; pass it here too '
        'if it is not ours\n'
    )


def test_the_stored_graph_is_not_executed(data, run):
    # Only the checkpoint inside the SavedModel is read.
    for name in ('saved_model.pb', 'keras_metadata.pb'):
        (run / name).write_bytes(b'no graph')
    loading.write_predictions([str(run)], data, str(run.parent / 'p.csv'))
    assert (run.parent / 'p.csv').read_text() == finished_runs.csv_of(run)


@pytest.mark.parametrize(
    'change, words',
    [
        ({'num_ops': 0}, 'num_ops should be a number up to 65536, not 0'),
        ({'num_ops': 10**9}, 'num_ops should be a number'),
        ({'num_ops': None}, 'num_ops should be a number'),
        ({'num_ops': 90}, 'holds variable 0 of shape'),
        ({'normalizer': []}, 'normalizer'),
        ({'normalizer': {'node_used': 'x'}}, 'normalizer'),
    ],
)
def test_run_files_that_do_not_fit(data, run, change, words):
    finished_runs.write_info(run, {**finished_runs.info_of(run), **change})
    finished_runs.assert_refused(
        lambda: loading.load_predictor(str(run), data), words, run.name[6:]
    )


@pytest.mark.parametrize(
    'args, words',
    [
        ({'model': 'MLQ'}, "there is no model 'MLQ'; did you mean 'MLP'?"),
        ({'model': 'LateJoinSAGE'}, 'it was trained as LateJoinSAGE {}'),
        ({'model_kwargs_json': '{'}, '--model_kwargs_json is not JSON'),
        ({'model_kwargs_json': '{"depth": 1}'}, "MLP has no option 'depth'"),
        ({'model_kwargs_json': '{"hidden_dim": 8}'}, 'holds variable 1 of shape'),
    ],
)
def test_run_arguments_that_do_not_fit(data, run, args, words):
    info = finished_runs.info_of(run)
    info['args'].update(args)
    finished_runs.write_info(run, info)
    finished_runs.assert_refused(lambda: loading.load_predictor(str(run), data), words)


def test_where_the_data_is_gone(data, run, monkeypatch, tmp_path):
    info = finished_runs.info_of(run)
    info['args']['data_root'] = str(tmp_path / 'gone')
    finished_runs.write_info(run, info)
    monkeypatch.setenv('HOME', str(tmp_path))
    finished_runs.assert_refused(
        lambda: loading.write_predictions([str(run)], data, str(tmp_path / 'p.csv')),
        f'{tmp_path}/data/tpugraphs/npz/tile/xla/test: there is no such folder',
        '--data_root',
    )
    assert not (tmp_path / 'p.csv').exists()


def test_metrics_need_runtimes(root, tmp_path):
    finished_runs.assert_refused(
        lambda: tile_runs.train(
            root, test_mode='metrics', out_dir=str(tmp_path / 'out')
        ),
        f'--test_mode=metrics: all runtimes in {root}/data/test are 0',
        'use --test_mode=predictions',
    )
    assert os.listdir(tmp_path / 'out') == []


def test_toy_data_and_known_test_runtimes(tmp_path):
    few = tile_records.make_records(
        4, configs=[12] * 4, node_features=5, config_features=4
    )
    for split in ('train', 'valid', 'test'):
        folder = tmp_path / 'data' / split
        tile_records.write_split(folder, few)
        for i in range(4, 103):
            source = folder / f'{few[i % 3].graph_id}.npz'
            shutil.copy(source, folder / f'program_{i % 3}_{i:04d}.npz')
    model_dir, printed = tile_runs.train(
        tmp_path,
        toy_data=True,
        test_mode='metrics',
        batch=9,
        epochs=1,
        **tile_runs.TINY,
    )
    assert 'training on 100 kernels with 1,200 configurations' in printed
    assert 'test top-1/5/10 error: ' in printed and 'note:' not in printed
    info = finished_runs.info_of(model_dir)
    # The first 100 files by name.
    names = sorted(f'tile:xla:program_{i % 3}_{i:04d}' for i in range(103))[:100]
    assert list(info['test_predictions']) == names
    data = prediction.DataOptions(cache_dir=str(tmp_path / 'cache'), toy_data=True)
    code = tile_runs.TINY['models_file']
    loading.write_predictions([str(model_dir)], data, str(tmp_path / 'p.csv'), code)
    assert (tmp_path / 'p.csv').read_text() == finished_runs.csv_of(model_dir)
    summary = loading.load_predictor(str(model_dir), data, code).measure('test')[0]
    for k, error in info['final_error']['test'].items():
        assert summary['overall'][f'top_{k}_error']['mean'] == pytest.approx(error)
    # Without its code the run is not read as something else.
    finished_runs.assert_refused(
        lambda: loading.load_predictor(str(model_dir), data), "there is no model 'Tiny'"
    )


def test_a_recipe_draws_no_more_configurations_than_most_kernels_have(capsys):
    wanted = config.TileConfig(recipe='strong', configs=64)
    assert task_data.fitted(wanted, np.array([64, 100, 20])) is wanted
    # Three quarters have 24, of which 16 is the largest power of two.
    assert task_data.fitted(wanted, np.array([31, 31, 24, 7])).configs == 16
    assert 'few have 64 configurations to draw; drawing' in capsys.readouterr().out
