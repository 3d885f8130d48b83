"""A folder with a small file of each kind, on which commands are called."""

import os
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
    trees = dict(model='Trees', model_kwargs_json='{"trees": 2}')
    (root / 'runs').mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for seed, name in enumerate(('aaaa', 'bbbb')):
            tile_runs.train(root, **trees, data_root='npz/tile/xla', seed=seed)
            for kind, place in (
                ('model_*', f'runs/model_{name}'),
                ('run_*', f'runs/run_{name}.jsonz'),
                ('*.csv', 'a.csv'),
            ):
                [made] = (root / 'out').glob(kind)
                made.rename(root / place)
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
    # Tests replace files, and write into none.
    return shutil.copytree(template, tmp_path / 'world', copy_function=os.link)
