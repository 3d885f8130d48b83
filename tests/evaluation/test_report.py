"""Summaries, tables and JSON of scored graphs."""

import numpy as np
import pytest

from baselines.evaluation import report
from baselines.evaluation.report import GraphResult

# top-1 error 1 (chose 20, best 10), top-5 error 0, pairs 0 of 1.
_WRONG = GraphResult('conv.4x4_aa11', [1.0, 2.0], [20.0, 10.0])
# All right: 3 of 3 pairs.
_RIGHT = GraphResult('conv.4x4_bb22', [1.0, 2.0, 3.0], [5.0, 6.0, 7.0])
# All runtimes equal: errors 0, no pair, no tau.
_EQUAL = GraphResult('bert_cc33', [1.0, 2.0], [4.0, 4.0])


def test_tile_summary_by_hand():
    summary = report.summarise('tile', [_WRONG, _RIGHT, _EQUAL])
    assert summary['task'] == 'tile' and summary['confidence'] == 0.95
    assert list(summary['groups']) == ['bert', 'conv.4x4']
    overall = summary['overall']
    assert (overall['graphs'], overall['configurations']) == (3, 7)
    assert overall['opa_pooled'] == 0.75
    error = overall['top_1_error']
    # Random choice of one: 0.5, (0 + 1/5 + 2/5) / 3 = 0.2, 0.
    found = (error['graphs'], error['mean'], error['random'])
    assert found == (3, pytest.approx(1 / 3), pytest.approx(0.7 / 3))
    assert overall['kendall_tau']['graphs'] == 2  # of one wrong and one right
    none = dict.fromkeys(('mean', 'low', 'high', 'random', 'default'))
    assert summary['groups']['bert']['opa'] == {**none, 'graphs': 0}


def test_the_estimate_stands_beside_random_choice():
    # It ranks the slowest of three first, then the fastest: 1 of 3 pairs is right.
    result = _RIGHT._replace(estimate=np.array([2.0, 3, 1]))
    summary = report.summarise('tile', [result])
    assert summary['overall']['opa']['mean'] == 1
    assert summary['overall']['opa']['estimate'] == pytest.approx(1 / 3)
    assert summary['overall']['top_1_error']['estimate'] == pytest.approx(2 / 5)
    *_, row, _, legend, _, _ = report.format_table(summary).splitlines()
    assert row.startswith('estimate, untrained ') and ' 0.400  0.000 ' in row, legend


def test_layout_summary_by_hand():
    # The fastest (10) is ranked 11th of 12, the second fastest (15) first.
    runtimes = [15.0, *range(20, 29), 10.0, 30.0]
    slow = GraphResult('bert_large', np.arange(12.0), np.array(runtimes))
    summary = report.summarise('layout', [slow, _RIGHT])
    assert list(summary['groups']) == ['bert_large', 'conv.4x4_bb22']
    group = summary['groups']['bert_large']
    assert group['slowdown_1']['mean'] == 1.5
    assert group['slowdown_10']['mean'] == 1.5
    assert group['slowdown_100']['mean'] == 1.0
    assert group['slowdown_1']['random'] == pytest.approx(np.mean(runtimes) / 10)
    # 10 of 66 pairs are the wrong way round: those of the fastest.
    assert group['opa']['mean'] == pytest.approx(56 / 66)
    assert group['kendall_tau']['mean'] == pytest.approx(46 / 66)
    assert summary['overall']['slowdown_1']['mean'] == 1.25
    assert summary['overall']['opa_pooled'] == pytest.approx(59 / 69)


def test_constant_scores_count_as_no_knowledge():
    constant = GraphResult('a_1', np.zeros(3), np.array([1, 2, 3]))
    overall = report.summarise('tile', [constant])['overall']
    assert overall['kendall_tau']['mean'] == 0.0
    assert overall['opa']['mean'] == 0.0
    error = overall['top_1_error']
    assert error['mean'] == error['random'] == 1.0  # of 0, 1 and 2
    # The published protocol takes equal scores in order.
    summary = report.summarise('layout', [constant], report.PUBLISHED)
    assert summary['overall']['slowdown_1']['mean'] == 1.0
    assert summary['overall']['slowdown_1']['random'] == 2.0
    assert summary['overall']['opa']['mean'] == 0.0  # ties still order no pair


def test_the_default_stands_beside_random_choice():
    # The default takes 6 of 5; with one of the others it is 5 or 6 at best.
    result = _RIGHT._replace(default=1)
    summary = report.summarise('tile', [result])
    overall = summary['overall']
    assert overall['top_1_error']['default'] == pytest.approx(1 / 5)
    assert overall['top_5_error']['default'] == 0
    assert overall['opa']['default'] is None
    table = report.format_table(summary)
    row, _ = [line for line in table.splitlines() if line.startswith('default and')]
    assert row.split()[3:] == ['0.200', '0.000', '0.000', '-', '-', '1.000']
    # Of some graphs alone it would not compare.
    summary = report.summarise('tile', [result, _WRONG])
    assert summary['overall']['top_1_error']['default'] is None
    assert 'default and' not in report.format_table(summary)


