"""Rounding does not decide how trained layout models rank."""

import pytest

from baselines.simulated.layout import dataset
from tests.helpers import precision


@pytest.fixture(scope='module', name='models')
def _models(tmp_path_factory):
    folder = tmp_path_factory.mktemp('layout_precision')
    dataset.Programs(
        train=1,
        valid=precision.GRAPHS,
        test=1,
        configs_min=precision.CONFIGS,
        configs_max=precision.CONFIGS + 20,
    ).write(str(folder / 'data'))
    return precision.Models('layout', folder)


@pytest.mark.slow
@pytest.mark.parametrize('name', precision.names('layout'))
class TestLayoutModels(precision.Suite):
    """The suite on every class."""
