"""layout_train.py and what follows it, as processes."""

import pytest

from tests.helpers import finished_runs
from tests.helpers import layout_runs
from tests.helpers import processes
from tests.helpers import tiny_layout_models

pytestmark = pytest.mark.slow

_CODE = f'--models_file={tiny_layout_models.__file__}'


@pytest.fixture(name='data', scope='module')
def _data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    layout_runs.write_splits(folder / 'xla' / 'random')
    return folder


def test_ctrl_c_and_kill_lose_an_epoch_at_most(data, tmp_path):
    model_dir = processes.train_with_interruptions(
        tmp_path / 'out',
        'layout_train.py',
        _CODE,
        '--model=Tiny',
        f'--data_root={data}',
        f'--cache_dir={tmp_path / "cache"}',
    )
    text = finished_runs.csv_of(model_dir)
    assert text.count('layout:xla:random:') == 2
