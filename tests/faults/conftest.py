"""A folder with a small file of each kind, on which commands are called."""

import pathlib
import shutil

import pytest

from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tile_runs


@pytest.fixture(name='template', scope='session')
def _template(tmp_path_factory):
    pytest.importorskip('lightgbm')
    root = tmp_path_factory.mktemp('world')
    tile_records.write_splits(root / 'data', 3)
    options = dict(model='Trees', model_kwargs_json='{"trees": 2}', data_root='data')
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
    return root


@pytest.fixture(name='world')
def _world(template, tmp_path):
    return pathlib.Path(shutil.copytree(template, tmp_path / 'world'))
