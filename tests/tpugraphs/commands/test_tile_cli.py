"""The tile scripts as processes."""

import pytest

from tests.faults import calls
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tiny_models

pytestmark = pytest.mark.slow


def test_ctrl_c_loses_an_epoch_at_most(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    processes.interrupt(
        tmp_path / 'out',
        'tiles_train.py',
        f'--models_file={tiny_models.__file__}',
        f'--cache_dir={tmp_path / "cache"}',
        '--model=Tiny',
        f'--data_root={tmp_path / "data"}',
    )


@pytest.mark.parametrize(
    'script, flag',
    [('tiles_gen_predictions_csv.py', '--dir'), ('tiles_train.py', '--seeds=0,1')],
)
def test_a_script_refuses_flags_in_one_line(tmp_path, script, flag):
    done = calls.run(tmp_path, [script, *[flag] * ('=' in flag)])
    assert done.code == 1 and done.err.count('\n') == 1
    assert done.err.startswith(f'error: {flag.partition("=")[0]} ')
    assert processes.listing(tmp_path) == []
