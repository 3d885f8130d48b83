"""Runs and data of different collections, or of different columns."""

import dataclasses
import shutil

import numpy as np
import pytest

from baselines.scoring import prediction
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import made_runs
from tests.helpers import refusals
from tests.helpers import tile_records

pytestmark = pytest.mark.slow


@pytest.fixture(name='layouts', scope='module')
def _layouts(tmp_path_factory):
    """A folder with layout data, and a run of layouts."""
    root = tmp_path_factory.mktemp('layout')
    layout_runs.write_splits(root / 'data' / 'xla' / 'random')
    return root, made_runs.make_layout_run(root)


@pytest.fixture(name='tiles', scope='module')
def _tiles(tmp_path_factory):
    """A folder with tile data, and a run of tiles."""
    root = tmp_path_factory.mktemp('tile')
    tile_records.write_splits(root / 'data')
    return root, made_runs.make_tile_run(root)


def _assert_refused(model_dir, data_root, tmp_path, *words):
    """Makes sure that a run opens no split of a folder, to rank or to measure it."""
    options = prediction.Options(str(data_root), str(tmp_path / 'cache'))
    predictor = prediction.load(model_dir, options)
    refusals.assert_refused(lambda: predictor.open_split('test'), *words)


def test_a_tile_run_on_layout_data(layouts, tiles, tmp_path):
    root = layouts[0] / 'data'
    _assert_refused(tiles[1], root, tmp_path, f'{root}/test: ', '--data_root')
    root = root / 'xla' / 'random'
    words = f'{root}/test/program_0.npz: ', 'config_feat'
    _assert_refused(tiles[1], root, tmp_path, *words)


def test_a_layout_run_on_tile_data(layouts, tiles, tmp_path):
    root = tiles[0] / 'data'
    words = f'{root}/test/program_0_0000.npz: ', 'node_config_ids'
    _assert_refused(layouts[1], root, tmp_path, *words)
    root = tmp_path / 'data'
    shutil.copytree(tiles[0] / 'data', root / 'xla' / 'random')
    train = lambda: layout_runs.train(tmp_path, **layout_runs.TINY)
    refusals.assert_refused(train, f'{root}/xla/random/train/program_0_0000.npz: ')


@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_opcodes_without_a_row_are_the_unknown_one(task, tmp_path, capsys):
    rng, op = np.random.default_rng(0), np.array([2, 3, 2, 5, 2], np.int32)
    if task == 'tile':
        made, files = made_runs.make_tile_run(tmp_path), tile_records
        folder, unit = tmp_path / 'data' / 'test', 'kernels'
    else:
        made, files = made_runs.make_layout_run(tmp_path), layout_files
        folder, unit = tmp_path / 'data' / 'xla' / 'random' / 'test', 'programs'
    old = files.make_record(rng, 'old', nodes=5, node_opcode=op)
    others = [
        dataclasses.replace(old, graph_id=name, node_opcode=np.where(op == 5, code, op))
        for name, code in (('known', 0), ('new', 200))
    ]
    files.write_split(folder, [old, *others])
    options = prediction.Options(str(tmp_path / 'data'), str(tmp_path / 'cache'))
    predictor = prediction.load(made, options)
    store = predictor.open_split('test')
    known, new, other = predictor.score(store)
    assert store.graph_ids == ['known', 'new', 'old']
    np.testing.assert_array_equal(new, known)
    assert (other != known).any()
    assert f'1 of 3 {unit}' in capsys.readouterr().err
