"""What to measure next."""

import numpy as np

from baselines.measuring import search


def test_what_was_measured_is_not_proposed_again():
    surrogate = search.Surrogate(np.arange(6.0)[:, None])
    found = surrogate.propose({0: 0.0, 3: -1.0}, [2], 9)
    assert sorted(found) == [1, 4, 5]


def test_without_measurements_the_scores_decide():
    scores = np.array([0.0, 3.0, -2.0, 1.0])
    surrogate = search.Surrogate(np.zeros((4, 1)), scores)
    assert surrogate.propose({0: 0.0}, [], 1) == [2]


def test_ten_measurements_find_a_valley_that_scores_know_nothing_of():
    """Times with one valley, over 400 pairs of sizes; the scores are noise."""
    sizes = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    columns = sizes / 2
    times = 0.2 * np.abs(columns - [7, 4]).sum(1)
    times -= times[0]  # number 0, the default, is in a corner
    ranks = []
    for seed in range(6):
        scores = np.random.default_rng(seed).normal(size=400)
        surrogate = search.Surrogate(columns, scores)
        known = {0: 0.0}
        for count in (4, 3, 3):
            for number in surrogate.propose(known, [], count):
                known[number] = times[number]
        assert len(known) == 11
        ranks.append((times < min(known.values())).sum())
    # The best of 11 drawn at random is in place 400 / 12 = 33 on average.
    assert np.mean(ranks) < 15
