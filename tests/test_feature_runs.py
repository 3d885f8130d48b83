"""Runs with other than the published features: a directory says how to predict."""

import numpy as np
import pytest

from baselines.commands import command_line
from baselines.data import memory_store
from baselines.tasks import predict
from baselines.tasks import prediction
import finished_runs
import hlo_modules
import made_runs
import tile_records
import tile_runs


@pytest.mark.slow
def test_a_directory_alone_predicts_with_the_estimate(tmp_path, monkeypatch):
    tile_records.write_splits(tmp_path / 'data')
    model_dir, _ = tile_runs.train(
        tmp_path, epochs=1, estimate=True, **tile_runs.TINY)
    info = finished_runs.info_of(model_dir)
    assert info['args']['estimate'] is True
    assert len(info['normalizer']['estimate_min']) == 7
    assert finished_runs.command(
        monkeypatch, 'predict', '--dir', model_dir, '--models_file',
        tile_runs.TINY['models_file'], '--output', tmp_path / 'p.csv',
        '--cache_dir', tmp_path / 'cache') == 0
    assert (tmp_path / 'p.csv').read_text() == finished_runs.csv_of(model_dir)


def test_raw_files_are_ranked_with_the_estimate(tmp_path, monkeypatch, capsys):
    # TensorFlow refuses other settings once it has run.
    monkeypatch.setattr(command_line, 'start_tensorflow', lambda: None)
    model_dir = made_runs.make_tile_run(tmp_path, estimate=True)
    raw = tmp_path / 'raw.pb'
    raw.write_bytes(hlo_modules.tile_file(made_runs.FIRST))
    assert command_line.run_command(
        'rank', [str(raw), '--dir', model_dir, '--top', '3']) == 0
    store = memory_store.tile_store(
        'here', made_runs.kernel_records([made_runs.FIRST], 0, False))
    predictor = predict.load_predictor(model_dir, prediction.DataOptions('x', 'x'))
    (_, scores), = predictor.score(store)
    assert len(set(scores)) == 3
    rows = capsys.readouterr().out.splitlines()[2:5]
    assert [int(row.split()[1]) for row in rows] == np.argsort(scores).tolist()
