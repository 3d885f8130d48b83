"""The tile scripts as processes: interrupted, and given damaged runs."""

import gzip
import os
import shutil
import subprocess
import sys

import pytest

from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tiny_models

pytestmark = pytest.mark.slow

_ROOT = places.ROOT


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


@pytest.mark.parametrize('command', ['predict', 'evaluate'])
@pytest.mark.parametrize(
    'name, message',
    [
        ('model_abc', '--dir: there is no directory {}/model_abc'),
        ('model_abc/variables', '--dir: {}/model_abc holds no saved model'),
        ('run_abc.jsonz', 'the run file {}/run_abc.jsonz is missing'),
    ],
)
def test_parts_of_a_run_that_are_missing(tmp_path, capsys, command, name, message):
    variables = tmp_path / 'model_abc' / 'variables'
    variables.mkdir(parents=True)
    (variables / 'variables.index').write_text('')
    run_file = gzip.compress(b'{"args": {"model": "MLP"}}')
    (tmp_path / 'run_abc.jsonz').write_bytes(run_file)
    missing = tmp_path / name
    (shutil.rmtree if missing.is_dir() else os.remove)(missing)
    before = processes.listing(tmp_path)
    words = ['--dir', tmp_path / 'model_abc', '--output', tmp_path / 'out']
    assert processes.command(command, *words) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith('error: ' + message.format(tmp_path))
    assert stderr.count('\n') == 1
    assert processes.listing(tmp_path) == before


def test_prediction_without_a_directory(tmp_path):
    done = subprocess.run(
        [sys.executable, str(_ROOT / 'tiles_gen_predictions_csv.py')],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: --dir is missing: name a run, which is a directory, 'latest', the "
        'beginning of a hash, a --run_id, a pattern or a model\n'
    )
    assert processes.listing(tmp_path) == []
