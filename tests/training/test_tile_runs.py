"""The tile collection's jobs from end to end, on small random data."""

import types

import numpy as np
import pytest

from baselines import config
from baselines.features import tile_table
from baselines.scoring import prediction
from baselines.training import task_data
from tests.helpers import finished_runs
from tests.helpers import hlo_kernels
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import tile_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


@pytest.fixture(name='trained', scope='module')
def _trained(tile_run):
    return tile_run


@pytest.fixture(name='data')
def _data(tile_root):
    """Where training found it, packed already."""
    return prediction.Options(cache_dir=str(tile_root / 'cache'))


def test_a_report_of_a_run(tile_root, run, tmp_path, capsys):
    pytest.importorskip('jinja2')
    page = tmp_path / 'report.html'
    argv = [run, '--cache_dir', tile_root / 'cache', '--output', page]
    assert processes.command('report', *argv) == 0
    assert capsys.readouterr().out == f'report: {page}\n'
    words = page.read_text()
    assert '<title>1 model on tile:xla</title>' in words and '<img src=' in words
    folder = [run, '--output', tmp_path]
    assert processes.command('report', *folder) == 1
    assert 'is a folder' in capsys.readouterr().err


def test_no_code_of_a_run_is_executed(data, run, capsys):
    # Only the checkpoint inside the SavedModel is read.
    for name in ('saved_model.pb', 'keras_metadata.pb'):
        (run / name).write_bytes(b'no graph')
    bomb = run.parent / 'bomb.py'
    bomb.write_text(f'open({str(run.parent / "ran")!r}, "w").close()\n')
    info = finished_runs.read_info(run)
    info['args']['models_file'] = str(bomb)
    finished_runs.write_info(run, info)
    prediction.write_predictions([str(run)], data, str(run.parent / 'p.csv'))
    assert not (run.parent / 'ran').exists()
    assert (run.parent / 'p.csv').read_text() == finished_runs.read_csv(run)
    [note] = capsys.readouterr().err.splitlines()
    assert note.startswith('note: ') and f'--models_file={bomb}' in note


def test_run_files_that_do_not_fit(data, run):
    finished_runs.write_info(run, {**finished_runs.read_info(run), 'num_ops': 0})
    load = lambda: prediction.load(str(run), data)
    refusals.assert_refused(load, 'num_ops', ' 0', run.name[6:])


def test_a_run_with_our_features_predicts_what_training_did(tile_root, tmp_path):
    flags = dict(columns='estimate,tile')
    changes = dict(tile_runs.TINY, **flags, epochs=1, out_dir=str(tmp_path))
    model_dir, _ = tile_runs.train(tile_root, **changes)
    info = finished_runs.read_info(model_dir)
    assert {key: info['args'][key] for key in flags} == flags
    assert 'estimate_min' in info['normalizer']
    words = ['--models_file', tile_runs.TINY['models_file']]
    words += ['--output', tmp_path / 'p.csv', '--cache_dir', tile_root / 'cache']
    assert processes.command('predict', '--dir', model_dir, *words) == 0
    assert (tmp_path / 'p.csv').read_text() == finished_runs.read_csv(model_dir)


def test_a_recipe_draws_no_more_configurations_than_most_kernels_have(capsys):
    wanted = config.TileConfig(recipe='strong', configs=64)
    counts = types.SimpleNamespace(group_counts=np.array([64, 100, 20]))
    assert task_data.fit_recipe(wanted, counts) == wanted
    # Of 21 kernels 18, which are 85 %, have at least the fourth smallest number, 12.
    counts.group_counts = np.array([7, 8, 9, 12, *[31] * 17])
    assert task_data.fit_recipe(wanted, counts).configs == 12
    assert ' 64 configurations' in capsys.readouterr().out


def test_the_scaling_and_the_training_read_one_table(monkeypatch):
    made = []

    class Counted(tile_table.TileTable):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(tile_table, 'TileTable', Counted)
    bounds = hlo_kernels.configs(([60, 100], []), ([6, 100], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], bounds))
    settings = config.TileConfig(columns='tile', configs=2, batch=1)
    data = task_data.TileData(settings, {'train': store})
    assert made == [data.graphs['train'].table]
