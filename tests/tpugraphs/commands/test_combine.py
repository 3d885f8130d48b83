"""`tpugraphs combine`: prediction files of the collections into one."""

import pathlib

import pytest

from baselines.data import collections
from baselines.evaluation import submission
from tests.helpers import places
from tpugraphs import commands

_TEMPLATE = places.SHARED / 'sample_submission.csv'
_ROWS = (
    'ID,TopConfigs\n'
    'tile:xla:a,0;1;2;3;4\n'
    'tile:xla:b,0;1;2;3;4\n'
    'layout:xla:default:d,0;1;2\n'
    'layout:xla:random:d,0;1;2\n'
    'layout:nlp:default:e,0;1\n'
    'layout:nlp:random:e,0;1;2\n'
)
_FILES = {
    'tile.csv': 'tile:xla:b,9;8;7;6;5\ntile:xla:a,1;0\n',
    'xla_default.csv': 'layout:xla:default:d,2;0;1\n',
    'xla_random.csv': 'layout:xla:random:d,1;2;0\n',
    'nlp_default.csv': 'layout:nlp:default:e,1;0\n',
    'nlp_random.csv': 'layout:nlp:random:e,2;1;0\n',
}


@pytest.fixture(name='folder', autouse=True)
def _folder(tmp_path, monkeypatch):
    """The current folder: a template, and a prediction file per collection."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    pathlib.Path('template.csv').write_text(_ROWS)
    for name, rows in _FILES.items():
        pathlib.Path(name).write_text('ID,TopConfigs\n' + rows)
    return tmp_path


def _combine(*words):
    return commands.run('combine', list(words))


def _written(name='submission.csv'):
    lines = pathlib.Path(name).read_text().splitlines()
    assert lines[0] == 'ID,TopConfigs'
    return lines[1:]


def test_five_collections(capsys):
    # In any order; what counts is the template's.
    assert _combine(*sorted(_FILES), '--sample', 'template.csv') == 0
    assert _written() == [
        'tile:xla:a,1;0;1;1;1',
        'tile:xla:b,9;8;7;6;5',
        'layout:xla:default:d,2;0;1',
        'layout:xla:random:d,1;2;0',
        'layout:nlp:default:e,1;0',
        'layout:nlp:random:e,2;1;0',
    ]
    assert capsys.readouterr() == (
        'tile:xla: 2 predicted, 0 from the template\n'
        'layout:xla:default: 1 predicted, 0 from the template\n'
        'layout:xla:random: 1 predicted, 0 from the template\n'
        'layout:nlp:default: 1 predicted, 0 from the template\n'
        'layout:nlp:random: 1 predicted, 0 from the template\n'
        'submission.csv: 6 rows written, 6 from predictions, 0 from the '
        'template\n',
        '',
    )


def test_fewer_keep_rows_of_the_template_or_an_earlier_submission(capsys):
    assert (
        _combine(
            'nlp_random.csv', '--sample', 'template.csv', '--output', 'out/one.csv'
        )
        == 0
    )
    assert _written('out/one.csv')[:1] + _written('out/one.csv')[-1:] == [
        'tile:xla:a,0;1;2;3;4',
        'layout:nlp:random:e,2;1;0',
    ]
    assert _combine('tile.csv', '--sample', 'out/one.csv') == 0
    assert _written() == [
        'tile:xla:a,1;0;1;1;1',
        'tile:xla:b,9;8;7;6;5',
        'layout:xla:default:d,0;1;2',
        'layout:xla:random:d,0;1;2',
        'layout:nlp:default:e,0;1',
        'layout:nlp:random:e,2;1;0',
    ]
    assert 'layout:xla:random: 0 predicted, 1 from the template\n' in (
        capsys.readouterr().out
    )


def test_the_template_is_looked_for(folder):
    (folder / 'home/data/tpugraphs').mkdir(parents=True)
    (folder / 'template.csv').rename(
        folder / 'home/data/tpugraphs/sample_submission.csv'
    )
    assert _combine('tile.csv', '--output', '~/out.csv') == 0
    assert len(_written('home/out.csv')) == 6


def test_without_a_template(capsys):
    assert (
        _combine(
            'nlp_random.csv',
            'xla_default.csv',
            'tile.csv',
            '--no_template',
            '--output',
            'all.csv',
        )
        == 0
    )
    # By collection, as Kaggle has them; kernels in the order of their file.
    assert _written('all.csv') == [
        'tile:xla:b,9;8;7;6;5',
        'tile:xla:a,1;0;1;1;1',
        'layout:xla:default:d,2;0;1',
        'layout:nlp:random:e,2;1;0',
    ]
    assert capsys.readouterr().out == (
        'tile:xla: 2 predicted\n'
        'layout:xla:default: 1 predicted\n'
        'layout:xla:random: 0 predicted\n'
        'layout:nlp:default: 0 predicted\n'
        'layout:nlp:random: 1 predicted\n'
        'all.csv: 4 rows written, all from predictions\n'
    )
    # Which is a template for the next.
    assert _combine('tile.csv', '--sample', 'all.csv') == 0
    assert _written() == _written('all.csv')


def test_a_gap_in_a_collection_is_a_warning(capsys):
    pathlib.Path('part.csv').write_text('ID,TopConfigs\ntile:xla:b,1;2;3;4;5\n')
    assert _combine('part.csv', '--sample', 'template.csv') == 0
    assert capsys.readouterr().err == (
        "warning: tile:xla: 1 of 2 IDs have no prediction and keep the template's "
        'row: tile:xla:a\n'
    )


@pytest.mark.parametrize(
    'words, message',
    [
        (
            ['none.csv', '--no_template'],
            'none.csv: there is no such file; `tpugraphs predict` makes one',
        ),
        (['tile.csv', '--sample', 'none.csv'], 'none.csv'),
        (['tile.csv'], 'sample_submission.csv is neither in the current folder nor in'),
        (
            ['tile.csv', './tile.csv', '--no_template'],
            'tile:xla:b is predicted in both tile.csv and ./tile.csv',
        ),
        (
            ['tile.csv', 'tile.csv', '--sample', 'template.csv'],
            'tile:xla:b is predicted in both tile.csv and tile.csv',
        ),
        (
            ['tile.csv', 'short.csv', '--sample', 'template.csv'],
            'layout:xla:random:d ranks 2 configurations, the template has 3',
        ),
        (
            ['other.csv', '--sample', 'template.csv'],
            '1 of 1 predicted IDs are not in the template: layout:nlp:random:sim',
        ),
        (
            ['broken.csv', '--no_template'],
            'broken.csv, line 2: layout:nlp:random:e: index 2 is ranked but 0 is not',
        ),
        (
            ['tile.csv', '--no_template', '--output', './tile.csv'],
            '--output ./tile.csv would replace its own input',
        ),
        (
            ['tile.csv', '--sample', 'template.csv', '--output', 'template.csv'],
            '--output template.csv would replace its own input',
        ),
        (
            ['tile.csv', '--no_template', '--output', 'template.csv/out.csv'],
            'template.csv',
        ),
    ],
)
def test_user_errors_are_one_line(folder, capsys, words, message):
    for name, row in [
        ('short', 'layout:xla:random:d,1;0'),
        ('other', 'layout:nlp:random:sim,0;1'),
        ('broken', 'layout:nlp:random:e,2;1'),
    ]:
        (folder / f'{name}.csv').write_text(f'ID,TopConfigs\n{row}\n')
    before = {path: path.read_text() for path in folder.iterdir()}
    assert _combine(*words) == 1
    printed = capsys.readouterr()
    assert printed.out == ''
    assert printed.err.startswith('error: ') and printed.err.count('\n') == 1
    assert message in printed.err
    assert {path: path.read_text() for path in folder.iterdir()} == before


def test_a_template_and_none_at_once(capsys):
    with pytest.raises(SystemExit) as caught:
        _combine('tile.csv', '--sample', 'template.csv', '--no_template')
    assert caught.value.code == 2
    assert 'not allowed with argument' in capsys.readouterr().err


def test_published_template_in_five_files(folder):
    if not _TEMPLATE.exists():
        pytest.skip(f'{_TEMPLATE} is not there')
    rows = submission.read_predictions(str(_TEMPLATE))
    names = collections.in_kaggle_order()
    assert list(dict.fromkeys(row.collection for row in rows)) == names
    paths = []
    for name in names:
        some = [
            submission.Row(row.id, row.configs[::-1])
            for row in rows
            if row.collection == name
        ]
        paths.append(name.replace(':', '_') + '.csv')
        submission.write_predictions(paths[-1], some[::-1])
    assert _combine(*paths, '--sample', str(_TEMPLATE)) == 0
    assert submission.read_predictions('submission.csv') == [
        submission.Row(row.id, row.configs[::-1]) for row in rows
    ]
    assert len(rows) == 894 and (folder / 'submission.csv').exists()
