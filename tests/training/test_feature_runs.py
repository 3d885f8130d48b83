"""Runs with other than the published features: a directory says how to predict."""

import numpy as np
import pytest

from baselines.data.tile import store as tile_store
from baselines.runs import loading
from baselines.runs import prediction
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs import commands

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


def test_a_directory_alone_predicts_what_training_did(tmp_path):
    flags = dict(estimate=True, tile_columns=True, loop_columns=True)
    tile_records.write_splits(tmp_path / 'data')
    model_dir, _ = tile_runs.train(tmp_path, epochs=1, **flags, **tile_runs.TINY)
    info = finished_runs.info_of(model_dir)
    assert {key: info['args'][key] for key in flags} == flags
    assert 'estimate_min' in info['normalizer']
    words = ['--models_file', tile_runs.TINY['models_file']]
    words += ['--output', tmp_path / 'p.csv', '--cache_dir', tmp_path / 'cache']
    assert processes.command('predict', '--dir', model_dir, *words) == 0
    assert (tmp_path / 'p.csv').read_text() == finished_runs.csv_of(model_dir)


def test_raw_files_are_ranked_with_them(tmp_path, capsys):
    model_dir = made_runs.make_tile_run(tmp_path, estimate=True)
    raw = tmp_path / 'raw.pb'
    raw.write_bytes(hlo_modules.tile_file(made_runs.FIRST))
    assert commands.run('rank', [str(raw), '--dir', model_dir, '--top', '3']) == 0
    store = tile_store.TileStore.of_records(
        'here', made_runs.kernel_records([made_runs.FIRST], 0)
    )
    predictor = loading.load_predictor(model_dir, prediction.Options('x', 'x'))
    [scores] = predictor.score(store)
    assert len(set(scores)) == 3
    rows = capsys.readouterr().out.splitlines()[2:5]
    assert [int(row.split()[1]) for row in rows] == np.argsort(scores).tolist()
