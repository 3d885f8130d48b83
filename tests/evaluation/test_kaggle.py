"""Merging prediction files into Kaggle's template."""

import pytest

from baselines.evaluation import kaggle
from baselines.evaluation import submission
from baselines.evaluation.submission import RankingRow

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


def test_rows_that_the_published_code_filled_up(tmp_path, capsys):
    files = {'template': '0;1;2;3;4', 'course': '3;0;1;2;0'}
    for name, row in files.items():
        (tmp_path / f'{name}.csv').write_text(f'ID,TopConfigs\ntile:xla:a,{row}\n')
    inputs = [str(tmp_path / f'{name}.csv') for name in files]
    for (predicted, template), row in zip(
        [inputs[::-1], inputs], ['3;0;1;2;3', files['template']]
    ):
        output = tmp_path / 'out\n.csv'
        kaggle.combine([predicted], str(output), template)
        assert output.read_text() == f'ID,TopConfigs\ntile:xla:a,{row}\n'
        printed = capsys.readouterr()
        assert '1 row' in printed.err
        assert 'out\\n.csv: 1 row' in printed.out


def test_unknown_and_repeated_ids_are_named(tmp_path):
    rows = [RankingRow(f'tile:xla:new{i}', (0,)) for i in range(5)]
    with pytest.raises(ValueError, match='5 of 6 .*new1, .*new2 and 2 more'):
        kaggle.merge_into_template(_KAGGLE, rows + [_KAGGLE[0]])
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
    longer = RankingRow('layout:xla:random:c', (3, 1, 0, 2, 4))
    ranks_4, ranks_5 = (
        kaggle.merge_into_template(_KAGGLE, [r]) for r in (long, longer)
    )
    assert ranks_4.rows[2] == long and ranks_5.rows[2] == longer
    said = 'layout:xla:random:c ranks {} configurations, the template 3'
    # One more, as 1,001 of two graphs of the competition, is only noted.
    assert ranks_4.warnings == [] and ranks_4.notes[0] == said.format(4)
    assert ranks_5.warnings == [said.format(5)]
