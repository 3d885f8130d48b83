"""Files of scores and rankings, and scores in memory, measured as those of a run."""

import importlib.util
import json

import numpy as np
import pytest
from scipy import stats

from baselines.evaluation import score_files
from tests.helpers import documents
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import tile_records
import tpugraphs

_COUNTS = {'net_a': 7, 'net_b': 2}
_LAYOUT = 'layout:xla:random'
_TWO = [[1.0, 2.0]] * 2


def _csv(folder, *rows):
    path = folder / 'ranked.csv'
    path.write_text('\n'.join(['ID,TopConfigs', *rows]))
    return str(path)


def _npz(folder, **arrays):
    np.savez(folder / 'scores.npz', **arrays)
    return str(folder / 'scores.npz')


def _without(figures, *keys):
    """Returns a JSON value without keys, wherever they are."""
    if not isinstance(figures, dict):
        return figures
    return {k: _without(v, *keys) for k, v in figures.items() if k not in keys}


def _check_table(found, folder, monkeypatch):
    """Makes the table of the guide of measured runs."""
    if not importlib.util.find_spec('pandas'):
        return
    monkeypatch.chdir(folder)
    (folder / 'table.json').write_text(json.dumps(dict(zip('ab', found))))
    blocks = documents.blocks('docs/guide/compare.md')
    [code] = [block.text for block in blocks if 'pandas' in block.text]
    names = {}
    exec(code, names)
    opa = names['table'].loc['scores.npz', 'overall.opa.mean']
    assert opa == found[1]['overall']['opa']['mean'] and names['table'].shape[1] == 18


def test_scores_in_a_file_or_in_memory_have_the_figures_of_their_run(
    tmp_path, capsys, monkeypatch
):
    tile_records.write_splits(tmp_path / 'data')
    data = [f'--data_root={tmp_path}/data', f'--cache_dir={tmp_path}/cache', '--json']
    run = tpugraphs.load('estimate')
    scores = run.predict('valid', tmp_path / 'data', cache_dir=str(tmp_path / 'cache'))
    capsys.readouterr()
    found = []
    for words in (['--dir', 'estimate'], ['--predictions', _npz(tmp_path, **scores)]):
        assert processes.command('evaluate', *words, *data) == 0
        found.append(json.loads(capsys.readouterr().out))
    named = 'model', 'name', 'group', 'estimate'
    assert found[1]['name'] == 'scores.npz'
    _check_table(found, tmp_path, monkeypatch)
    assert _without(found[0], *named) == _without(found[1], *named)
    # The formula's own figures are next to those of a file.
    figure = found[1]['overall']['top_1_error']
    assert figure['estimate'] == figure['mean']
    records = tpugraphs.open(tmp_path / 'data', 'valid', cache_dir=tmp_path / 'cache')
    runtimes = [r.config_runtime / r.config_runtime_normalizers for r in records]
    figures = tpugraphs.Evaluator('tile').eval(
        dict(y_true=runtimes, y_pred=scores.values(), graph_ids=[*scores])
    )
    about = 'collection', 'fold', 'split', 'protocol', 'data', 'default'
    assert _without(figures, 'default') == _without(found[0], *named, *about)
    # A part of the graphs; five choices do not order all pairs, nor the first ten.
    name = next(iter(scores))
    order = np.argsort(scores[name], kind='stable')
    choices = ';'.join(map(str, order[:5]))
    path = _csv(tmp_path, f'tile:xla:{name},{choices}')
    assert processes.command('evaluate', '--predictions', path, *data) == 0
    printed = capsys.readouterr()
    assert 'lacks 3 of 4 graphs' in printed.err
    part = json.loads(printed.out)['overall']
    whole = tpugraphs.Evaluator('tile').eval(
        dict(y_true=runtimes[:1], y_pred=[np.argsort(order)])
    )['overall']
    assert part['top_5_error']['mean'] == whole['top_5_error']['mean']
    assert part['top_10_error']['mean'] is part['opa']['mean'] is None
    assert part['graphs'] == 1 and part['opa_pooled'] is None
    words = ['--compare', 'a', 'b', '--predictions', path]
    assert processes.command('evaluate', *words) == 1
    assert '--predictions' in capsys.readouterr().err


