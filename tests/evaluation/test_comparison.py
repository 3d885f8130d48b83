"""Models side by side: gains, intervals, what is seen, and tables."""

import numpy as np
import pytest

from baselines.evaluation import comparison
from baselines.evaluation import metrics
from baselines.evaluation.report import GraphResult


def _tile(graph_id, scores, runtimes):
    return GraphResult(graph_id, np.array(scores, float), np.array(runtimes, float))


# Two kernels of program p, one of q.  Top-1 errors by choosing i: runtime - 1.
_RUNTIMES = [('p_1', [1, 2, 3]), ('p_2', [1, 3, 5]), ('q_1', [1, 1.5, 2])]


def _choosing(*choices):
    """Results whose first choice on each graph is that configuration."""
    results = []
    for (graph_id, runtimes), choice in zip(_RUNTIMES, choices):
        scores = [1.0, 2.0, 3.0]
        scores[choice] = 0.0
        results.append(_tile(graph_id, scores, runtimes))
    return results


def test_gain_by_hand():
    ours = _choosing(0, 1, 0)  # top-1 errors 0, 2, 0
    theirs = _choosing(1, 2, 0)  # 1, 4, 0
    gain = comparison.paired_test('tile', [ours], [theirs])['top_1_error']
    # Less error is better: gains 1 and 2 on p, 0 on q.
    assert gain['gain'] == pytest.approx(1.0)
    # Drawing two programs: qq 0 and pp 1.5 with probability 1/4 each.
    assert gain['low'] == 0.0 and gain['high'] == pytest.approx(1.5)
    back = comparison.paired_test('tile', [theirs], [ours])['top_1_error']
    assert back['gain'] == -gain['gain'] and back['high'] == 0.0
    # The mean of several: errors .5, 3, 0, so gains .5, 1, 0.
    both = comparison.paired_test('tile', [ours], [ours, theirs])
    assert both['top_1_error']['gain'] == pytest.approx(0.5)
    # More ordered pairs are better: of 3, scores 0 2 3 have 3 right, 1 0 3 have
    # 2, and 1 2 0 have 1.
    assert both['opa']['gain'] == pytest.approx(
        np.mean([1, 2 / 3, 1]) - np.mean([(1 + 2 / 3) / 2, (2 / 3 + 1 / 3) / 2, 1])
    )


def test_what_is_not_defined_is_left_out():
    equal = _tile('q_1', [1, 2], [4, 4])
    ours, theirs = [_choosing(0)[0], equal], [_choosing(1)[0], equal]
    gains = comparison.paired_test('tile', [ours], [theirs])
    # Tau of kernel p_1 alone: one program says nothing about others.
    assert gains['kendall_tau']['gain'] == pytest.approx(1 - 1 / 3)
    assert gains['kendall_tau']['low'] is None
    assert gains['top_1_error']['gain'] == pytest.approx(0.5)
    alone = comparison.paired_test('tile', [[equal]], [[equal]])
    assert {alone['opa'][name] for name in ('ours', 'gain', 'low', 'high')} == {None}


def _wins(programs, gain, kernels=2):
    """Results of two models: the first wins by so much on each program's kernels."""
    ours, theirs = [], []
    for program in range(programs):
        for kernel in range(kernels):
            # Chosen first: the best, or one that takes 1 + gain as long.
            runtimes = [1.0, 1.0 + gain[program]]
            graph_id = f'p{program}_{kernel}'
            ours.append(_tile(graph_id, [0, 1], runtimes))
            theirs.append(_tile(graph_id, [1, 0], runtimes))
    return ours, theirs


