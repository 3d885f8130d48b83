"""The tile scripts as processes: interrupted, killed, and given damaged runs."""

import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from baselines.commands import command_line
from baselines.training import runs
import tile_records
import tiny_models

pytestmark = pytest.mark.slow

_ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(name='splits', scope='module')
def _splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp('splits')
    tile_records.write_splits(folder)
    return folder


def _start(script, *flags):
    environment = {**os.environ, 'PYTHONUNBUFFERED': '1'}
    environment.pop('TF_CPP_MIN_LOG_LEVEL', None)
    return subprocess.Popen(
        [sys.executable, str(_ROOT / script), *flags], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _epochs_kept(out_dir):
    """Finished epochs in the state that is kept, 0 if there is none."""
    for path in out_dir.glob('unfinished_*.npz'):
        return len(runs.Checkpoint(str(path)).read()[1]['curve']['epoch'])
    return 0


def _end(process, out_dir, signal_number, after):
    """Ends a training once `after` epochs are kept; returns its output."""
    deadline = time.monotonic() + 120
    while _epochs_kept(out_dir) < after:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, 'no epoch in two minutes'
        time.sleep(0.05)
    process.send_signal(signal_number)
    return process.communicate(timeout=60)


def _listing(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob('*')
        if path.is_file())


def test_ctrl_c_and_kill_lose_an_epoch_at_most(splits, tmp_path):
    out_dir = tmp_path / 'out'
    flags = [
        '--model=Tiny', f'--models_file={tiny_models.__file__}',
        f'--data_root={splits}', f'--cache_dir={tmp_path / "cache"}',
        f'--out_dir={out_dir}', '--early_stop=100000']

    interrupted = _start('tiles_train.py', *flags, '--epochs=100000')
    _, stderr = _end(interrupted, out_dir, signal.SIGINT, after=2)
    assert interrupted.returncode == 130
    assert stderr == '\ninterrupted\n'
    assert [name[:11] for name in _listing(out_dir)] == ['unfinished_']
    first = _epochs_kept(out_dir)

    killed = _start('tiles_train.py', *flags, '--epochs=100000', '--resume')
    stdout, stderr = _end(killed, out_dir, signal.SIGKILL, after=first + 2)
    assert killed.returncode == -signal.SIGKILL and stderr == ''
    assert f'resuming after epoch {first}\n' in stdout
    second = _epochs_kept(out_dir)
    assert second <= stdout.count('val_opa') + first <= second + 1
    kept = runs.Checkpoint(str(next(out_dir.glob('unf*')))).read()[1]['curve']

    resumed = _start(
        'tiles_train.py', *flags, f'--epochs={second + 1}', '--resume')
    stdout, stderr = resumed.communicate(timeout=120)
    assert resumed.returncode == 0 and stderr == ''
    assert f'resuming after epoch {second}\n' in stdout
    assert stdout.count('val_opa') == 1
    model_dir = next(out_dir.glob('model_*'))
    with gzip.open(runs.run_file(str(model_dir))) as stream:
        curve = json.load(stream)['train_curve']
    assert curve['epoch'] == list(range(second + 1))
    assert {name: values[:second] for name, values in curve.items()} == kept
    assert not list(out_dir.glob('unfinished_*'))

    # And from the directory alone, as quietly.
    ranking = tmp_path / 'ranking.csv'
    predicted = _start(
        'tiles_gen_predictions_csv.py', f'--dir={model_dir}/',
        f'--output={ranking}', *flags[1:2], *flags[3:4])
    _, stderr = predicted.communicate(timeout=60)
    assert predicted.returncode == 0 and stderr == ''
    assert ranking.read_text() == next(out_dir.glob('results_*')).read_text()


def _no_model(folder):
    shutil.rmtree(folder / 'model_abc')


def _cut_run_file(folder):
    os.truncate(folder / 'run_abc.jsonz', 20)


@pytest.mark.parametrize('command', ['predict', 'evaluate'])
@pytest.mark.parametrize('damage, words', [
    (_no_model, '--dir: there is no directory {}/model_abc'),
    (lambda folder: shutil.rmtree(folder / 'model_abc' / 'variables'),
     '--dir: {}/model_abc holds no saved model'),
    (lambda folder: (folder / 'run_abc.jsonz').unlink(),
     'the run file {}/run_abc.jsonz is missing'),
    (_cut_run_file, 'the run file {}/run_abc.jsonz is damaged'),
], ids=['no directory', 'no model', 'no run file', 'cut run file'])
def test_damaged_runs(tmp_path, monkeypatch, capsys, command, damage, words):
    # The process has TensorFlow running; its threads cannot be set any more.
    monkeypatch.setenv('TF_NUM_INTRAOP_THREADS', '1')
    monkeypatch.setenv('TF_NUM_INTEROP_THREADS', '1')
    variables = tmp_path / 'model_abc' / 'variables'
    variables.mkdir(parents=True)
    (variables / 'variables.index').write_text('')
    (tmp_path / 'run_abc.jsonz').write_bytes(
        gzip.compress(b'{"args": {"model": "MLP"}}'))
    damage(tmp_path)
    before = _listing(tmp_path)
    code = command_line.run_command(command, [
        '--dir', str(tmp_path / 'model_abc'), '--output', str(tmp_path / 'out')])
    stderr = capsys.readouterr().err
    assert code == 1 and stderr.startswith('error: ' + words.format(tmp_path))
    assert stderr.count('\n') == 1
    assert _listing(tmp_path) == before


def test_prediction_without_a_directory(tmp_path):
    done = subprocess.run(
        [sys.executable, str(_ROOT / 'tiles_gen_predictions_csv.py')],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'error: --dir is missing: name a model_<hash> directory\n'
    assert _listing(tmp_path) == []
