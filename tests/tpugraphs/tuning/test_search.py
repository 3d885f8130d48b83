"""What to measure next."""

import functools

import numpy as np

from tpugraphs.tuning import search


def test_what_was_measured_is_not_proposed_again():
    columns = np.arange(6.0)[:, None]
    numbers = search.propose(columns, None, {0: 0.0, 3: -1.0}, [2], 9)
    assert sorted(numbers) == [1, 4, 5]


def test_without_measurements_the_scores_decide():
    scores = np.array([0.0, 3.0, -2.0, 1.0])
    assert search.propose(np.zeros((4, 1)), scores, {0: 0.0}, [], 1) == [2]


def test_ten_measurements_find_a_valley_that_scores_know_nothing_of():
    """Times with one valley, over 400 pairs of sizes; the scores are noise."""
    sizes = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    columns = sizes / 2
    times = 0.2 * np.abs(columns - [7, 4]).sum(1)
    times -= times[0]  # number 0, the default, is in a corner
    ranks = []
    for seed in range(6):
        scores = np.random.default_rng(seed).normal(size=400)
        measured = {0: 0.0}
        for count in (4, 3, 3):
            for number in search.propose(columns, scores, measured, [], count):
                measured[number] = times[number]
        assert len(measured) == 11
        ranks.append((times < min(measured.values())).sum())
    # The best of 11 drawn at random is in place 400 / 12 = 33 on average.
    assert np.mean(ranks) < 15


def test_a_model_that_times_contradict_is_not_asked():
    # All are alike but for their scores; 7 has the best one.
    scores = np.array([0.0, 7, 6, 5, 4, 3, 2, 1])
    propose = functools.partial(search.propose, np.zeros((8, 1)), scores)
    assert propose({0: 0.0, 1: 0.2, 2: 0.1}, [], 1) == [7]
    # Of three pairs, two are the other way round; without a model 3 comes first.
    assert propose({0: 0.0, 1: -0.1, 2: -0.2}, [], 1) == [3]
    # A single time next to the default's says nothing.
    assert propose({0: 0.0, 1: -0.1}, [], 1) == [7]


def test_starts_are_proposed_before_all_others():
    proposed = search.beginning_with([5, 3], lambda *_: [1, 3, 2])
    assert proposed({0: 0.0}, {}, 3) == [5, 3, 1, 2]
    assert proposed({0: 0.0, 3: 0.1}, [5], 3) == [1, 3, 2]