def test_choices_are_scores_in_their_order(tmp_path):
    # The second is filled up for Kaggle, and a row of another collection is left out.
    path = _csv(
        *(tmp_path, 'tile:xla:net_a,3;0;6;1;2', 'tile:xla:net_b,1;0;1;1;1'),
        f'{_LAYOUT}:net_c,0;1',
    )
    scores = score_files.read(path, 'tile:xla', _COUNTS)
    assert scores.by_graph['net_a'].tolist() == [1, 3, 4, 0, 5, 5, 2]
    assert scores.by_graph['net_b'].tolist() == [1, 0]
    assert scores.first == 5
    scores = score_files.read(path, _LAYOUT, {'net_c': 2})
    assert scores.by_graph['net_c'].tolist() == [0, 1] and scores.first is None


@pytest.mark.parametrize(
    'collection, row, words',
    [
        ('tile:xla', 'tile:xla:net_a,0;1;2;3', ['net_a', ' 4 ']),
        ('tile:xla', 'tile:xla:net_a,0;1;2;3;7', ['net_a', ' 7']),
        ('tile:xla', 'tile:xla:net_z,0;1', ["'net_z'"]),
        ('tile:xla', f'{_LAYOUT}:net_a,0;1', ['tile:xla', _LAYOUT]),
        (_LAYOUT, f'{_LAYOUT}:net_a,0;1;2;3;4', ['net_a', ' 4']),
    ],
)
def test_rows_that_do_not_fit_the_split(collection, row, words, tmp_path):
    path = _csv(tmp_path, row)
    read = lambda: score_files.read(path, collection, _COUNTS)
    refusals.assert_refused(read, path, *words)


def test_arrays_may_have_the_ids_of_the_csv(tmp_path):
    path = _npz(tmp_path, **{'tile:xla:net_a': np.arange(7), 'net_b': np.arange(2)})
    scores = score_files.read(path, 'tile:xla', _COUNTS)
    assert {name: len(x) for name, x in scores.by_graph.items()} == _COUNTS


# What arrays may not hold: tests/core/test_npz.py.
@pytest.mark.parametrize(
    'arrays, word',
    [
        ({'tile:xla:net_b': np.zeros(2), 'net_b': np.zeros(2)}, 'net_b'),
        ({'net_a': np.zeros(6)}, 'net_a'),
        ({'net_z': np.zeros(7)}, "'net_z'"),
    ],
)
def test_arrays_that_do_not_fit_the_split(arrays, word, tmp_path):
    path = _npz(tmp_path, **arrays)
    read = lambda: score_files.read(path, 'tile:xla', _COUNTS)
    refusals.assert_refused(read, path, word)


def test_taus_by_the_evaluator():
    evaluator = tpugraphs.Evaluator('layout')
    assert "{'y_true': runtimes" in evaluator.expected_input_format
    rng = np.random.default_rng(0)
    runtimes = [rng.integers(1, 9, 40), np.arange(1, 9), np.arange(1, 4)]
    scores = [rng.integers(0, 9, 40), np.arange(8)[::-1], np.zeros(3)]
    figures = evaluator.eval({'y_true': runtimes, 'y_pred': scores})
    taus = [figures['groups'][n]['kendall_tau']['mean'] for n in '012']
    # Where scores are constant SciPy's is NaN.
    *defined, last = (stats.kendalltau(*pair)[0] for pair in zip(runtimes, scores))
    assert taus == [*defined, 0] and np.isnan(last)
    assert figures['interval_over'] == 'graphs'
    assert len(repr(figures)) < 300 and '3 graphs' in repr(figures)


@pytest.mark.parametrize(
    'inputs, words',
    [
        ({'y_true': [[1.0]], 'y_predicted': [[1]]}, ["'y_pred'?"]),
        ({'y_true': [[1.0]], 'y_pred': []}, ['1 ', '0 in y_pred']),
        ({'y_true': None, 'y_pred': []}, ['NoneType']),
        (
            {'y_true': [[1, 2]], 'y_pred': [np.ma.array([1, 2], mask=[0, 1])]},
            ['masked'],
        ),
        ({'y_true': _TWO, 'y_pred': _TWO, 'graph_ids': ['a', 'a']}, ["'a'"]),
    ],
)
def test_inputs_of_the_evaluator_that_are_refused(inputs, words):
    evaluator = tpugraphs.Evaluator('tile')
    refusals.assert_refused(lambda: evaluator.eval(inputs), *words)
