"""Tables of measurements in files."""

import json

import pytest

from baselines.evaluation import tables

_ROWS = [['tile:xla', 'top-1'], ['MLP a|b, c_d', '10%']]


def test_tables_as_csv(tmp_path):
    path, content = tmp_path / 'a.CSV', 'tile:xla,top-1\n"MLP a|b, c_d",10%\n'
    tables.write(str(path), [_ROWS], {})
    assert path.read_text() == content
    tables.write(str(path), [_ROWS, _ROWS], {})
    assert path.read_text() == f'{content}\n{content}'


def test_json_has_everything(tmp_path):
    path = tmp_path / 'a.json'
    tables.write(str(path), [_ROWS], {'a': None})
    assert json.loads(path.read_text()) == {'a': None}


def test_other_endings_are_refused():
    with pytest.raises(ValueError, match='--output a.xls: should end in .json or .csv'):
        tables.check_ending('a.xls')
