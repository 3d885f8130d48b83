"""The ranking CSV: rows, writing, reading, and every complaint."""

import contextlib
import time

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
    # Of layouts all are kept.
    row = submission.make_row('layout:nlp:random', 'bert.4x4', [2, 0, 1])
    assert row == RankingRow('layout:nlp:random:bert.4x4', (2, 0, 1))
    assert row.collection == 'layout:nlp:random'


@pytest.mark.parametrize(
    'collection, graph_id, order, message',
    [
        ('tile:xla', 'a b', [0], "ID 'tile:xla:a b'"),
        ('layout:xla:best', 'a', [0], "ID 'layout:xla:best:a'"),
        ('tile:xla', 'a', [], 'tile:xla:a: no configuration'),
        ('tile:xla', 'a', [2, 1, 2], 'tile:xla:a: index 2 '),
        ('tile:xla', 'a', [0, -4], 'tile:xla:a: index -4 '),
        ('layout:xla:random', 'a', [3, 0, 1], 'a: .* 2 '),
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


def test_bad_rows_leave_the_old_file(tmp_path):
    path = tmp_path / 'out.csv'
    path.write_text('old')
    for row in (RankingRow('tile:xla:a', (1,)), RankingRow('tile:xla:b', (1, 0, 1))):
        rows = [RankingRow('tile:xla:a', (0,)), row]
        with pytest.raises(ValueError, match=row.id):
            submission.write_predictions(str(path), rows)
    assert path.read_text() == 'old'
    assert [p.name for p in tmp_path.iterdir()] == ['out.csv']


def test_padding_is_a_tail_of_the_best(tmp_path):
    path = str(tmp_path / 'out.csv')
    row = RankingRow('tile:xla:a', (1, 0, 1, 1, 1))
    submission.write_predictions(path, [row], padded=True)
    assert submission.read_predictions(path, padded=True) == [row]
    with pytest.raises(ValueError, match='line 2: tile:xla:a: index 1 '):
        submission.read_predictions(path)
    for name, bad in (
        ('tile:xla:a', (1, 0, 0, 0, 0)),
        ('tile:xla:a', (1, 1, 0)),
        ('layout:xla:random:a', (0, 1, 0)),
    ):
        with pytest.raises(ValueError, match=name):
            submission.check_row(RankingRow(name, bad), padded=True)


@pytest.mark.parametrize(
    'content',
    [
        b'\xef\xbb\xbfID,TopConfigs\r\ntile:xla:a,1;0\r\n',
        b'"ID","TopConfigs"\n"tile:xla:a","1;0"\n\n\n',
        b'ID,TopConfigs\ntile:xla:a,1;0',
        b'ID,TopConfigs\ntile:xla:a, "1\t; 0"',
    ],
)
def test_harmless_variants_are_read(tmp_path, content):
    path = _written(tmp_path, content)
    assert submission.read_predictions(path) == [RankingRow('tile:xla:a', (1, 0))]


def test_zeros_of_the_published_code_are_dropped_with_a_note(tmp_path, capsys):
    rows = {
        '3;0;1;2;0': (3, 0, 1, 2),
        '0;0;0;0;0': (0,),
        '1;0;0': (1, 0),
        '2;0': (2, 0),
    }
    layout = 'layout:xla:random:a,1;0'
    lines = [f'tile:xla:{i},{text}' for i, text in enumerate(rows)]
    path = _written(tmp_path, '\n'.join(['ID,TopConfigs', *lines, layout]))
    *found, _ = submission.read_predictions(path)
    assert [row.configs for row in found] == [*rows.values()]
    assert 'end of 3 rows' in capsys.readouterr().err
    path = _written(tmp_path, 'ID,TopConfigs\ntile:xla:a,1;0;2')
    submission.read_predictions(path)
    assert capsys.readouterr().err == ''


@pytest.mark.parametrize('collection', ['tile:xla', 'layout:xla:random'])
@pytest.mark.parametrize('index', [0, 7])
def test_a_long_row_of_one_index_takes_no_minutes(tmp_path, collection, index):
    row = ';'.join([str(index)] * 400_000)
    path = _written(tmp_path, f'ID,TopConfigs\n{collection}:a,{row}\n')
    start = time.process_time()
    with contextlib.suppress(ValueError):
        submission.read_predictions(path, padded=True)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    'rows, word',
    [
        ('', 'ID,TopConfigs'),
        ('id;top\n', "line 1: .*'id;top'"),
        ('ID,TopConfigs\n', 'no row'),
        ('ID,TopConfigs\ntile:xla:a\n', "line 2: .*'tile:xla:a'"),
        ('ID,TopConfigs\ntile:xla:a,1;x\n', "line 2: tile:xla:a: 'x'"),
        ('ID,TopConfigs\ntile:xla:a,12345678901\n', "'12345678901'"),
        ('ID,TopConfigs\ntile:xla:a,1\ntile:xla:b,2;2\n', 'line 3: tile:xla:b: '),
        ('ID,TopConfigs\ntile:xla:a,1\ntile:xla:a,2\n', 'tile:xla:a .*line 2'),
        ('ID,TopConfigs\nlayout:xla:random:a,99999999\n', 'line 2: .*99999999'),
        (b'ID,TopConfigs\ntile:xla:\xff,1\n', 'line 2: '),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, rows, word):
    path = _written(tmp_path, rows)
    with pytest.raises(ValueError, match=f'in.csv.*{word}') as caught:
        submission.read_predictions(path)
    assert '\n' not in str(caught.value)
