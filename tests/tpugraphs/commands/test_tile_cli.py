"""The tile scripts as processes: interrupted, killed, and given damaged runs."""

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
from tpugraphs import commands

pytestmark = pytest.mark.slow

_ROOT = places.ROOT


def test_ctrl_c_and_kill_lose_an_epoch_at_most(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    processes.interrupt_and_kill(
        tmp_path / 'out',
        'tiles_train.py',
        f'--models_file={tiny_models.__file__}',
        f'--cache_dir={tmp_path / "cache"}',
        '--model=Tiny',
        f'--data_root={tmp_path / "data"}',
    )


def _no_model(folder):
    shutil.rmtree(folder / 'model_abc')


def _cut_run_file(folder):
    os.truncate(folder / 'run_abc.jsonz', 20)


@pytest.mark.parametrize('command', ['predict', 'evaluate'])
@pytest.mark.parametrize(
    'damage, words',
    [
        (_no_model, '--dir: there is no directory {}/model_abc'),
        (
            lambda folder: shutil.rmtree(folder / 'model_abc' / 'variables'),
            '--dir: {}/model_abc holds no saved model',
        ),
        (
            lambda folder: (folder / 'run_abc.jsonz').unlink(),
            'the run file {}/run_abc.jsonz is missing',
        ),
        (_cut_run_file, 'the run file {}/run_abc.jsonz is damaged'),
    ],
    ids=['no directory', 'no model', 'no run file', 'cut run file'],
)
def test_damaged_runs(tmp_path, capsys, command, damage, words):
    variables = tmp_path / 'model_abc' / 'variables'
    variables.mkdir(parents=True)
    (variables / 'variables.index').write_text('')
    (tmp_path / 'run_abc.jsonz').write_bytes(
        gzip.compress(b'{"args": {"model": "MLP"}}')
    )
    damage(tmp_path)
    before = processes.listing(tmp_path)
    code = commands.run(
        command,
        ['--dir', str(tmp_path / 'model_abc'), '--output', str(tmp_path / 'out')],
    )
    stderr = capsys.readouterr().err
    assert code == 1 and stderr.startswith('error: ' + words.format(tmp_path))
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
