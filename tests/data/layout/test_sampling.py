"""Sampling layouts: none twice, distributed as said, labelled rightly."""

import collections
import itertools

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.data.layout import sampling as layout_sampling
from baselines.data.layout import store as layout_store
from tests.helpers import layout_files

# Quantiles 99.9 % of chi-square, by degrees of freedom.
_CHI2 = {3: 16.27, 4: 18.47, 11: 31.26, 19: 43.82, 55: 93.17}

_STRATEGIES = ('skewed', 'uniform')


def _store(*graphs, is_test=False):
    """A store of graphs, each a list of (vector number, runtime)."""
    programs = []
    for i, configs in enumerate(graphs):
        features = np.full((len(configs), 1, 18), -1, np.float32)
        # Vector numbers in base 6.
        for config, (vector, _) in zip(features, configs):
            config[0, :3] = [vector // 36, vector // 6 % 6, vector % 6]
        fields = dict(configurable=1, configs=len(configs), node_config_feat=features)
        if not is_test:
            fields['config_runtime'] = np.array([runtime for _, runtime in configs])
        rng = np.random.default_rng(0)
        program = layout_files.make_record(rng, f'g{i}', is_test=is_test, **fields)
        programs.append(program)
    return layout_store.LayoutStore.from_records('here', programs)


def _distinct(count, seed=0):
    """Configurations that all differ, in random order of runtime."""
    runtimes = 1000 + np.random.default_rng(seed).permutation(count)
    return list(enumerate(runtimes.tolist()))


@pytest.fixture(name='store', scope='module')
def _shared_store():
    repeated = [(i % 7, 100 + i) for i in range(20)]
    return _store(_distinct(50), repeated, _distinct(200))


@given(
    strategy=st.sampled_from(_STRATEGIES),
    k=st.integers(1, 7),
    cap=st.sampled_from([-1, 7, 10, 1000]),
    graphs=st.lists(st.integers(0, 2), max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_none_twice_and_the_first_of_equals(store, strategy, k, cap, graphs, seed):
    sampler = layout_sampling.ConfigSampler(store, strategy, max_configs=cap)
    configs, again = (
        sampler.draw_configs(np.random.default_rng(seed), graphs, k) for _ in range(2)
    )
    np.testing.assert_array_equal(configs, again)
    assert configs.shape == (len(graphs), k) and configs.dtype == np.int64
    for graph, row in zip(graphs, configs):
        first = store.part('group_first', graph)
        assert set(row) <= set(first[sampler.candidates(graph)])
        assert len(set(row)) == k
        features = store.record(graph).node_config_feat
        assert len(np.unique(features[row], axis=0)) == k
        for config in row:
            same = (features == features[config]).all(axis=(1, 2))
            assert config == np.flatnonzero(same)[0]


def test_candidates_are_ordered_by_runtime():
    store = _store([(3, 40), (1, 10), (3, 20), (2, 25), (1, 16)])
    # Means: 3 -> 30, 1 -> 13, 2 -> 25; groups are numbered as they first appear.
    sampler = layout_sampling.ConfigSampler(store)
    assert sampler.candidates(0).tolist() == [1, 2, 0]
    assert {*sampler.draw_configs(np.random.default_rng(0), [0], 3)[0]} == {0, 1, 3}


def _chi_square(found, shares):
    expected = np.asarray(shares) * np.sum(found)
    return ((found - expected) ** 2 / expected).sum()


def _ranked_pairs(strategy, count, draws):
    """Ordered draws of two ranks of `count` configurations, counted."""
    store = _store([(number, 10 + number) for number in range(count)])
    sampler = layout_sampling.ConfigSampler(store, strategy)
    drawn = sampler.draw_configs(np.random.default_rng(1), [0] * draws, 2)
    # Configurations are in the order of their runtimes.
    return collections.Counter(map(tuple, drawn.tolist()))


@pytest.mark.parametrize('count', [5, 8])
def test_skewed_is_gumbel_top_k(count):
    # Of Gumbel top-k the first has probability exp(logit) / sum, the next the
    # same among those left.  8 of 2 are drawn another way than 5 of 2.
    weight = np.exp((count - np.arange(count)) / count)
    shares = {}
    for ranks in itertools.permutations(range(count), 2):
        share, left = 1.0, weight.sum()
        for rank in ranks:
            share *= weight[rank] / left
            left -= weight[rank]
        shares[ranks] = share
    found = _ranked_pairs('skewed', count, 8_000)
    assert set(found) <= set(shares)
    counts = np.array([found[ranks] for ranks in shares])
    assert _chi_square(counts, list(shares.values())) < _CHI2[len(shares) - 1]


def test_uniform_is_uniform():
    found = _ranked_pairs('uniform', 5, 8_000)
    assert len(found) == 20
    assert _chi_square(np.array(list(found.values())), [1 / 20] * 20) < _CHI2[19]


def test_cap_is_a_fixed_uniform_subset(store):
    chosen = set()
    for seed in range(100):
        sampler = layout_sampling.ConfigSampler(store, max_configs=5, seed=seed)
        kept = sampler.candidates(0)
        assert len(set(kept)) == 5
        np.testing.assert_array_equal(kept, sampler.candidates(0))
        assert (np.diff(store.part('group_runtime', 0)[kept]) > 0).all()
        chosen |= set(kept)
    assert len(chosen) == 50
    same = layout_sampling.ConfigSampler(store, max_configs=5, seed=7)
    # Asking for another graph first changes nothing.
    same.candidates(2)
    other = layout_sampling.ConfigSampler(store, 'uniform', max_configs=5, seed=7)
    np.testing.assert_array_equal(same.candidates(0), other.candidates(0))
    assert [len(same.candidates(graph)) for graph in range(3)] == [5, 5, 5]


def test_without_runtimes():
    store = _store(_distinct(6), is_test=True)
    sampler = layout_sampling.ConfigSampler(store, 'uniform')
    assert sorted(sampler.draw_configs(np.random.default_rng(0), [0], 6)[0]) == list(
        range(6)
    )
    skewed = layout_sampling.ConfigSampler(store, 'skewed')
    with pytest.raises(ValueError, match='^g0: '):
        skewed.draw_configs(np.random.default_rng(0), [0], 2)
