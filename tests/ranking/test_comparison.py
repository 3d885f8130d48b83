"""Runs side by side, paired gains and their intervals."""

import numpy as np
import pytest

from baselines.ranking import comparison
from baselines.ranking import metrics
from baselines.ranking.report import GraphResult


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
    gain = comparison.paired_gain('tile', ours, [theirs])['top_1_error']
    # Less error is better: gains 1 and 2 on p, 0 on q.
    assert gain['gain'] == pytest.approx(1.0)
    # Drawing two programs: qq 0 and pp 1.5 with probability 1/4 each.
    assert gain['low'] == 0.0 and gain['high'] == pytest.approx(1.5)
    back = comparison.paired_gain('tile', theirs, [ours])['top_1_error']
    assert back['gain'] == -gain['gain'] and back['high'] == 0.0
    # The mean of several: errors .5, 3, 0, so gains .5, 1, 0.
    both = comparison.paired_gain('tile', ours, [ours, theirs])
    assert both['top_1_error']['gain'] == pytest.approx(0.5)
    # More ordered pairs are better: of 3, scores 0 2 3 have 3 right, 1 0 3 have
    # 2, and 1 2 0 have 1.
    assert both['opa']['gain'] == pytest.approx(
        np.mean([1, 2 / 3, 1]) - np.mean([(1 + 2 / 3) / 2, (2 / 3 + 1 / 3) / 2, 1])
    )


def test_what_is_not_defined_is_left_out():
    equal = _tile('q_1', [1, 2], [4, 4])
    ours, theirs = [_choosing(0)[0], equal], [_choosing(1)[0], equal]
    gains = comparison.paired_gain('tile', ours, [theirs])
    # Tau of kernel p_1 alone: one program says nothing about others.
    assert gains['kendall_tau']['gain'] == pytest.approx(1 - 1 / 3)
    assert gains['kendall_tau']['low'] is None
    assert gains['top_1_error']['gain'] == pytest.approx(0.5)
    alone = comparison.paired_gain('tile', [equal], [[equal]])
    assert alone['opa'] == {'gain': None, 'low': None, 'high': None}


def test_layout_graphs_are_programs():
    ours = [
        GraphResult(f'g{i}', np.array([1.0, 2.0]), np.array([1.0, 2.0])) for i in (1, 2)
    ]
    gains = comparison.paired_gain('layout', ours, [ours])
    assert gains['slowdown_10'] == {'gain': 0.0, 'low': 0.0, 'high': 0.0}


def test_an_interval_draws_whole_groups():
    # 50 graphs of one program count as one: with 8 programs of means 0..7 the
    # interval is as wide as that of 8 values, not as that of 400.
    values = np.repeat(np.arange(8.0), 50)
    groups = np.repeat([f'program {i}' for i in range(8)], 50)
    low, high = comparison.grouped_interval(values, groups)
    alone = comparison.grouped_interval(np.arange(8.0), list('abcdefgh'))
    assert (low, high) == alone
    # Standard error of the mean of 8: sqrt(5.25 / 8) = 0.81.
    assert low == pytest.approx(3.5 - 1.96 * 0.81, abs=0.15)
    assert high == pytest.approx(3.5 + 1.96 * 0.81, abs=0.15)
    assert high - low > 5 * np.subtract(
        *comparison.grouped_interval(values, np.arange(400))[::-1]
    )
    # More confidence is wider; the same seed is the same.
    assert comparison.grouped_interval(values, groups, 0.5)[0] > low
    assert comparison.grouped_interval(values, groups) == (low, high)


def test_groups_of_different_sizes_weigh_by_their_graphs():
    # Means of aa, ab, bb: 0, 3/4 and 1, with probabilities 1/4, 1/2, 1/4.
    low, high = comparison.grouped_interval([0, 1, 1, 1], list('abbb'), 0.4)
    assert (low, high) == (0.75, 0.75)


def _summary(name, group, top_1, collection='tile:xla'):
    overall = {'graphs': 1200}
    for measure in metrics.MEASURES['tile']:
        overall[measure.key] = {'mean': 0.5}
    overall['top_1_error'] = {'mean': top_1}
    return {
        'task': 'tile',
        'name': name,
        'group': group,
        'overall': overall,
        'collection': collection,
    }


_RUNS = """\
tile:xla               kernels  top-1  top-5  top-10    OPA    tau  Kaggle
--------------------------------------------------------------------------
MLP lr=.01 seed 0        1,200  0.100  0.500   0.500  0.500  0.500   0.500
MLP lr=.01 seed 1        1,200  0.300  0.500   0.500  0.500  0.500   0.500
MLP lr=.1 seed 0         1,200      -  0.500   0.500  0.500  0.500   0.500
--------------------------------------------------------------------------
mean of 2: MLP lr=.01           0.200  0.500   0.500  0.500  0.500   0.500
  standard deviation            0.141  0.000   0.000  0.000  0.000   0.000"""


def test_a_line_for_each_run():
    # (.1 + .3) / 2 = .2; the deviation is .1 * sqrt(2).
    assert (
        comparison.format_runs(
            {
                'a': _summary('MLP lr=.01 seed 0', 'MLP lr=.01', 0.1),
                'b': _summary('MLP lr=.01 seed 1', 'MLP lr=.01', 0.3),
                'c': _summary('MLP lr=.1 seed 0', 'MLP lr=.1', None),
            }
        )
        == _RUNS
    )


def test_collections_have_a_table_each():
    text = comparison.format_runs(
        {
            'model_a': _summary('MLP a', 'MLP', 0.1),
            'model_b': _summary('MLP b', 'MLP', 0.1, collection='tile:other'),
        }
    )
    assert [part.split()[0] for part in text.split('\n\n')] == [
        'tile:xla',
        'tile:other',
    ]
    assert 'mean of' not in text
