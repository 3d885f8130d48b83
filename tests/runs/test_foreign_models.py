"""A training in a copy of ours in which layout/models.py is somebody else's.

With foreign tile models there is one in test_portability.
"""

import json
import shutil
import subprocess
import sys

import pytest

from baselines import config
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tiny_layout_models

_TRAIN = """
import json, sys
from baselines import config, registry
from baselines.training import jobs
from baselines.runs import saved
saved.save_model = lambda model, path: None  # it would take half of the time
jobs.train(config.LayoutConfig(**json.loads(sys.argv[1])))
models = registry.layout_models()
print('GCN is', models['GCN'].__module__, 'beside', models['ChebNet'].__module__)
"""

# A layout model of a name that the zoo has, too.
_OWN_GCN = """

class GCN(Tiny):
    pass
"""


@pytest.mark.slow
def test_over_the_layout_models(tmp_path):
    """The zoo stays, but for a model of a name that the file has."""
    layout_runs.write_splits(tmp_path / 'data' / 'xla' / 'random')
    package = tmp_path / 'baselines'
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(places.ROOT / 'baselines', package, ignore=ignore)
    with open(tiny_layout_models.__file__, encoding='utf-8') as stream:
        foreign = stream.read()
    (package / 'layout' / 'models.py').write_text(foreign + _OWN_GCN)
    settings = layout_runs.settings(
        tmp_path, model='GCN', model_kwargs_json='{}', epochs=1
    )
    done = subprocess.run(
        [sys.executable, '-c', _TRAIN, json.dumps(config.to_json(settings))],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert str(places.ROOT) not in done.stdout
    said = 'GCN is baselines.layout.models beside baselines.layout.zoo.'
    assert 'training on 6 programs' in done.stdout and said in done.stdout
