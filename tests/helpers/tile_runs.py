"""Trainings of small tile runs, for tests of tiles."""

from baselines import config
from baselines.training import run_training
from tests.helpers import finished_runs
from tests.helpers import tiny_models

# A model that is trained and saved in a moment.
TINY = dict(model='Tiny', models_file=tiny_models.__file__)


def settings(root, **changes):
    """Makes settings of a short MLP training on `<root>/data` into `<root>/out`."""
    fields = dict(
        model='MLP',
        data_root=str(root / 'data'),
        cache_dir=str(root / 'cache'),
        out_dir=str(root / 'out'),
        epochs=3,
    )
    return config.TileConfig(**{**fields, **changes})


def train(root, **changes):
    """Returns (model directory, what training printed)."""
    return finished_runs.run_quietly(run_training.train, settings(root, **changes))