@pytest.mark.parametrize(
    'results, message',
    [([], 'no graph'), ([GraphResult('a_1', [1.0], [0])], 'a_1: runtime 0 is 0')],
)
def test_bad_results_are_named(results, message):
    with pytest.raises(ValueError, match=message):
        report.summarise('tile', results)


def test_the_table():
    summary = report.summarise('tile', [_WRONG, _RIGHT, _EQUAL])
    for key in summary['overall']:
        if isinstance(summary['overall'][key], dict):
            summary['overall'][key].update(low=0.125, high=None)
    lines = report.format_table(summary).splitlines()
    found = [line.split() for line in lines if line[:1] != '-']
    assert found[1] == 'bert 1 2 0.000 0.000 0.000 - - 1.000'.split()
    assert found[2] == 'conv.4x4 2 5 0.500 0.000 0.000 0.500 0.000 1.000'.split()
    assert found[3] == 'all 3 7 0.333 0.000 0.000 0.500 0.000 1.000'.split()
    assert found[4][-6:] == ['0.125'] * 6 and found[5][-6:] == ['-'] * 6
    assert found[6][2:] == '0.233 0.000 0.000 0.500 0.000 1.000'.split()
    assert '0.750' in lines[-3] and ' 1 of 3 ' in lines[-1]


def _measured_twice(graph_id, scores, runtimes, again):
    which = np.concatenate([np.arange(len(runtimes)), np.arange(len(again))])
    return GraphResult(
        graph_id, np.array(scores)[which], np.concatenate([runtimes, again]), which
    )


def test_the_noise_ceiling_stands_beside_tau():
    # Two programs without noise, and one that was measured once.
    known = [
        _measured_twice('a', [1, 2, 3], [10.0, 30.0, 20.0], [10.0, 30.0]),
        _measured_twice('b', [1, 2, 3], [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]),
    ]
    once = _RIGHT._replace(configurations=np.arange(3))
    summary = report.summarise('layout', [*known, once])
    assert summary['groups'][once.graph_id]['noise'] is None
    taus = dict(tau_twice=1, tau_ceiling=1, tau=1)
    assert summary['groups']['b']['noise'] == dict(
        graphs=1, repeated=3, repeats=3, relative_std=0, **taus
    )
    noisy = summary['overall']['noise']
    assert (noisy['graphs'], noisy['repeats']) == (2, 5)
    assert noisy['tau_ceiling'] == pytest.approx(1)
    # On these two, of a: of 5 measurements 8 pairs differ in both; the two of
    # 30 with the one of 20 are the wrong way round: (6 - 2) / 8.
    assert noisy['tau'] == pytest.approx((4 / 8 + 1) / 2)
    head, _, first, *_, last, second, third = report.format_table(summary).splitlines()
    assert head.split()[3:6] == ['tau', 'again', 'ceiling']
    assert first.split()[3:6] == ['0.500', '1.000', '1.000']
    assert last.startswith('Noise: 5 configurations of 2 ')
    assert ' 0.75; ' in second and ' 1.00 ' in third


def test_of_many_programs_the_worst_are_shown():
    # The first two programs are ranked right; the fastest is the last of the others.
    up = np.arange(1.0, 8.0)
    results = [
        GraphResult(f'p{i:02}_0', np.arange(7), up if i < 2 else up[::-1])
        for i in range(32)
    ]
    lines = report.format_table(report.summarise('tile', results)).splitlines()
    shown = [line.split()[0] for line in lines if line.startswith('p')]
    assert shown == ['program', *(f'p{i:02}' for i in range(2, 32))]
    assert any(line.startswith('The 30 worst of 32 ') for line in lines)


def test_kernels_of_one_program_are_not_drawn_one_by_one():
    results = [
        GraphResult(f'{program}_{i}', [0, 1], [1 + 0.1 * error, 1])
        for program, error in (('p', 1), ('q', 3))
        for i in range(30)
    ]
    summary = report.summarise('tile', results)
    assert summary['interval_over'] == 'programs'
    overall = summary['overall']['top_1_error']
    # Two programs of means .1 and .3: pp, pq and qq are drawn.
    assert (overall['low'], overall['high']) == pytest.approx((0.1, 0.3))
    assert summary['groups']['p']['top_1_error']['high'] == pytest.approx(0.1)
    alone = report.summarise('tile', results[:30])['overall']['top_1_error']
    assert alone['low'] is None  # one program says nothing of others


def test_a_gain_is_a_geometric_mean_over_the_default():
    results = [
        # The first choice takes half of the default's time, the fastest a quarter.
        report.GraphResult('a', np.array([0, 1, 2.0]), np.array([0.5, 1.0, 0.25])),
        report.GraphResult('b', np.array([1, 0.0]), np.array([1.0, 2.0])),
    ]
    said = report.format_gain(results, 2)
    # First: 2 and 1/2; of two: 2 and 1; fastest: 4 and 1.
    assert 'first choice runs 1.00 x' in said and 'first 2 1.41 x' in said
    assert 'fastest there is 2.00 x' in said
    # Two of three at random: 4 x as fast with probability 2/3, else 2 x.
    assert f'2 at random {(4 ** (2 / 3) * 2 ** (1 / 3)) ** 0.5:.2f} x' in said
