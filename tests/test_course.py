"""A course's handout with the real test kernels, and the documents about it."""

import re
import shutil
import subprocess
import sys

from absl import flags
import pytest

import create_kaggle_csv
from tests.helpers import places
from tpugraphs import commands

_KERNELS = places.SHARED / 'npz/tile/xla'
_TEMPLATE = places.SHARED / 'sample_submission.csv'


@pytest.mark.skipif(not _TEMPLATE.exists(), reason='needs data next to the checkout')
def test_real_kernels_go_into_the_template(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(_TEMPLATE, tmp_path)
    words = ['--dir', 'estimate', '--data_root', str(_KERNELS)]
    assert commands.run('predict', [*words, '--cache_dir', str(tmp_path / 'c')]) == 0
    values = flags.FlagValues()
    create_kaggle_csv.define_flags(values)
    assert create_kaggle_csv.main(values(['create_kaggle_csv.py']), values) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith('predictions_kaggle.csv: 894 rows written, 5 ')


def _words(text):
    """The words of a text, without quotes of Python and fields of f-strings."""
    text = re.sub(r"""['"]\s*\n\s*f?['"]""", '', text)
    return re.sub(r'\s+', ' ', text)


def test_messages_in_troubleshooting_are_those_of_the_code():
    paths = [*places.ROOT.glob('baselines/**/*.py'), *places.ROOT.glob('*.py')]
    code = ' '.join(_words(path.read_text(encoding='utf-8')) for path in paths)
    page = (places.ROOT / 'docs/troubleshooting.md').read_text(encoding='utf-8')
    messages = re.findall(r'^\| `(.*?)` \|', page, re.MULTILINE)
    assert len(messages) >= 15
    for message in messages:
        if message.startswith(('ModuleNotFoundError', 'No module')):  # of Python
            continue
        # The longest part without what is filled in.
        filled = (
            r'scipy is|sample_submission.csv|kernel$|model_<hash>|\.{3}|[;=~]|--resume'
        )
        parts = re.split(rf'{filled}|\d[\d.]*|: ', message)
        longest = max(parts, key=len).strip(' ,')
        assert longest in code, message


def test_the_example_in_pytorch(tmp_path):
    script = places.ROOT / 'examples/torch_dataset.py'
    command = [sys.executable, '-S', script]  # -S is without packages
    without = subprocess.run(command, capture_output=True, text=True)
    assert without.returncode == 1 and without.stderr.count('\n') == 1
    assert 'pip install torch' in without.stderr
    pytest.importorskip('torch')
    printed = subprocess.check_output([sys.executable, script], text=True)
    first, *_, last = (float(x) for x in re.findall(r': (\d\.\d+)', printed))
    assert last < first
