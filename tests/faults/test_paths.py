"""Folders whose names have characters of patterns."""

import pytest

from baselines.scoring import prediction
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs


def test_a_folder_may_have_any_name(tmp_path):
    pytest.importorskip('lightgbm')
    root = tmp_path / '[a] \\*?'
    tile_records.write_splits(root / 'data')
    trees, _ = tile_runs.train(root, model='Trees', model_kwargs_json='{"trees": 2}')
    words = ['--cache_dir', root / 'cache', '--data_root', root / 'data']
    for run in (trees, f'{root}/out/latest'):
        output = root / 'ranking.csv'
        assert processes.command('predict', run, '--output', output, *words) == 0
        assert output.read_text().count('\n') == 5
        output.unlink()
    prediction.load(
        made_runs.make_tile_run(root), prediction.Options()
    )  # reads weights


def test_a_study_is_found_in_any_folder(tmp_path):
    study = pytest.importorskip('tpugraphs.sweep.trials')
    root = tmp_path / 'a?b%20 [c]\\'
    root.mkdir()
    study.create_study(study.make_default_storage(str(root)), 'tile', {}, 0)
    assert [path.name for path in root.iterdir()] == ['sweep.db']
    assert (
        study.load_study(study.make_default_storage(str(root)), '').study_name == 'tile'
    )
