"""Tables of measurements in files."""

import json

import pytest

from baselines.evaluation import tables

_ROWS = [['tile:xla', 'top-1'], ['MLP a, b', '10%']]


def test_tables_in_files(tmp_path):
    path = tmp_path / 'a.CSV'
    tables.write_tables(str(path), [_ROWS, _ROWS], {})
    content = 'tile:xla,top-1\n"MLP a, b",10%\n'
    assert path.read_text() == f'{content}\n{content}'
    path = tmp_path / 'a.json'
    tables.write_tables(str(path), [_ROWS], {'a': None})
    assert json.loads(path.read_text()) == {'a': None}
    with pytest.raises(ValueError, match='--output a.xls'):
        tables.check_ending('a.xls')
