"""create_kaggle_csv.py as a user runs it; most cases in this process."""

import subprocess
import sys

from absl import flags
import pytest

import create_kaggle_csv
from tests.helpers import places

_ROOT = places.ROOT

_ROWS = (
    'ID,TopConfigs\n'
    'tile:xla:a,0;1;2;3;4\n'
    'layout:nlp:random:b,0;1;2\n'
    'layout:xla:default:b,0;1;2\n'
    'tile:xla:c,0;1;2;3;4\n'
)


def _start(*words):
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, str(_ROOT / 'create_kaggle_csv.py'), *words],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(name='run')
def _run(capsys):
    def run(*words):
        values = flags.FlagValues()
        create_kaggle_csv.define_flags(values)
        code = create_kaggle_csv.main(values(['create_kaggle_csv.py', *words]), values)
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return run


def _refused(done, message):
    assert done.returncode == 1
    assert done.stderr.count('\n') == 1 and done.stderr.startswith('error: ')
    assert message in done.stderr
    assert done.stdout == ''


@pytest.fixture(name='folder')
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A home of its own: ~/data/tpugraphs of the person testing must not count.
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    (tmp_path / 'sample_submission.csv').write_text(_ROWS)
    (tmp_path / 'predictions_output_model.csv').write_text(
        'ID,TopConfigs\ntile:xla:c,9;8;7;6;5\ntile:xla:a,1;0\n'
    )
    return tmp_path


def test_defaults(folder):
    done = _start()
    assert done.returncode == 0, done.stderr
    assert (folder / 'predictions_kaggle.csv').read_bytes() == (
        b'ID,TopConfigs\n'
        b'tile:xla:a,1;0;1;1;1\n'
        b'layout:nlp:random:b,0;1;2\n'
        b'layout:xla:default:b,0;1;2\n'
        b'tile:xla:c,9;8;7;6;5\n'
    )
    assert done.stdout.splitlines() == [
        'tile:xla: 2 predicted, 0 from the template',
        'layout:nlp:random: 0 predicted, 1 from the template',
        'layout:xla:default: 0 predicted, 1 from the template',
        'predictions_kaggle.csv: 4 rows written, 2 from predictions, 2 from the '
        'template',
    ]
    assert done.stderr == ''


def test_several_inputs_and_an_earlier_submission(folder, run):
    (folder / 'nlp.csv').write_text('ID,TopConfigs\nlayout:nlp:random:b,2;1;0\n')
    (folder / 'xla.csv').write_text('ID,TopConfigs\nlayout:xla:default:b,1;2;0\n')
    assert run().returncode == 0
    done = run(
        '--inputcsv=nlp.csv,xla.csv',
        '--sample=predictions_kaggle.csv',
        '--output=out/all.csv',
    )
    assert done.returncode == 0, done.stderr
    merged = (folder / 'out' / 'all.csv').read_text().splitlines()
    assert merged[1:] == [
        'tile:xla:a,1;0;1;1;1',
        'layout:nlp:random:b,2;1;0',
        'layout:xla:default:b,1;2;0',
        'tile:xla:c,9;8;7;6;5',
    ]
    repeated = run('--inputcsv=nlp.csv', '--inputcsv=xla.csv')
    assert '2 from predictions' in repeated.stdout


@pytest.mark.parametrize(
    'words, message',
    [
        (['--sample=none.csv'], 'none.csv'),
        (['--inputcsv=none.csv'], '--inputcsv none.csv: there is no such file'),
        (['--inputcsv=,'], '--inputcsv names no file'),
        (['--output=sample_submission.csv'], 'would replace its own input'),
        (['my.csv'], "'my.csv' is not a flag"),
    ],
)
def test_user_errors_are_one_line(folder, run, words, message):
    _refused(run(*words), message)
    assert (folder / 'sample_submission.csv').read_text() == _ROWS
    assert not (folder / 'predictions_kaggle.csv').exists()


def test_without_a_template_it_says_where_to_get_one(folder, run):
    (folder / 'sample_submission.csv').unlink()
    _refused(run(), 'predict-ai-model-runtime/data and give its path as')


def test_help_shows_the_flags_and_an_unknown_one_is_refused(folder):
    shown = _start('--help').stdout
    for text in ('--inputcsv', '--sample', '--output', 'predictions_kaggle.csv'):
        assert text in shown
    done = _start('--ouput=x')
    assert done.returncode == 1
    assert "Unknown command line flag 'ouput'" in done.stderr


def test_import_defines_no_flag():
    code = (
        'import sys; sys.path.insert(0, sys.argv[1]); import create_kaggle_csv; '
        'from absl import flags; assert "inputcsv" not in flags.FLAGS; '
        'assert "tensorflow" not in sys.modules'
    )
    subprocess.run([sys.executable, '-c', code, str(_ROOT)], check=True)
