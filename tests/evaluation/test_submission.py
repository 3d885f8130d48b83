"""The ranking CSV: rows, writing, reading, and every complaint."""

import numpy as np
import pytest

from baselines.evaluation import submission
from baselines.evaluation.submission import RankingRow


def _written(tmp_path, content) -> str:
    path = tmp_path / 'in.csv'
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


# --- rows


def test_tile_row_keeps_the_best_five():
    order = np.array([7, 3, 9, 0, 1, 2])
    row = submission.make_row('tile:xla', 'fusion_1_abc', order)
    assert row == RankingRow('tile:xla:fusion_1_abc', (7, 3, 9, 0, 1))
    assert row.collection == 'tile:xla'
    # Fewer configurations than five: nothing is repeated.
    assert submission.make_row('tile:xla', 'a', [1, 0]).configs == (1, 0)


def test_layout_row_keeps_all():
    row = submission.make_row('layout:nlp:random', 'bert.4x4', [2, 0, 1])
    assert row == RankingRow('layout:nlp:random:bert.4x4', (2, 0, 1))
    assert row.collection == 'layout:nlp:random'


@pytest.mark.parametrize(
    'collection, graph_id, order, message',
    [
        ('tile:xla', 'a b', [0], "ID 'tile:xla:a b' has not the form tile:xla:<graph>"),
        ('tile:xla', '', [0], "ID 'tile:xla:' has not the form"),
        ('tile:xla', 'a\n', [0], 'has not the form'),
        ('tile:xla', 'a', [], 'tile:xla:a: no configuration'),
        ('tile:xla', 'a', [2, 1, 2], 'xla:a: index 2 is repeated'),
        ('tile:xla', 'a', [0, -4], 'tile:xla:a: index -4 is negative'),
        ('tile:xla', 'a', [0.5], 'integers of shape .c., not float64'),
        ('tile:xla', 'a', [[0]], r'of shape \(1, 1\)'),
        ('layout:xla:best', 'a', [0], 'has not the form'),
        ('layout:xla:random', 'a', [3, 0, 1], 'a: index 3 is ranked but 2 is not'),
    ],
)
def test_malformed_rows_are_named(collection, graph_id, order, message):
    with pytest.raises(ValueError, match=message):
        submission.check_row(submission.make_row(collection, graph_id, order))


# --- files


def test_file_is_what_the_contract_says(tmp_path):
    path = tmp_path / 'new' / 'out.csv'
    rows = [
        submission.make_row('tile:xla', 'k_1', [4, 0, 2, 1, 3]),
        submission.make_row('layout:xla:default', 'p', [1, 0, 2]),
    ]
    submission.write_predictions(str(path), iter(rows))
    assert path.read_bytes() == (
        b'ID,TopConfigs\ntile:xla:k_1,4;0;2;1;3\nlayout:xla:default:p,1;0;2\n'
    )
    assert submission.read_predictions(str(path)) == rows


@pytest.mark.parametrize(
    'row, message',
    [
        (RankingRow('tile:xla:a', (1,)), 'a is ranked twice'),
        (RankingRow('b', (1,)), "ID 'b' has not the form"),
        (RankingRow('tile:xla:b', (1, 0, 1)), 'index 1 is repeated'),
    ],
)
def test_bad_rows_leave_the_old_file(tmp_path, row, message):
    path = tmp_path / 'out.csv'
    path.write_text('old')
    with pytest.raises(ValueError, match=message):
        submission.write_predictions(str(path), [RankingRow('tile:xla:a', (0,)), row])
    assert path.read_text() == 'old'
    assert [p.name for p in tmp_path.iterdir()] == ['out.csv']


def test_padding_is_a_tail_of_the_best(tmp_path):
    path = str(tmp_path / 'out.csv')
    row = RankingRow('tile:xla:a', (1, 0, 1, 1, 1))
    submission.write_predictions(path, [row], padded=True)
    assert submission.read_predictions(path, padded=True) == [row]
    with pytest.raises(ValueError, match='line 2: tile:xla:a: index 1 is repeated'):
        submission.read_predictions(path)
    for bad in [(1, 0, 0, 0, 0), (1, 1, 0)]:
        with pytest.raises(ValueError, match='is repeated'):
            submission.check_row(RankingRow('tile:xla:a', bad), padded=True)
    with pytest.raises(ValueError, match='is repeated'):
        submission.check_row(RankingRow('layout:xla:random:a', (0, 1, 0)), padded=True)


@pytest.mark.parametrize(
    'content',
    [
        b'\xef\xbb\xbfID,TopConfigs\r\ntile:xla:a,1;0\r\n',
        b'"ID","TopConfigs"\n"tile:xla:a","1;0"\n\n\n',
        b'ID,TopConfigs\ntile:xla:a,1;0',
    ],
)
def test_harmless_variants_are_read(tmp_path, content):
    path = _written(tmp_path, content)
    assert submission.read_predictions(path) == [RankingRow('tile:xla:a', (1, 0))]


@pytest.mark.parametrize(
    'content, message',
    [
        ('', 'in.csv is empty: the first line must be ID,TopConfigs'),
        ('\n\n', 'in.csv is empty'),
        ('id;top\n', "in.csv, line 1: is 'id;top', must be ID,TopConfigs"),
        ('tile:xla:a,1\n', "line 1: is 'tile:xla:a,1', must be"),
        ('ID,TopConfigs\n', 'in.csv holds a header and no row'),
        ('ID,TopConfigs\ntile:xla:a\n', "line 2: 1 column in 'tile:xla:a', must be 2"),
        ('ID,TopConfigs\n\ntile:xla:a,1\n', "line 2: 1 column in ''"),
        ('ID,TopConfigs\ntile:xla:a,1;x\n', "line 2: tile:xla:a: 'x' is not an index"),
        ('ID,TopConfigs\ntile:xla:a,1;\n', "'' is not an index"),
        ('ID,TopConfigs\ntile:xla:a,1_0\n', "'1_0' is not an index"),
        ('ID,TopConfigs\ntile:xla:a,12345678901\n', "'12345678901' is not an index"),
        ('ID,TopConfigs\ntile:xla:a,\n', 'line 2: tile:xla:a: no configuration'),
        ('ID,TopConfigs\ntile:xla:a,1\ntile:xla:b,2;2\n', 'line 3: tile:xla:b: ind'),
        ('ID,TopConfigs\ntile:xla:a,1\ntile:xla:a,2\n', 'a was ranked in line 2 alre'),
        ('ID,TopConfigs\nlayout:xla:random:a,99999999\n', '9 is ranked but 0 is not'),
        (b'ID,TopConfigs\ntile:xla:\xff,1\n', 'in.csv, line 2: this is not text'),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, content, message):
    path = _written(tmp_path, content)
    with pytest.raises(ValueError, match=message) as caught:
        submission.read_predictions(path)
    assert '\n' not in str(caught.value)
