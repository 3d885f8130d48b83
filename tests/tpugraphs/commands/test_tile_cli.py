"""The tile scripts as processes."""

import subprocess
import sys

import pytest

from tests.helpers import places
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
    'words, named',
    [
        (['tiles_gen_predictions_csv.py'], '--dir'),
        (['tiles_train.py', '--seeds=0,1'], "'0,1'"),
    ],
)
def test_a_script_refuses_flags_in_one_line(tmp_path, words, named):
    done = subprocess.run(
        [sys.executable, str(places.ROOT / words[0]), *words[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    [line] = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith('error: ') and named in line
    assert processes.listing(tmp_path) == []
