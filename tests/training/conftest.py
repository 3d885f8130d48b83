"""Fixtures that tests of both collections' jobs share."""

import shutil

import numpy as np
import pytest

from baselines.runs import saved
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import tile_records
from tests.helpers import tile_runs


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a module's trained run that may be changed."""
    shutil.copytree(trained[0].parent, tmp_path / 'out')
    return tmp_path / 'out' / trained[0].name


@pytest.fixture(scope='session')
def tile_root(tmp_path_factory):
    """Splits; one training kernel is too small, and test has no runtimes."""
    root = tmp_path_factory.mktemp('tile')
    small = tile_records.make_record(
        np.random.default_rng(9),
        'small',
        configs=4,
        config_feat=np.full((4, 24), 1000, np.float32),
        node_opcode=np.full(5, 250, np.int32),
    )
    train = [*tile_records.make_records(6), small]
    rng = np.random.default_rng(3)
    three = tile_records.make_record(rng, 'three', configs=3, is_test=True)
    test = [*tile_records.make_records(2, seed=2, is_test=True), three]
    valid = tile_records.make_records(4, seed=1)
    for split, records in (('train', train), ('valid', valid), ('test', test)):
        tile_records.write_split(root / 'data' / split, records)
    return root


@pytest.fixture(scope='session')
def layout_root(tmp_path_factory):
    """xla:random, with a training program that is too small."""
    root = tmp_path_factory.mktemp('layout')
    folder = root / 'data' / 'xla' / 'random'
    layout_runs.write_splits(folder)
    small = layout_files.make_record(
        np.random.default_rng(9),
        'small',
        configs=10,
        node_feat=np.full((9, 140), 1000, np.float32),
        node_opcode=np.full(9, 250, np.int32),
    )
    layout_files.write_split(folder / 'train', [small])
    return root


@pytest.fixture(scope='session')
def tile_run(tile_root):
    """(model directory, what was printed) of an MLP with default flags."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved, 'save_model', finished_runs.save_weights)
        return tile_runs.train(tile_root)
