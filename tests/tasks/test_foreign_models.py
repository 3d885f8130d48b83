"""Trainings in a copy of ours in which a models.py is somebody else's."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.helpers import elsewhere
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tiny_layout_models

pytestmark = pytest.mark.slow

_TRAIN = """
import json, sys
from baselines import config, registry
from baselines.tasks import train
from baselines.training import runs
runs._save_model = lambda model, path: None  # it would take half of the time
for one in json.loads(sys.argv[1]):
    train.train(config.LayoutConfig(**one))
assert {'EarlyJoinSAGE', 'GatedPool'} & registry.tile_models().keys()
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
    layout_runs.write_splits(root / 'xla' / 'random')
    return root


def _train(tree, data, models):
    """Trains layout models in a tree; returns what that printed."""
    settings = [
        dict(
            model=name,
            model_kwargs_json=kwargs,
            epochs=1,
            data_root=str(data),
            cache_dir=str(data / 'cache'),
            out_dir=str(tree / 'out'),
        )
        for name, kwargs in models.items()
    ]
    done = subprocess.run(
        [sys.executable, '-c', _TRAIN, json.dumps(settings)],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert str(places.ROOT) not in done.stdout
    assert len(list((tree / 'out').glob('model_*'))) == len(models)
    return done.stdout


def _copy(folder):
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(places.ROOT / 'baselines', folder / 'baselines', ignore=ignore)
    return folder / 'baselines'


_SMALL = '{"hidden_dim": 4, "mlp_layers": 1}'


def test_over_the_tile_models(tmp_path, data):
    """The layout models do not notice; of the tile models see test_portability."""
    package = _copy(tmp_path)
    shutil.copy(
        elsewhere.PUBLISHED_TREE / 'student_models.py', package / 'tiles' / 'models.py'
    )
    printed = _train(tmp_path, data, {'HybridSAGE': _SMALL})
    assert 'GCN is baselines.layout.zoo.families' in printed


def test_over_the_layout_models(tmp_path, data):
    """The zoo stays, but for a model of a name that the file has."""
    package = _copy(tmp_path)
    with open(tiny_layout_models.__file__, encoding='utf-8') as stream:
        foreign = stream.read()
    (package / 'layout' / 'models.py').write_text(foreign + _OWN_GCN)
    printed = _train(tmp_path, data, {'GCN': '{}', 'ChebSAGE': _SMALL})
    assert 'GCN is baselines.layout.models' in printed
