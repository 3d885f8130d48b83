"""A folder with a small file of each kind, on which commands are called."""

import os
import pathlib
import shutil

import pytest

from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tile_runs


@pytest.fixture(name='template', scope='session')
def _template(tmp_path_factory):
    pytest.importorskip('lightgbm')
    root = tmp_path_factory.mktemp('world')
    tile_records.write_splits(root / 'npz/tile/xla', 3)
    layout_runs.write_splits(root / 'layouts/nlp/default')
    options = dict(
        model='Trees', model_kwargs_json='{"trees": 2}', data_root='npz/tile/xla'
    )
    (root / 'runs').mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for seed, name in enumerate(('aaaa', 'bbbb')):
            trained, _ = tile_runs.train(root, **options, seed=seed)
            shutil.move(trained, root / f'runs/model_{name}')
            [run_file] = (root / 'out').glob('run_*')
            shutil.move(run_file, root / f'runs/run_{name}.jsonz')
            [ranking] = (root / 'out').glob('*.csv')
            shutil.move(ranking, root / 'a.csv')
    for name in ('cache', 'out'):
        shutil.rmtree(root / name)
    shutil.copy(places.ROOT / 'examples/kernels.pb', root)
    shutil.copy(root / 'a.csv', root / 'sample.csv')
    (root / 'config.toml').write_text('lr = 0.5\n')
    (root / 'space.toml').write_text('lr = {low = 0.1, high = 0.2}\n')
    (root / 'models.py').touch()
    return root


@pytest.fixture(name='world')
def _world(template, tmp_path):
    copy = shutil.copytree(template, tmp_path / 'world', copy_function=os.link)
    return pathlib.Path(copy)  # tests replace files, and write into none
