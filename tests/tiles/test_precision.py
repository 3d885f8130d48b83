"""Rounding does not decide how trained tile models rank."""

import pytest

from baselines.simulated.tile import dataset
from tests.helpers import precision


@pytest.fixture(scope='module', name='models')
def _models(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tile_precision')
    dataset.Kernels(train=1, valid=precision.GRAPHS, test=1, configs_mean=300).write(
        str(folder / 'data')
    )
    return precision.Models('tile', folder)


@pytest.mark.slow
@pytest.mark.parametrize('name', precision.names('tile'))
class TestTileModels(precision.Suite):
    """The suite on every class."""
