"""Tables of measurements in files."""

import json

import pytest

from baselines.evaluation import tables

_ROWS = [['tile:xla', 'top-1'], ['MLP a|b, c_d', '10%'], ['{~^\\}', '-']]


@pytest.mark.parametrize(
    'name, content',
    [
        ('a.csv', 'tile:xla,top-1\n"MLP a|b, c_d",10%\n{~^\\},-\n'),
        (
            'a.MD',
            '| tile:xla | top-1 |\n| --- | ---: |\n| MLP a\\|b, c_d | 10% |\n'
            '| {~^\\\\} | - |\n',
        ),
        (
            'a.tex',
            '\\begin{tabular}{lr}\n\\hline\ntile:xla & top-1 \\\\\n\\hline\n'
            'MLP a|b, c\\_d & 10\\% \\\\\n'
            '\\{\\~{}\\^{}\\textbackslash{}\\} & - \\\\\n\\hline\n\\end{tabular}\n',
        ),
    ],
)
def test_a_table_in_each_format(tmp_path, name, content):
    path = tmp_path / name
    tables.write(str(path), [_ROWS], {})
    assert path.read_text() == content
    tables.write(str(path), [_ROWS, _ROWS], {})
    assert path.read_text() == f'{content}\n{content}'


def test_json_has_everything(tmp_path):
    path = tmp_path / 'a.json'
    tables.write(str(path), [_ROWS], {'a': None})
    assert json.loads(path.read_text()) == {'a': None}


def test_other_endings_are_refused():
    with pytest.raises(ValueError, match='--output a.xls: should end in .json, .csv, '):
        tables.check_ending('a.xls')
