"""Rounding does not decide how trained tile models rank."""

import pytest

from tests.helpers import precision
from tests.helpers import synthetic


@pytest.fixture(scope='module', name='models')
def _models(tmp_path_factory):
    folder = tmp_path_factory.mktemp('tile_precision')
    sizes = (precision.CONFIGS, precision.CONFIGS + 200)
    synthetic.write_kernels(str(folder / 'data'), 0, precision.GRAPHS, 0, configs=sizes)
    return precision.Models('tile', folder)


@pytest.mark.slow
@pytest.mark.parametrize('name', precision.names('tile'))
class TestTileModels(precision.Suite):
    """The suite on every class."""
