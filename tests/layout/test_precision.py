"""Rounding does not decide how trained layout models rank."""

import pytest

from tests.helpers import precision
from tests.helpers import synthetic


@pytest.fixture(scope='module', name='models')
def _models(tmp_path_factory):
    folder = tmp_path_factory.mktemp('layout_precision')
    sizes = (precision.CONFIGS, precision.CONFIGS + 20)
    synthetic.write_programs(
        str(folder / 'data'), 0, precision.GRAPHS, 0, nodes=(300, 500), configs=sizes
    )
    return precision.Models('layout', folder)


@pytest.mark.slow
@pytest.mark.parametrize('name', precision.names('layout'))
class TestLayoutModels(precision.Suite):
    """The suite on every class."""