def test_a_difference_on_every_program_is_seen():
    ours, theirs = _wins(6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    found = comparison.paired_test('tile', [ours], [theirs])['top_1_error']
    assert (found['ours'], found['theirs']) == (0, pytest.approx(0.35))
    assert found['gain'] == pytest.approx(0.35)
    assert 0.1 < found['low'] < 0.35 < found['high'] < 0.6
    assert (found['programs'], found['won'], found['lost']) == (6, 6, 0)
    # All six signs alike, either way: 2 of 2 ** 6.
    assert found['p'] == pytest.approx(2 / 64)
    assert found['seen'] == 'better'
    back = comparison.paired_test('tile', [theirs], [ours])['top_1_error']
    assert back['seen'] == 'worse' and back['gain'] == -found['gain']
    assert (back['won'], back['lost'], back['p']) == (0, 6, found['p'])


def test_many_kernels_of_few_programs_show_nothing():
    ours, theirs = _wins(5, [0.1, 0.2, 0.3, 0.4, 0.5], kernels=40)
    found = comparison.paired_test('tile', [ours], [theirs])['top_1_error']
    assert found['low'] > 0  # and yet, of five programs
    assert found['p'] == pytest.approx(2 / 32)
    assert found['seen'] == 'no difference seen'


def test_seeds_are_told_apart_from_programs():
    ours, theirs = _wins(6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    # A model of two seeds, one of which errs as theirs does: .0 and .35.
    found = comparison.paired_test('tile', [ours, theirs], [theirs])['top_1_error']
    assert found['ours'] == pytest.approx(0.175)
    assert found['ours_over_seeds'] == pytest.approx(0.35 / np.sqrt(2))
    assert found['theirs_over_seeds'] is None
    assert found['gain'] == pytest.approx(0.175) and found['seen'] == 'better'


def test_the_text_says_what_is_over_what():
    ours, theirs = _wins(6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    result = {
        **dict(task='tile', collection='tile:xla', split='valid'),
        **dict(graphs=12, programs=6),
        'a': {'names': ['Good seed 0', 'Good seed 1'], 'dirs': ['x', 'y']},
        'b': {'names': ['Bad'], 'dirs': ['z']},
        'measures': comparison.paired_test('tile', [ours, ours], [theirs]),
    }
    lines = comparison.format_test(result).splitlines()
    assert lines[0].endswith('Good seed 0, Good seed 1')
    assert '12 kernels of 6 programs' in lines[2]
    assert lines[4].split() == 'A B gain of A 95% over programs won p'.split()
    found = ['top-1', '0.000', '+-0.000', '0.350', '+0.350']
    assert lines[6].split()[:5] == found
    assert lines[6].endswith('6 of 6  0.031  A is better')
    assert lines[7].endswith('0 of 0  1.000  no difference seen')  # top-5: both of 2
    assert '2 runs of A' in lines[-2] and 'B, one run' in lines[-1]
    assert max(map(len, lines)) <= 100
    result['programs'] = 5
    assert '5 programs ' in comparison.format_test(result)


def _summary(name, group, top_1, collection='tile:xla', data='/d/valid', fold=''):
    overall = {'graphs': 1200, 'configurations': 9 * 1200}
    for measure in metrics.MEASURES['tile']:
        overall[measure.key] = {'mean': 0.5, 'random': 0.25, 'default': None}
    overall['top_1_error']['mean'] = top_1
    overall['opa']['default'] = 0.75 if name.endswith('seed 0') else None
    about = dict(collection=collection, split='valid', data=data, fold=fold)
    return dict(task='tile', name=name, group=group, overall=overall, **about)


def test_a_line_for_each_run():
    # (.1 + .3) / 2 = .2; the deviation is .1 * sqrt(2).
    runs = {
        'a': _summary('MLP lr=.01 seed 0', 'MLP lr=.01', 0.1),
        'b': _summary('MLP lr=.01 seed 1', 'MLP lr=.01', 0.3),
        'c': _summary('MLP lr=.1 seed 0', 'MLP lr=.1', None),
    }
    found = [line.split() for line in comparison.format_runs(runs).splitlines()]
    assert found[3][-7:] == ['1,200', '0.100', *['0.500'] * 5]
    assert [found[row][-6] for row in (3, 4, 5)] == ['0.100', '0.300', '-']
    assert found[7][-6:] == ['0.200', *['0.500'] * 5]  # the mean
    assert found[8][-6:] == ['0.141', *['0.000'] * 5]  # the deviation
    assert found[10][-6:] == ['0.250'] * 6  # a random choice
    assert found[11][-6:] == ['-', '-', '-', '0.750', '-', '-']  # the default


def test_runs_on_other_data_have_no_mean():
    others = {'data': '/x/valid'}
    folds = [
        {'data': f'/d/{{train,valid}}/valid of fold {k} of 2', 'fold': f'{k}/2'}
        for k in (1, 2)
    ]
    summaries = {
        number: _summary(f'MLP {number}', 'MLP', top_1, **about)
        for number, (top_1, about) in enumerate(
            [(0.1, {}), (0.5, others), (0.2, folds[0]), (0.3, {}), (0.4, folds[1])]
        )
    }
    lines = comparison.format_runs(summaries).splitlines()
    means = [line.split()[-6] for line in lines if line.startswith('mean of 2: MLP')]
    assert means == ['0.200', '0.300']  # of .1 and .3, and of the folds' .2 and .4
    assert 'different graphs' in lines[-3]
    assert not [line for line in lines if line.startswith('random choice')]


def test_collections_have_a_table_each():
    other = _summary('MLP b', 'MLP', 0.1, collection='tile:other')
    text = comparison.format_runs({'a': _summary('MLP a', 'MLP', 0.1), 'b': other})
    heads = [part.split('\n')[0] for part in text.split('\n\n')[::2]]
    assert heads == ['valid of tile:xla', 'valid of tile:other']
    assert 'mean of' not in text
