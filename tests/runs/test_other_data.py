"""Runs and data of different collections, or of different columns."""

import shutil

import pytest

from baselines.runs import loading
from baselines.runs import prediction
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


@pytest.fixture(name='layouts', scope='module')
def _layouts(tmp_path_factory):
    """A folder with layout data, and a run trained on it."""
    root = tmp_path_factory.mktemp('layout')
    layout_runs.write_splits(root / 'data' / 'xla' / 'random')
    return root, layout_runs.train(root, epochs=1, **layout_runs.TINY)[0]


@pytest.fixture(name='tiles', scope='module')
def _tiles(tmp_path_factory):
    """A folder with tile data, and a run trained on it."""
    root = tmp_path_factory.mktemp('tile')
    tile_records.write_splits(root / 'data')
    return root, tile_runs.train(root, epochs=1, **tile_runs.TINY)[0]


def _refused(tmp_path, model_dir, tiny, data_root, *words):
    """Neither ranks the data nor measures on it."""
    data = prediction.DataOptions(str(data_root), str(tmp_path / 'cache'))
    output = tmp_path / 'p.csv'
    finished_runs.assert_refused(
        lambda: loading.write_predictions(
            [str(model_dir)], data, str(output), tiny['models_file']
        ),
        *words,
    )
    assert not output.exists()
    finished_runs.assert_refused(
        lambda: loading.load_predictor(
            str(model_dir), data, tiny['models_file']
        ).measure('test'),
        *words,
    )


def test_a_tile_run_on_layout_data(layouts, tiles, tmp_path):
    root = layouts[0] / 'data'
    _refused(
        tmp_path,
        tiles[1],
        tile_runs.TINY,
        root,
        f'{root}/test: there is no such folder',
        '--data_root',
    )
    root = root / 'xla' / 'random'
    _refused(
        tmp_path,
        tiles[1],
        tile_runs.TINY,
        root,
        f'{root}/test/program_0.npz: the array config_feat is missing',
    )


def test_a_layout_run_on_tile_data(layouts, tiles, tmp_path):
    root = tiles[0] / 'data'
    _refused(
        tmp_path,
        layouts[1],
        layout_runs.TINY,
        root,
        f'{root}/xla/random/test: there is no such folder',
        '--data_root',
    )
    root = tmp_path / 'data'
    shutil.copytree(tiles[0] / 'data', root / 'xla' / 'random')
    _refused(
        tmp_path,
        layouts[1],
        layout_runs.TINY,
        root,
        f'{root}/xla/random/test/program_0_0000.npz: the array',
        'node_config_ids',
    )
    finished_runs.assert_refused(
        lambda: layout_runs.train(tmp_path, **layout_runs.TINY),
        f'{root}/xla/random/train/program_0_0000.npz: the array',
    )


def test_layouts_of_another_width(layouts, tmp_path):
    root = tmp_path / 'data'
    layout_files.write_split(
        root / 'xla' / 'random' / 'test', layout_runs.programs(2, 0, node_features=141)
    )
    _refused(
        tmp_path,
        layouts[1],
        layout_runs.TINY,
        root,
        f'{root}/xla/random/test: node_feat has 141 columns, but 140 in what '
        'the model was trained on',
    )
