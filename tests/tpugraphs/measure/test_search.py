"""What to measure next."""

import os

import numpy as np
import pytest
from scipy import special

from baselines.data import shipped
from baselines.data.tile import records
from tpugraphs.measure import collection_folder
from tpugraphs.measure import search


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


def test_a_model_that_times_contradict_is_not_asked():
    # All are alike but for their scores; 7 has the best one.
    scores = np.array([0.0, 7, 6, 5, 4, 3, 2, 1])
    surrogate = search.Surrogate(np.zeros((8, 1)), scores)
    assert surrogate.propose({0: 0.0, 1: 0.2, 2: 0.1}, [], 1) == [7]
    # Of three pairs, two are the other way round; without a model 3 comes first.
    assert surrogate.propose({0: 0.0, 1: -0.1, 2: -0.2}, [], 1) == [3]
    # A single time beside the default's says nothing.
    assert surrogate.propose({0: 0.0, 1: -0.1}, [], 1) == [7]


@pytest.mark.slow
def test_the_worst_of_models_is_no_worse_than_chance(tmp_path):
    """Scores that call the slowest the best, on the shipped kernels with gains."""
    root = shipped.folder('tile', str(tmp_path))
    kernels = collection_folder.read_sidecar(root)['kernels'].values()
    ahead = []
    for kernel in list(kernels)[::12]:
        times = np.log(np.min(kernel['halves'], 0))
        times -= times[0]
        if times.min() > -np.log(2):
            continue
        bounds = records.read_tile(os.path.join(root, kernel['file'])).config_feat
        halved = np.log2(np.maximum(bounds[:, [*range(6), *range(8, 14)]], 1))
        columns = halved[:1] - halved
        surrogate, known = search.Surrogate(columns, -times), {0: 0.0}
        for count in (4, 3, 3):
            known.update((i, times[i]) for i in surrogate.propose(known, [], count))
        share = min(known.values()) / times.min()
        ahead.append(share - _share_of_chance(times, len(known) - 1))
    # Three standard errors of the mean over kernels.
    assert len(ahead) > 40
    assert np.mean(ahead) > -3 * np.std(ahead) / np.sqrt(len(ahead))


def _share_of_chance(times, count):
    """The share of the gain that `count` configurations give on average at random.

    The n-th best of the others is the best that is drawn where all the rest of the
    draw is slower.
    """
    others = np.sort(times[1:])
    slower = len(others) - 1 - np.arange(len(others))
    chances = special.comb(slower, count - 1) / special.comb(len(others), count)
    return (chances * np.minimum(others, 0)).sum() / times.min()
