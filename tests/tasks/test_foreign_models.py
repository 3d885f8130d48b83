"""Trainings in a copy of ours in which a models.py is somebody else's."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.helpers import elsewhere
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tiny_layout_models

pytestmark = pytest.mark.slow

_TRAIN = """
import json, sys
from baselines import config, registry
from baselines.tasks import train
settings = json.loads(sys.argv[1])
for one in settings['tile']:
    train.train(config.TileConfig(**one))
for one in settings['layout']:
    train.train(config.LayoutConfig(**one))
print('GCN is', registry.layout_models()['GCN'].__module__)
"""

# A layout model of a name that the zoo has, too.
_OWN_GCN = """

class GCN(Tiny):
    pass
"""


@pytest.fixture(scope='module', name='data')
def _data(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    records = tile_records.make_records(3, seed=1, node_features=12)
    for split in ('train', 'valid'):
        tile_records.write_split(root / 'tile' / split, records)
    test = tile_records.make_records(2, seed=2, node_features=12, is_test=True)
    tile_records.write_split(root / 'tile' / 'test', test)
    layout_runs.write_splits(root / 'layout' / 'xla' / 'random')
    return root


def _train(tree, data, tile, layout):
    """Trains models in a tree; returns what that printed."""
    settings = {
        'tile': [
            dict(
                model=name,
                model_kwargs_json=kwargs,
                epochs=1,
                batch=3,
                data_root=str(data / 'tile'),
                cache_dir=str(data / 'cache'),
                out_dir=str(tree / 'out_tile'),
            )
            for name, kwargs in tile.items()
        ],
        'layout': [
            dict(
                model=name,
                model_kwargs_json=kwargs,
                epochs=1,
                data_root=str(data / 'layout'),
                cache_dir=str(data / 'cache'),
                out_dir=str(tree / 'out_layout'),
            )
            for name, kwargs in layout.items()
        ],
    }
    done = subprocess.run(
        [sys.executable, '-c', _TRAIN, json.dumps(settings)],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert str(places.ROOT) not in done.stdout
    for task, trained in (('tile', tile), ('layout', layout)):
        assert len(list((tree / f'out_{task}').glob('model_*'))) == len(trained)
    return done.stdout


def _copy(folder):
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(places.ROOT / 'baselines', folder / 'baselines', ignore=ignore)
    return folder / 'baselines'


_SMALL = '{"hidden_dim": 4, "mlp_layers": 1}'


def test_over_the_tile_models(tmp_path, data):
    """The layout models do not notice."""
    package = _copy(tmp_path)
    shutil.copy(
        elsewhere.PUBLISHED_TREE / 'student_models.py', package / 'tiles' / 'models.py'
    )
    printed = _train(
        tmp_path,
        data,
        {'GatedPool': '{"rounds": 1, "width": 6}'},
        {'ResModel': _SMALL, 'HybridSAGE': _SMALL},
    )
    assert 'GCN is baselines.layout.zoo.families' in printed


def test_over_the_layout_models(tmp_path, data):
    """The zoo stays, but for a model of a name that the file has."""
    package = _copy(tmp_path)
    with open(tiny_layout_models.__file__, encoding='utf-8') as stream:
        foreign = stream.read()
    (package / 'layout' / 'models.py').write_text(foreign + _OWN_GCN)
    printed = _train(
        tmp_path,
        data,
        {'LateJoinSAGE': '{"hidden_dim": 4, "num_gnns": 1}'},
        {'Tiny': '{}', 'GCN': '{}', 'ChebSAGE': _SMALL},
    )
    assert 'GCN is baselines.layout.models' in printed
