"""What importing the package settles before TensorFlow is imported."""

import os
import subprocess
import sys

import pytest

import baselines
from tests.helpers import places

_IMPORT = 'import os, baselines; print(os.environ["TF_CPP_MIN_LOG_LEVEL"])'


def _import(**environment):
    return subprocess.run(
        [sys.executable, '-c', _IMPORT],
        cwd=places.ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_tensorflow_is_quiet_unless_the_user_wants_it(monkeypatch):
    monkeypatch.delenv('TF_CPP_MIN_LOG_LEVEL', raising=False)
    assert _import().stdout == '3\n'
    assert _import(TF_CPP_MIN_LOG_LEVEL='0').stdout == '0\n'


@pytest.mark.parametrize(
    'numpy, tensorflow',
    [('1.26.4', '2.15.1'), ('2.4.0', '2.18.0'), ('2.4.0', '2.20.0rc1')],
)
def test_versions_that_work_together(numpy, tensorflow):
    baselines.check_numpy(numpy, tensorflow)


def test_numpy_2_beside_a_tensorflow_for_numpy_1(tmp_path):
    """Whoever imports the package is told, as by `pip install pandas` after ours."""
    for package, version in (('numpy', '2.4.0'), ('tensorflow', '2.15.1')):
        folder = tmp_path / f'{package}-{version}.dist-info'
        folder.mkdir()
        metadata = f'Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n'
        (folder / 'METADATA').write_text(metadata)
    done = _import(PYTHONPATH=f'{tmp_path}{os.pathsep}{places.ROOT}')
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: TensorFlow 2.15.1 was compiled for NumPy 1, and NumPy 2.4.0 is '
        "installed, perhaps with another package: pip install 'numpy<2'"
    )
