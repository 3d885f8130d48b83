"""Merging prediction files into Kaggle's template."""

import pytest

from baselines.evaluation import kaggle
from baselines.evaluation import submission
from baselines.evaluation.submission import RankingRow
from tests.helpers import places

_TEMPLATE = places.SHARED / 'sample_submission.csv'
_KAGGLE = [
    RankingRow('tile:xla:a', (0, 1, 2, 3, 4)),
    RankingRow('tile:xla:b', (0, 1, 2, 3, 4)),
    RankingRow('layout:xla:random:c', (0, 1, 2)),
    RankingRow('tile:xla:d', (0, 1, 2, 3, 4)),
]


def test_tile_rows_get_five_indices():
    given = {'a': (1, 0), 'b': (7,), 'd': (6, 5, 4, 3, 2, 1)}
    rows = [RankingRow(f'tile:xla:{name}', configs) for name, configs in given.items()]
    merged = kaggle.merge_into_template(_KAGGLE, rows)
    tiles = [row.configs for row in merged.rows if row.collection == 'tile:xla']
    assert tiles == [(1, 0, 1, 1, 1), (7, 7, 7, 7, 7), (6, 5, 4, 3, 2)]


def test_unknown_ids_are_named():
    rows = [RankingRow(f'tile:xla:new{i}', (0,)) for i in range(5)]
    with pytest.raises(ValueError, match='5 of 6 .*new1, .*new2 and 2 more'):
        kaggle.merge_into_template(_KAGGLE, rows + [_KAGGLE[0]])


def test_repeated_ids_are_named(tmp_path):
    one, two = str(tmp_path / 'one.csv'), str(tmp_path / 'two.csv')
    submission.write_predictions(one, _KAGGLE[:2])
    submission.write_predictions(two, _KAGGLE[1:])
    with pytest.raises(ValueError, match=f'tile:xla:b .*{one}'):
        kaggle.combine([one, two], str(tmp_path / 'out.csv'), None)


def test_layout_rows_of_another_length():
    short = RankingRow('layout:xla:random:c', (1, 0))
    with pytest.raises(ValueError, match='c ranks 2 '):
        kaggle.merge_into_template(_KAGGLE, [short])
    long = RankingRow('layout:xla:random:c', (3, 1, 0, 2))
    merged = kaggle.merge_into_template(_KAGGLE, [long])
    assert merged.rows[2] == long
    assert merged.warnings == [
        'layout:xla:random:c ranks 4 configurations, the template has 3'
    ]


def test_published_template_survives():
    if not _TEMPLATE.exists():
        pytest.skip(f'{_TEMPLATE} is not there')
    rows = submission.read_predictions(str(_TEMPLATE))
    assert len(rows) == 894
    merged = kaggle.merge_into_template(rows, rows[:844])
    assert merged.rows == rows
    assert merged.notes[0] == 'tile:xla: 844 predicted, 0 from the template'
