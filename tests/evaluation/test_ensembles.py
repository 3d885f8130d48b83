"""Averaging scores, by hand."""

import numpy as np
import pytest

from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from tests.helpers import refusals


def test_min_max():
    assert ensembles.scale_to_range([3, 1, 2, 5]).tolist() == [0.5, 0.0, 0.25, 1.0]
    assert ensembles.scale_to_range([-1e38, 1e38]).tolist() == [0.0, 1.0]
    assert ensembles.scale_to_range([7.0, 7.0]).tolist() == [0.0, 0.0]
    assert ensembles.scale_to_range([7.0]).tolist() == [0.0]


def test_standard():
    # A mean of 3 and a standard deviation of 2.
    assert ensembles.standardise([1, 5, 1, 5]).tolist() == [-1, 1, -1, 1]
    assert ensembles.standardise([4, 4]).tolist() == [0, 0]
    members = [[1, 5, 1, 5], [20, 20, 10, 10]]
    assert ensembles.average(members, by='standard').tolist() == [0, 1, -1, 0]


def _right(scores, runtimes):
    """1 where the first configuration is ranked faster than the second, else 0."""
    return float(scores[0] < scores[1])


def _graphs(signs, programs):
    """Graphs of two configurations, ranked right (1) or wrong (-1) by each member."""
    runtimes = np.array([1.0, 2.0])
    return [
        ensembles.ScoredGraph(program, [runtimes * sign for sign in pair], runtimes)
        for pair, program in zip(signs, programs)
    ]


# Where one member is right and one is wrong, their mean orders nothing: it is wrong,
# and any other weights are right where those of the right one are larger.
@pytest.mark.parametrize(
    'signs, programs, wanted',
    [
        ([(1, 1)] * 3, 'abc', [1, 1]),
        ([(1, -1)] * 3, 'abc', [1, 0.5]),
        ([(1, -1), (-1, 1), (1, -1)], 'abc', [1, 1]),
        # A gain of 0, 1 and 1: one draw of three programs in 27 has none.
        ([(1, 1), (1, -1), (1, -1)], 'abc', [1, 1]),
    ],
)
def test_weights_differ_where_the_mean_gains_from_it(signs, programs, wanted):
    assert ensembles.choose_weights(_graphs(signs, programs), _right) == wanted


def test_weights_of_one_program():
    # In every part of its configurations the second member is right, the first is not.
    runtimes = np.arange(1.0, 201)
    graph = ensembles.ScoredGraph('a', [-runtimes, runtimes], runtimes)
    found = ensembles.choose_weights([graph], metrics.ordered_pair_accuracy)
    assert found == [0.5, 1]
    # Runtimes that are all the same tell nothing.
    same = ensembles.ScoredGraph('a', [-runtimes, runtimes], np.ones(200))
    assert ensembles.choose_weights([same], metrics.ordered_pair_accuracy) == [1, 1]


def test_scores_that_are_better_on_average():
    runtimes = [np.array([1.0, 2.0])] * 3
    right, wrong, equal = np.array([1, 2]), np.array([2, 1]), np.array([1, 1])

    def is_better(scored, than):
        return ensembles.is_better(scored, than, runtimes, metrics.kendall_tau)

    # Equal scores count 0, whose tau is not defined: means of 1/3, 0 and 1/3.
    assert is_better([right, equal, equal], [right, wrong, equal])
    assert not is_better([right, equal, equal], [right, right, wrong])


def test_ranks():
    assert ensembles.rank_scores([30, 10, 20]).tolist() == [1.0, 0.0, 0.5]
    # Places 0, 1.5, 1.5, 3 of 0..3 and 1, 1, 1, 3.5, 3.5 of 0..4.
    assert ensembles.rank_scores([5, 7, 7, 9]).tolist() == [0.0, 0.5, 0.5, 1.0]
    tied = ensembles.rank_scores([2, 4, 2, 4, 2])
    assert tied.tolist() == [0.25, 0.875, 0.25, 0.875, 0.25]
    assert ensembles.rank_scores([4.0, 4.0]).tolist() == [0.0, 0.0]
    assert ensembles.rank_scores([4.0]).tolist() == [0.0]


def test_agreement():
    # Of six pairs, the second orders 0 and 1 as well as 2 and 3 the other way.
    assert ensembles.compute_agreement([[1, 2, 3, 4], [2, 1, 4, 3]]) == 4 / 6
    # The second has no order of 0 and 1; the first agrees on one of the two others.
    assert ensembles.compute_agreement([[1, 3, 2], [0, 0, 5]]) == 1 / 2
    assert ensembles.compute_agreement([[1, 2], [7, 7]]) == 1 / 2
    # The mean of 1, 0 and 0.
    assert ensembles.compute_agreement([[1, 2], [3, 4], [2, 1]]) == 1 / 3


def test_average():
    members = [[3.0, 1.0, 2.0], [0.2, 0.1, 0.6]]
    # Scores: [1, 0, .5] and [.2, 0, 1].
    np.testing.assert_allclose(ensembles.average(members), [0.6, 0.0, 0.75])
    # Ranks: [1, 0, .5] and [.5, 0, 1].
    assert ensembles.average(members, by='ranks').tolist() == [0.75, 0.0, 0.75]
    np.testing.assert_allclose(ensembles.average(members, [3, 1]), [0.8, 0.0, 0.625])
    # A weight of 0 leaves a run out.
    np.testing.assert_allclose(ensembles.average(members, [5, 0]), [1, 0, 0.5])


@pytest.mark.parametrize(
    'members, changes, words',
    [
        ([], {}, ['at least one model']),
        ([[1, 2], [1, 2, 3]], {}, ['(2,), (3,)']),
        ([[1, np.inf]], {}, ['not finite']),
        ([[1, 2]], {'by': 'mean'}, ["'mean'", 'scores, ranks']),
        ([[1, 2]], {'weights': [1, 2]}, ['--weights', '1,', 'not 2']),
        ([[1, 2]] * 2, {'weights': [1, -2]}, ['--weights', '-2.0']),
    ],
)
def test_what_cannot_be_averaged(members, changes, words):
    refusals.assert_refused(lambda: ensembles.average(members, **changes), *words)
