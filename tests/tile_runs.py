"""Trainings of small runs, and what they leave, for tests of tile jobs."""

import contextlib
import gzip
import io
import json
import pathlib

import pytest

from baselines import config
from baselines.tasks import tile_training
from baselines.training import runs
import tiny_models

# A model that is trained and saved in a moment.
TINY = dict(model='Tiny', models_file=tiny_models.__file__)


def settings(root, **changes):
    """Those of a short MLP training on `<root>/data` into `<root>/out`."""
    fields = dict(
        model='MLP', data_root=str(root / 'data'), cache_dir=str(root / 'cache'),
        out_dir=str(root / 'out'), epochs=3)
    return config.TileConfig(**{**fields, **changes})


def train(root, **changes):
    """Returns (model directory, what training printed)."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model_dir = tile_training.train(settings(root, **changes))
    return pathlib.Path(model_dir), printed.getvalue()


def info_of(model_dir):
    """Reads the run file."""
    with gzip.open(runs.run_file(str(model_dir))) as stream:
        return json.loads(stream.read())


def csv_of(model_dir):
    """The ranking that training wrote, as text."""
    return next(model_dir.parent.glob('results_*.csv')).read_text()


def assert_refused(call, *words):
    """Checks for a ValueError of one line that has all the words."""
    with pytest.raises(ValueError) as caught:
        call()
    assert '\n' not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
