"""`tpugraphs combine` and create_kaggle_csv.py: prediction files into a submission.

What is merged, and how, is in tests/evaluation/test_kaggle.py.
"""

import pathlib
import re

from absl import flags
import pytest

from baselines.data import collections
import create_kaggle_csv
from tpugraphs import commands

_ROWS = (
    'ID,TopConfigs\n'
    'tile:xla:a,0;1;2;3;4\n'
    'tile:xla:b,0;1;2;3;4\n'
    'layout:xla:default:d,0;1;2\n'
    'layout:nlp:random:e,0;1;2\n'
)
_FILES = {
    'tile.csv': 'tile:xla:b,9;8;7;6;5\ntile:xla:a,1;0\n',
    'xla.csv': 'layout:xla:default:d,2;0;1\n',
    'nlp.csv': 'layout:nlp:random:e,2;1;0\n',
}


@pytest.fixture(name='folder', autouse=True)
def _folder(tmp_path, monkeypatch):
    """The current folder: a template, and a prediction file per collection."""
    monkeypatch.chdir(tmp_path)
    # A home of its own: ~/data/tpugraphs of the person testing must not count.
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    pathlib.Path('template.csv').write_text(_ROWS)
    for name, rows in _FILES.items():
        pathlib.Path(name).write_text('ID,TopConfigs\n' + rows)
    return tmp_path


def _combine(*words):
    return commands.run('combine', list(words))


def _script(*words):
    values = flags.FlagValues()
    create_kaggle_csv.define_flags(values)
    return create_kaggle_csv.main(values(['create_kaggle_csv.py', *words]), values)


def _written(name):
    lines = pathlib.Path(name).read_text().splitlines()
    assert lines[0] == 'ID,TopConfigs'
    return lines[1:]


_WHOLE = [
    'tile:xla:a,1;0;1;1;1',
    'tile:xla:b,9;8;7;6;5',
    'layout:xla:default:d,2;0;1',
    'layout:nlp:random:e,2;1;0',
]


def test_several_collections(folder, capsys):
    # In any order; what counts is the template's.
    assert _combine('xla.csv', 'nlp.csv', 'tile.csv', '--sample', 'template.csv') == 0
    assert _written('submission.csv') == _WHOLE
    said, errors = capsys.readouterr()
    assert errors == '' and said.startswith('tile:xla: 2 predicted, 0 ')
    assert 'submission.csv: 4 rows written, 4 from predictions, 0 ' in said
    # A gap in a collection is a warning; the template is looked for at home.
    pathlib.Path('part.csv').write_text('ID,TopConfigs\ntile:xla:b,1;2;3;4;5\n')
    home = folder / 'home/data/tpugraphs'
    home.mkdir(parents=True)
    (folder / 'template.csv').rename(home / 'sample_submission.csv')
    assert _combine('part.csv', '--output', '~/out.csv') == 0
    said = capsys.readouterr().err
    assert said.startswith('warning: tile:xla: 1 of 2 ') and 'tile:xla:a\n' in said
    assert len(_written('home/out.csv')) == 4


def test_without_a_template(capsys):
    words = ['nlp.csv', 'xla.csv', 'tile.csv', '--no_template', '--output', 'all.csv']
    assert _combine(*words) == 0
    # By collection, as Kaggle has them; kernels in the order of their file.
    assert _written('all.csv') == [_WHOLE[1], _WHOLE[0], *_WHOLE[2:]]
    counts = re.findall(r'(\d) predicted', capsys.readouterr().out)
    assert counts == ['2', '1', '0', '0', '1']
    # Which is a template for the next.
    assert _combine('tile.csv', '--sample', 'all.csv') == 0
    assert _written('submission.csv') == _written('all.csv')


def test_a_collection_that_kaggle_lacks_comes_last(monkeypatch, capsys):
    monkeypatch.setattr(collections, 'KAGGLE_NAMES', ('tile:xla',))
    assert _combine('nlp.csv', 'tile.csv', '--no_template') == 0
    assert _written('submission.csv') == [_WHOLE[1], _WHOLE[0], _WHOLE[3]]
    assert 'layout:nlp:random: 1 predicted\n' in capsys.readouterr().out


def test_the_script_with_its_defaults(folder, capsys):
    """In the current folder are the template and the predictions."""
    (folder / 'template.csv').rename('sample_submission.csv')
    (folder / 'tile.csv').rename('predictions_output_model.csv')
    assert _script() == 0
    said = 'predictions_kaggle.csv: 4 rows written, 2 from predictions, 2 '
    assert said in capsys.readouterr().out
    assert _written('predictions_kaggle.csv')[0] == _WHOLE[0]
    # An earlier submission is a template, too, and the output may be anywhere.
    sample, output = '--sample=predictions_kaggle.csv', 'out/all.csv'
    assert _script('--inputcsv=nlp.csv,xla.csv', sample, f'--output={output}') == 0
    assert _written(output) == _WHOLE
    assert _script('--inputcsv=nlp.csv', '--inputcsv=xla.csv', sample) == 1  # replaced
    assert _script('--inputcsv=nlp.csv', '--inputcsv=xla.csv') == 0
    assert _written('predictions_kaggle.csv')[2:] == _WHOLE[2:]


@pytest.mark.parametrize(
    'run, words, message',
    [
        (_combine, ['none.csv', '--no_template'], 'none.csv'),
        (_combine, ['tile.csv', '--sample', 'none.csv'], '--sample none.csv'),
        (_combine, ['tile.csv'], 'sample_submission.csv'),
        (_combine, ['tile.csv', '--no_template', '--output=./tile.csv'], './tile.csv'),
        (_script, ['--inputcsv=none.csv'], 'tiles_gen_predictions_csv.py'),
        (_script, ['--inputcsv=tile.csv'], '--sample'),
        (_script, ['my.csv'], "'my.csv'"),
    ],
)
def test_user_errors_are_one_line(folder, capsys, run, words, message):
    before = {path: path.read_text() for path in folder.iterdir()}
    assert run(*words) == 1
    printed = capsys.readouterr()
    assert printed.out == ''
    assert printed.err.startswith('error: ') and printed.err.count('\n') == 1
    assert message in printed.err
    assert {path: path.read_text() for path in folder.iterdir()} == before
