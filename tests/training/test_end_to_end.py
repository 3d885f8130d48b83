"""What a training leaves, and what predicts and evaluates from it, for both tasks."""

import csv
import io
import json
import pathlib
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.scoring import measuring
from baselines.scoring import prediction
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import shapes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


_CURVE = ('epoch', 'train_loss', 'train_opa', 'val_loss', 'val_opa')
_SECONDS = ('train_seconds', 'val_seconds')
_OURS = ('models_file', 'sample_data', 'skip_bad_files', 'validation_configs')
_OURS += ('seed', 'resume')
# What differs between the runs of the two tasks.
_TASKS = {
    'tile': types.SimpleNamespace(
        runs=tile_runs,
        model='MLP',
        splits='data',
        csv=r'results_1\d{12}\.csv',
        note='note: only 6 training kernels with at least 10 configurations,',
        curve=_CURVE + _SECONDS,
        criterion='val_opa',  # chooses the best epoch
        # Figures of `final_error`, and their names in an evaluation.
        errors={k: f'top_{k}_error' for k in ('1', '5', '10')},
        ranked={
            'tile:xla:program_0_0000': 5,
            'tile:xla:program_1_0001': 5,
            'tile:xla:three': 3,
        },
        prefix='tile:xla:program_',
        toy=dict(batch=9),
        toy_folder='data',
        ours=_OURS,  # settings that the published code lacks
    ),
    'layout': types.SimpleNamespace(
        runs=layout_runs,
        model='ResModel',
        splits='data/xla/random',
        csv=r'results_1\d{12}_xla_random\.csv',
        note='note: only 6 training programs with at least 16 configurations,',
        curve=_CURVE + ('val_tau',) + _SECONDS,
        criterion='val_tau',
        errors={
            'kendall_tau': 'kendall_tau',
            **{k: f'slowdown_{k}' for k in ('1', '10', '100')},
        },
        ranked={f'layout:xla:random:program_{i}': 120 for i in range(2)},
        prefix='layout:nlp:default:program_',
        toy=dict(batch=5, source='nlp', search='default'),
        toy_folder='data/nlp/default',
        ours=_OURS + ('sampling', 'memory_budget', 'losses', 'test_mode'),
    ),
}


@pytest.fixture(name='task', scope='module', params=_TASKS)
def _task(request):
    return _TASKS[request.param]


@pytest.fixture(name='root', scope='module')
def _root(task, request):
    """Data whose training split has a graph with too few configurations."""
    return request.getfixturevalue(
        f'{"tile" if task.model == "MLP" else "layout"}_root'
    )


@pytest.fixture(name='trained', scope='module')
def _trained(task, root, request):
    """(model directory, what was printed)."""
    if task.model == 'MLP':
        return request.getfixturevalue('tile_run')
    return task.runs.train(root)


def _data(root, **changes):
    return prediction.Options('', str(root / 'cache'), **changes)


def _ranked(text):
    """Graph id -> order of its configurations, of a CSV."""
    rows = csv.DictReader(io.StringIO(text))
    return {row['ID']: [int(i) for i in row['TopConfigs'].split(';')] for row in rows}


def test_what_a_training_leaves(task, trained):
    model_dir, printed = trained
    names = sorted(path.name for path in model_dir.parent.iterdir())
    assert names[:1] == [model_dir.name]
    assert re.fullmatch(task.csv, names[1])
    assert names[2:] == [f'run_{model_dir.name[len("model_") :]}.jsonz']
    for name in names:
        assert str(model_dir.parent / name) in printed
    assert task.note in printed


def test_run_file(task, root, trained):
    info = finished_runs.read_info(trained[0])
    curve = info['train_curve']
    assert set(curve) == set(task.curve)
    assert curve['epoch'] == [0, 1, 2]
    for name, values in curve.items():
        assert len(values) == 3 and np.isfinite(values).all(), name
    assert min(curve['train_seconds']) > 0 and min(curve['val_seconds']) > 0
    assert set(info['final_error']['val']) == set(task.errors)
    # Its models are those of the best epoch, and measured on the same configurations.
    best = max(curve[task.criterion])
    np.testing.assert_allclose(info['val_score']['value'], best, rtol=1e-6)
    assert info['val_score']['measure'] in ('OPA', 'tau')
    assert info['final_error']['test'] is None
    assert info['args'] == config.to_json(task.runs.settings(root))
    # What only the graph with too few configurations has does not count.
    assert info['num_ops'] <= 120
    scaled = info['normalizer']
    assert max(scaled['config_max' if task.runs is tile_runs else 'node_max']) < 1000
    assert info['best_epoch'] == int(np.argmax(curve[task.criterion]))
    assert set(info['data_fingerprint']) == {'train', 'valid', 'test'}
    assert info['versions']['tensorflow'] == tf.__version__
    assert info['seed'] == 0 and info['measured_data'] is False


def test_ranking_has_every_configuration(task, trained):
    ranked = _ranked(finished_runs.read_csv(trained[0]))
    assert ranked == finished_runs.read_info(trained[0])['test_predictions']
    assert list(ranked) == list(task.ranked)
    for graph, order in ranked.items():
        # Of tiles the first five count.
        kept = 5 if task.runs is tile_runs else len(order)
        assert len(set(order)) == len(order) == min(task.ranked[graph], kept)
        assert set(order) <= set(range(30 if kept == 5 else task.ranked[graph]))
    assert any(order != sorted(order) for order in ranked.values())


