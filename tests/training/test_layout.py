"""The layout collections' jobs from end to end, on small random data."""

import csv
import io
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from baselines import config
from baselines.runs import loading
from baselines.runs import prediction
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import processes

pytestmark = pytest.mark.slow


@pytest.fixture(name='root', scope='module')
def _root(layout_root):
    return layout_root


@pytest.fixture(name='trained', scope='module')
def _trained(root):
    """(model directory, what was printed) of a ResModel, else default flags."""
    return layout_runs.train(root)


def _data(root, **changes):
    return prediction.DataOptions('', str(root / 'cache'), **changes)


def test_what_a_training_leaves(trained):
    model_dir, printed = trained
    run_hash = model_dir.name[len('model_') :]
    names = sorted(os.listdir(model_dir.parent))
    assert names[:1] == [model_dir.name]
    assert re.fullmatch(r'results_1\d{12}_xla_random\.csv', names[1])
    assert names[2:] == [f'run_{run_hash}.jsonz']
    for name in names:
        assert str(model_dir.parent / name) in printed


def test_fewer_programs_than_a_batch_are_trained_on_and_it_says_so(trained):
    assert (
        'note: 6 training programs have at least 16 configurations,\nfewer than '
        '--batch=8; training on batches of 6\n'
    ) in trained[1]


def test_run_file(root, trained):
    info = finished_runs.info_of(trained[0])
    curve = info['train_curve']
    assert set(curve) == {
        'epoch',
        'train_loss',
        'train_opa',
        'val_loss',
        'val_opa',
        'val_tau',
        'train_seconds',
        'val_seconds',
    }
    assert curve['epoch'] == [0, 1, 2]
    for name, values in curve.items():
        assert len(values) == 3 and np.isfinite(values).all(), name
    assert set(info['final_error']['val']) == {'kendall_tau', '1', '10', '100'}
    assert info['final_error']['test'] is None
    assert info['args'] == config.to_json(layout_runs.settings(root))
    assert {'source': 'xla', 'search': 'random', 'keep_nodes': 5000}.items() <= (
        info['args'].items()
    )
    assert info['num_ops'] <= 120  # the small program's 250 does not count
    assert max(info['normalizer']['node_max']) < 1000
    assert info['config_features'] == 18
    assert info['best_epoch'] == int(np.argmax(curve['val_tau']))
    assert set(info['data_fingerprint']) == {'train', 'valid', 'test'}
    assert info['seed'] == 0 and info['measured_data'] is False


def test_ranking_has_every_configuration(trained):
    rows = csv.DictReader(io.StringIO(finished_runs.csv_of(trained[0])))
    ranked = {row['ID']: [int(i) for i in row['TopConfigs'].split(';')] for row in rows}
    assert ranked == finished_runs.info_of(trained[0])['test_predictions']
    assert list(ranked) == [
        'layout:xla:random:program_0',
        'layout:xla:random:program_1',
    ]
    for order in ranked.values():
        assert sorted(order) == list(range(120)) != order


def test_model_and_keywords_choose(root, trained, tmp_path):
    info = finished_runs.info_of(trained[0])
    f, q = (sum(info['normalizer'][f'{part}_used']) for part in ('node', 'config'))
    # Embedding, input MLP, one layer, head, each with a hidden width of 4.
    weights = info['num_ops'] * 2 + (q + f + 2) * 4 + 4 + (q + 4) * 4 + 4 + 12 * 4 + 4
    assert f'ResModel: {weights:,} weights\n' in trained[1]
    changes = dict(layout_runs.TINY, epochs=1, lr=1e-9, out_dir=str(tmp_path))
    changes.update(model='TinyWithBias', model_kwargs_json='{"start": -2.0}')
    model_dir, printed = layout_runs.train(root, **changes)
    assert f'TinyWithBias: {q + 1} weights\n' in printed
    stored = finished_runs.weights_of(model_dir)
    assert len(stored) == 2
    assert any(np.allclose(value, -2) for value in stored.values())


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
    assert capsys.readouterr() == (f'{run.parent}/p.csv: 2 rows\n', '')
    # Another split, from elsewhere, in little memory.
    shutil.copytree(root / 'data/xla', run.parent / 'new/xla')
    assert (
        processes.command(
            'predict',
            '--dir',
            run,
            '--output',
            'v.csv',
            '--data_root',
            run.parent / 'new',
            '--split',
            'valid',
            '--cache_dir',
            run.parent / 'cache',
            '--memory_budget',
            16,
        )
        == 0
    )
    rows = pathlib.Path('v.csv').read_text().splitlines()[1:]
    assert [row.partition(',')[0] for row in rows] == [
        f'layout:xla:random:program_{i}' for i in range(4)
    ]
    for row in rows:
        assert len(set(row.partition(',')[2].split(';'))) == 40


