"""`tpugraphs compete`: trains and ranks the collections that have data."""

import csv

import pytest

from baselines.core import text
from baselines.layout import models as layout_models
from baselines.tiles import models as tile_models
from baselines.trees import growing
from tests.helpers import layout_runs
from tests.helpers import made_runs
from tests.helpers import refusals
from tests.helpers import shapes
from tests.helpers import tile_records
from tests.helpers import tiny_layout_models
from tests.helpers import tiny_models
from tpugraphs import commands
from tpugraphs import competition


def _options(root, **changes):
    folders = {'data_root': str(root / 'data'), 'out_dir': str(root / 'out')}
    return competition.CompetitionOptions(**{**folders, **changes})


def test_the_score_is_the_mean_over_collections(tmp_path):
    entries = [
        competition.Entry('tile:xla', 'a', 'kaggle_score', 0.9, 0.8, 1.0, 'a.csv'),
        competition.Entry(
            'layout:xla:random', 'b', 'kendall_tau', 0.2, None, None, 'b'
        ),
    ]
    results = competition.Results(entries, ['layout:nlp:random'], 'all.csv')
    assert results.score == pytest.approx(0.55)
    lines = results.to_text().splitlines()
    assert lines[2].split()[-5:] == ['0.900', '0.800', 'to', '1.000', 'a.csv']
    assert lines[3].split()[-3:] == ['0.200', '-', 'b']
    assert '0.550' in lines[-2] and '2 of 5' in lines[-2]


def test_what_cannot_compete(tmp_path):
    def refused(runs, *words, **changes):
        compete = lambda: competition.compete(_options(tmp_path, **changes), runs)
        refusals.assert_refused(compete, *words)

    refused([], f'{tmp_path}')
    for split in ('train', 'valid', 'test'):
        (tmp_path / 'data/layout/xla/random' / split).mkdir(parents=True)
    refused([], '--sample none.csv', sample='none.csv')
    (tmp_path / 'data/layout/xla/random/test/b.npz').touch()
    (tmp_path / 'sample.csv').write_text('ID,TopConfigs\nlayout:xla:random:a,0\n')
    refused([], '1 of 1', 'layout:xla:random:b', sample=f'{tmp_path}/sample.csv')
    tile, other = (made_runs.make_tile_run(tmp_path) for _ in range(2))
    refused([tile, other], 'tile:xla')
    refused([tile], '--dir', f'{tmp_path}/data/tile/xla')


def test_ctrl_c_is_continued_by_the_same_command(tmp_path, monkeypatch):
    for split in ('train', 'valid', 'test'):
        (tmp_path / 'data/tile/xla' / split).mkdir(parents=True)

    def stop(*unused):
        raise text.Interrupted('kept 2 epochs', '--resume')  # as a training does

    monkeypatch.setattr(competition, '_make_entry', stop)
    with pytest.raises(text.Interrupted) as caught:
        competition.compete(_options(tmp_path))
    assert caught.value.flags == () and str(tmp_path / 'out') in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures('weights_alone')
def test_collections_are_trained_and_combined(tmp_path, monkeypatch, capsys):
    pytest.importorskip('lightgbm')
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    # In place of the recipes' models and trees, some that are made in a moment.
    for module, name, tiny in (
        (tile_models, 'LateJoinResSAGE', tiny_models.Tiny),
        (layout_models, 'ResModel', tiny_layout_models.Tiny),
    ):
        stand_in = type(name, (tiny,), {'__module__': module.__name__})
        monkeypatch.setattr(module, name, stand_in, raising=False)
    for name in ('FEWER', 'OF_TILES'):
        monkeypatch.setattr(growing, name, growing.TreeOptions(trees=4, num_leaves=4))
    tile_records.write_splits(tmp_path / 'data/tile/xla')
    layout_runs.write_splits(tmp_path / 'data/layout/nlp/default')
    words = [f'--data_root={tmp_path}/data', f'--out_dir={tmp_path}/out', '--json']
    assert commands.run('compete', [*words, '--epochs=1']) == 0
    captured = capsys.readouterr()
    left_out = 'layout:xla:default, layout:xla:random, layout:nlp:random'
    assert f'no data of {left_out}: left out' in captured.err
    assert ' 894 rows, not 6: --sample ' in captured.err
    found = shapes.check_shape('compete', captured.out)
    measured = [(entry['collection'], entry['measure']) for entry in found['entries']]
    nlp = 'layout:nlp:default'
    assert measured == [('tile:xla', 'kaggle_score'), (nlp, 'kendall_tau')]
    with open(found['submission'], encoding='utf-8') as stream:
        ids = [row['ID'] for row in csv.DictReader(stream)]
    assert [i.rpartition(':')[0] for i in ids] == ['tile:xla'] * 4 + [nlp] * 2
    # Again: nothing is trained, and the runs can be named.
    runs = [entry['run'] for entry in found['entries']]
    assert commands.run('compete', [*words, '--epochs=1']) == 0
    again = shapes.check_shape('compete', capsys.readouterr().out)
    assert [entry['run'] for entry in again['entries']] == runs
    assert commands.run('compete', [*words, '--dir', *runs]) == 0
    taken = shapes.check_shape('compete', capsys.readouterr().out)
    assert taken['score'] == pytest.approx(found['score'])