def test_a_directory_alone_predicts_what_training_did(
    task, root, run, monkeypatch, capsys
):
    # Moved, relative, with a slash: the data is where training found it.
    monkeypatch.chdir(run.parent)
    words = ['--dir', f'{run.name}/', '--output', 'p.csv']
    words += ['--cache_dir', root / 'cache']
    assert processes.command('predict', *words) == 0
    assert pathlib.Path('p.csv').read_text() == finished_runs.read_csv(run)
    rows = len(task.ranked)
    assert capsys.readouterr() == (f'{run.parent}/p.csv: {rows} rows\n', '')


def test_evaluate(task, root, run, capsys):
    # On data that lie elsewhere, packed again.
    output, data = run.parent / 'e.json', run.parent / 'data'
    shutil.copytree(root / 'data', data)
    words = ['--dir', run, '--output', output, '--data_root', data, '--by_program']
    words += ['--cache_dir', run.parent / 'cache']
    assert processes.command('evaluate', *words) == 0
    table = capsys.readouterr().out
    assert table.startswith(f'{task.model} on valid of ')
    assert table.partition('\n')[0].endswith(f': {run}')
    summary = json.loads(output.read_text())
    if task.runs is tile_runs:
        shapes.check_shape('evaluate', output.read_text())
    assert (summary['model'], summary['split']) == (task.model, 'valid')
    assert summary['data'] == str(run.parent / task.splits / 'valid')
    overall = summary['overall']
    assert overall['graphs'] == 4
    for key, value in finished_runs.read_info(run)['final_error']['val'].items():
        assert overall[task.errors[key]]['mean'] == pytest.approx(value, rel=1e-6)
    assert len(summary['groups']) == (3 if task.runs is tile_runs else 4)


def test_a_run_of_the_published_code(task, root, run, capsys):
    info = finished_runs.read_info(run)
    published = {
        key: info[key] for key in ('train_curve', 'final_error', 'test_predictions')
    }
    published['args'] = {
        key: value for key, value in info['args'].items() if key not in task.ours
    }
    finished_runs.write_info(run, published)
    predictor = prediction.load(str(run), _data(root))
    assert predictor.scorer.scaling.normalizer.to_json() == info['normalizer']
    assert predictor.scorer.num_ops == info['num_ops']
    fitted, unsigned = capsys.readouterr().err.splitlines()
    assert f'{root}/data' in fitted and f'{run}' in unsigned
    store, output = predictor.open_split('test'), run.parent / 'p.csv'
    predictor.write(str(output), store, predictor.score(store))
    assert output.read_text() == finished_runs.read_csv(run)


def test_toy_data_and_known_test_runtimes(task, tmp_path, capsys):
    _write_many(task, tmp_path / task.toy_folder)
    settings = dict(toy_data=True, test_mode='metrics', epochs=1)
    model_dir, printed = task.runs.train(
        tmp_path, **settings, **task.toy, **task.runs.TINY
    )
    count, graphs = (100, 'kernels') if task.runs is tile_runs else (5, 'programs')
    assert f'training on {count} {graphs}' in printed and 'note:' not in printed
    assert re.search('test (top-1/5/10 error|tau): ', printed)
    info = finished_runs.read_info(model_dir)
    # The first files by name.
    names = [path.stem for path in (tmp_path / task.toy_folder / 'test').iterdir()]
    collection = task.prefix[: -len('program_')]
    first = [f'{collection}{name}' for name in sorted(names)[:count]]
    assert list(info['test_predictions']) == first
    code = task.runs.TINY['models_file']
    # Where no data are named, they are the run's own.
    data = _data(tmp_path, models_file=code)
    predictor = prediction.load(str(model_dir), data)
    summary, _ = measuring.measure(predictor, 'test')
    for key, value in info['final_error']['test'].items():
        assert summary['overall'][task.errors[key]]['mean'] == pytest.approx(value)
    said = capsys.readouterr().err
    assert f'{model_dir} was trained with --toy_data' in said and f' {count} ' in said
    prediction.write_predictions([str(model_dir)], data, str(tmp_path / 'p.csv'))
    assert (tmp_path / 'p.csv').read_text() == finished_runs.read_csv(model_dir)
    capsys.readouterr()
    # Without its first file, the split is another.
    folder = tmp_path / task.toy_folder / 'test'
    (folder / f'{min(names)}.npz').unlink()
    predictor.open_split('test')
    assert f'{folder} is not as it was' in capsys.readouterr().err
    # It ranks the whole split, too.
    output = str(tmp_path / 'all.csv')
    whole = _data(tmp_path, toy_data=False, models_file=code)
    prediction.write_predictions([str(model_dir)], whole, output)
    assert len(_ranked(pathlib.Path(output).read_text())) == len(names) - 1
    # Without its code the run is not read as something else.
    load = lambda: prediction.load(str(model_dir), _data(tmp_path))
    refusals.assert_refused(load, 'Tiny')


def _write_many(task, folder):
    """Writes splits of more graphs than --toy_data takes."""
    if task.model != 'MLP':
        for seed, split in enumerate(('train', 'valid', 'test')):
            layout_files.write_split(folder / split, layout_runs.programs(7, seed))
        return
    few = tile_records.make_records(
        4, configs=[12] * 4, node_features=5, config_features=4
    )
    for split in ('train', 'valid', 'test'):
        tile_records.write_split(folder / split, few)
        for i in range(4, 103):
            source = folder / split / f'{few[i % 3].graph_id}.npz'
            shutil.copy(source, folder / split / f'program_{i % 3}_{i:04d}.npz')