def test_evaluate(root, run, capsys):
    assert (
        processes.command(
            'evaluate',
            '--dir',
            run,
            '--output',
            run.parent / 'e.json',
            '--cache_dir',
            root / 'cache',
        )
        == 0
    )
    table = capsys.readouterr().out
    assert table.startswith(f'ResModel on valid, {run}\n')
    for words in ('program_3', 'tau', 'slowd@1', 'slowd@100', 'random choice'):
        assert words in table
    assert (
        processes.command(
            'evaluate', '--dir', run, '--json', '--cache_dir', root / 'cache'
        )
        == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((run.parent / 'e.json').read_text())
    assert (summary['task'], summary['split']) == ('layout', 'valid')
    assert summary['data'] == str(root / 'data/xla/random/valid')
    overall = summary['overall']
    assert overall['graphs'] == len(summary['groups']) == 4
    assert overall['configurations'] == 160
    found = finished_runs.info_of(run)['final_error']['val']
    for key, value in found.items():
        name = key if key == 'kendall_tau' else f'slowdown_{key}'
        assert overall[name]['mean'] == pytest.approx(value, rel=1e-6)
    assert overall['kendall_tau']['random'] == 0
    assert overall['slowdown_1']['random'] > overall['slowdown_10']['random'] > 1
    assert overall['slowdown_100'] == {
        'mean': 1,
        'low': 1,
        'high': 1,
        'random': 1,
        'graphs': 4,
    }


def test_a_run_of_the_published_code(root, run, capsys):
    info = finished_runs.info_of(run)
    ours = {
        'models_file',
        'sample_data',
        'skip_bad_files',
        'validation_configs',
        'seed',
        'resume',
        'sampling',
        'segments',
        'memory_budget',
        'losses',
        'test_mode',
    }
    published = {
        key: info[key] for key in ('train_curve', 'final_error', 'test_predictions')
    }
    published['args'] = {
        key: value for key, value in info['args'].items() if key not in ours
    }
    finished_runs.write_info(run, published)
    predictor = loading.load_predictor(str(run), _data(root))
    assert predictor.normalizer.to_json() == info['normalizer']
    assert predictor.num_ops == info['num_ops']
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2 and 'its run file has no digest' in notes[1]
    assert notes[0] == (
        f'note: this run does not hold its normaliser; fitting it to {root}/data'
    )
    loading.write_predictions([str(run)], _data(root), str(run.parent / 'p.csv'))
    assert (run.parent / 'p.csv').read_text() == finished_runs.csv_of(run)


def test_toy_data_and_known_test_runtimes(tmp_path):
    for seed, split in enumerate(('train', 'valid', 'test')):
        layout_files.write_split(
            tmp_path / 'data/nlp/default' / split, layout_runs.programs(7, seed)
        )
    model_dir, printed = layout_runs.train(
        tmp_path,
        source='nlp',
        search='default',
        toy_data=True,
        test_mode='metrics',
        batch=5,
        epochs=1,
        **layout_runs.TINY,
    )
    assert 'training on 5 programs of nlp:default with ' in printed
    assert 'test tau: ' in printed and 'note:' not in printed
    info = finished_runs.info_of(model_dir)
    # The first 5 files by name.
    assert list(info['test_predictions']) == [
        f'layout:nlp:default:program_{i}' for i in range(5)
    ]
    data = _data(tmp_path, toy_data=True)
    code = layout_runs.TINY['models_file']
    summary = loading.load_predictor(str(model_dir), data, code).measure('test')[0]
    for key, value in info['final_error']['test'].items():
        name = key if key == 'kendall_tau' else f'slowdown_{key}'
        assert summary['overall'][name]['mean'] == pytest.approx(value)
    # A run that was made with --toy_data ranks the whole split too.
    paths = loading.write_predictions(
        [str(model_dir)], _data(tmp_path), str(tmp_path / 'p.csv'), code
    )
    assert pathlib.Path(paths[0]).read_text().count('layout:nlp:default:') == 7
    # Without its code the run is not read as something else.
    finished_runs.assert_refused(
        lambda: loading.load_predictor(str(model_dir), data),
        "there is no layout model 'Tiny'",
    )


@pytest.mark.parametrize(
    'args, words',
    [
        ({'model': 'ResModle'}, "there is no layout model 'ResModle'; did you mean"),
        ({'model_kwargs_json': '{"hidden_dim": 8}'}, 'variables where the model has'),
        (
            {'model_kwargs_json': layout_runs.SMALL.replace('4', '8')},
            'holds variable 1 of shape',
        ),
        (
            {'source': 'tpu'},
            'there is no collection --source=tpu --search=random; there',
        ),
        (
            {'search': 'random/../random'},
            '--search=random/../random; there are layout:xla',
        ),
        ({'configs': 'many'}, 'args.configs should be a positive number'),
    ],
)
def test_run_arguments_that_do_not_fit(root, run, args, words):
    info = finished_runs.info_of(run)
    info['args'].update(args)
    finished_runs.write_info(run, info)
    output = run.parent / 'p.csv'
    finished_runs.assert_refused(
        lambda: loading.write_predictions([str(run)], _data(root), str(output)), words
    )
    assert not output.exists()
