"""Every command that a finished or interrupted command prints as the next one runs."""

import re
import shlex
import sys

import pytest

from baselines.tiles import models as tile_models
from baselines.training import checkpoints
from baselines.trees import growing
from tests.helpers import documents
from tests.helpers import hlo_modules
from tests.helpers import made_runs
from tests.helpers import tile_records
from tests.helpers import tiny_models

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]

_PRINTED = re.compile(
    '(?:^next: +|^ {9}|(?:go on|continue) with: |train one: |compare: )'
    '((?:tpugraphs|python) .*)$',
    re.MULTILINE,
)
_SMALL = ['--toy_data', '--epochs=1', '--configs=4', '--batch=2']


@pytest.fixture(name='folder')
def _folder(tmp_path, monkeypatch):
    """A home and current folder with small data, models and trees."""
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    monkeypatch.chdir(tmp_path)
    tile_records.write_splits(tmp_path / 'npz/tile/xla')
    kernels = hlo_modules.tile_file(made_runs.FIRST, made_runs.SECOND)
    (tmp_path / 'kernels.pb').write_bytes(kernels)
    for name in ('EarlyJoinSAGE', 'LateJoinResSAGE'):
        fields = {'__module__': tile_models.__name__}
        stand_in = type(name, (tiny_models.Tiny,), fields)
        monkeypatch.setattr(tile_models, name, stand_in, raising=False)
    monkeypatch.setattr(growing, 'OF_TILES', growing.TreeOptions(trees=4, num_leaves=4))
    return tmp_path


@pytest.fixture(name='run')
def _run(monkeypatch, capsys):
    """Runs a command line; returns the exit code and the commands that it prints."""

    def run(line):
        line = line.replace('FILE.pb', 'kernels.pb').replace(' OTHER ', ' Trees ')
        words = shlex.split(line)
        words += _SMALL * ('--recipe=strong' in words and words[1] == 'train')
        monkeypatch.setattr(sys, 'orig_argv', words)
        code = documents.run(words)
        said = ''.join(capsys.readouterr())
        return code, _PRINTED.findall(said), said

    return run


@pytest.mark.parametrize(
    'line',
    [
        'tpugraphs train tile --data_root=npz/tile/xla --epochs=2',
        'tpugraphs train tile --data_root=npz/tile/xla --epochs=2 --seeds=2 '
        f"--out_dir='my out' --models_file={tiny_models.__file__} --model=Tiny",
        'tpugraphs compete --data_root=npz --epochs=2',
        'tpugraphs sweep tile --data_root=npz/tile/xla --trials=1 --epochs=2',
    ],
)
def test_commands_that_are_printed_run(line, folder, run, monkeypatch):
    if 'sweep' in line:
        pytest.importorskip('optuna')
        (folder / 'space.toml').write_text('[lr]\nchoices = [0.1]\n')
        line += ' --space=space.toml'
    if 'seeds' in line:  # another run, to compare with
        assert run(f'{line} --seeds=1 --model=Trees --models_file=')[0] == 0

    def stop(*args, write=checkpoints.write_state_file):
        write(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, 'write_state_file', stop)
        code, [continued], said = run(line)
    assert code == 130, said
    if 'train' in line:
        where = "'my out'" if 'my out' in line else '~/out/tpugraphs_tiles'
        assert run(f'tpugraphs runs --out_dir {where}')[:2] == (0, [continued])
    code, proposed, said = run(continued)
    assert code == 0 and ('compete' in line or proposed), said
    for command in proposed:
        code, _, said = run(command)
        assert code == 0, f'{command}\n{said}'


def test_where_there_is_no_run_a_training_is_proposed(run):
    code, [train], _ = run('tpugraphs runs --out_dir=none')
    assert code == 1 and not documents.complaint(shlex.split(train))
