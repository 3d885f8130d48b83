"""What importing the package settles before TensorFlow is imported."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import baselines
from baselines.data import download
from tests.helpers import places
from tests.helpers import processes

_IMPORT = 'import os, baselines; print(os.environ["TF_CPP_MIN_LOG_LEVEL"])'


def test_tensorflow_is_quiet_unless_the_user_wants_it(monkeypatch):
    monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL', raising=False)
    assert processes.python('-c', _IMPORT).stdout == '3\n'
    assert processes.python('-c', _IMPORT, TF_CPP_MIN_LOG_LEVEL='0').stdout == '0\n'


@pytest.mark.parametrize(
    'numpy, tensorflow, tf_keras, advice',
    [
        ('2.4.0', '2.20.0rc1', True, ''),
        ('2.4.0', '2.15.1', True, "pip install 'numpy<2'"),
        ('2.1.0', '2.18.0', None, 'tf_keras'),
    ],
)
def test_versions_that_work_together(numpy, tensorflow, tf_keras, advice, monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: tf_keras)
    complaint = baselines.explain_environment([], numpy, tensorflow)
    assert bool(complaint) == bool(advice) and advice in complaint


@pytest.mark.parametrize('script', sorted(places.ROOT.glob('*s*_*.py')))
def test_a_script_says_what_is_missing(script):
    """In one line, before anything else is imported: -S is without packages."""
    done = processes.python('-S', script)
    if script.name == 'echo_download_commands.py':  # which needs none
        assert done.stderr == '' and 'curl' in done.stdout
        return
    assert (done.returncode, done.stdout) == (1, '')
    [line] = done.stderr.splitlines()
    assert line.startswith('error: absl, numpy') and 'pip install -e .' in line


@pytest.mark.parametrize('minor', range(6, 10))
def test_an_older_python(minor):
    """One line of every script, but of the one that runs from 3.6 on."""
    places_of = pathlib.Path.home().glob(f'.pyenv/versions/3.{minor}.*/bin/python')
    python = next(places_of, None) or shutil.which(f'python3.{minor}')
    if python is None or subprocess.run([python, '-V'], capture_output=True).returncode:
        pytest.skip(f'needs Python 3.{minor}')
    for script in sorted(places.ROOT.glob('*s*_*.py')):
        done = subprocess.run([python, script], capture_output=True, text=True)
        if script.name == 'echo_download_commands.py':
            assert done.returncode == 0 and done.stdout.count('curl ') == 15
        else:
            assert (done.returncode, done.stdout) == (1, '')
            [line] = done.stderr.splitlines()
            assert f'3.{minor}' in line and 'python3.11 -m venv' in line


def test_the_parent_of_a_clone_called_tpugraphs(tmp_path):
    """A folder of that name comes first on sys.path, without being the package."""
    (tmp_path / 'tpugraphs').symlink_to(places.ROOT)
    code = 'import tpugraphs; print(tpugraphs.load.__name__)'
    command = [sys.executable, '-c', code]
    assert subprocess.check_output(command, cwd=tmp_path, text=True) == 'load\n'


def test_downloads_by_curl(tmp_path):
    """The archives of all collections, unpacked below ~/data/tpugraphs and kept."""
    script = places.ROOT / 'echo_download_commands.py'
    command = [sys.executable, '-S', script]
    wrong = subprocess.run([*command, 'tiles'], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, '')
    assert "'tiles'" in wrong.stderr and 'npz_tile_xla' in wrong.stderr
    read, write = os.pipe()
    os.close(read)  # as `| head` does
    lost = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert lost.stderr == '' and lost.returncode
    printed = subprocess.check_output(command, text=True)
    splits = download.list_splits(['all'])
    for split in splits:
        name = split.replace('/', '_')
        assert f' {download.BASE_URL}{name}.tar ' in printed
    assert printed.count('curl ') == len(splits)
    # A curl that makes an archive of the folder that a split has.
    curl = """
curl() { local part="${@: -2:1}" folder; folder=${part%.tar.part}; folder=${folder//_//}
  mkdir -p "$folder" && touch "$folder/a.npz" && tar -cf "$part" npz && rm -r npz; }
"""
    for _ in range(2):  # a second call keeps what is there
        subprocess.run(
            ['bash', '-c', curl + printed], env={**os.environ, 'HOME': str(tmp_path)}
        ).check_returncode()
    folder = tmp_path / 'data/tpugraphs'
    assert all((folder / split / 'a.npz').exists() for split in splits)
    assert (folder / 'npz_tile_xla_test.tar').exists()
    assert not list(folder.glob('*.part'))
