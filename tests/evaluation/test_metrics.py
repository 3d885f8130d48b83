"""Ranking measures: by hand, against brute force, and against the goldens."""

import itertools
import math
import warnings

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import numpy as np
import pytest

from baselines.core import arrays
from baselines.evaluation import metrics
from tests.helpers import goldens


@pytest.fixture(scope='module', name='golden')
def _golden():
    return goldens.read(goldens.LOSSES)


def _graphs():
    """(scores, runtimes) with many ties."""
    values = st.tuples(st.integers(-5, 5), st.integers(1, 6))
    return st.lists(values, min_size=1, max_size=40).map(
        lambda pairs: tuple(np.array(column) for column in zip(*pairs))
    )


# --- top k


def test_slowdown_by_hand():
    scores, runtimes = [0.3, 0.1, 0.2, 0.9], [10, 40, 20, 8]
    # Ranked: 1 (40), 2 (20), 0 (10), 3 (8).
    expected = {1: 5.0, 2: 2.5, 3: 1.25, 4: 1.0, 100: 1.0}
    for k, ratio in expected.items():
        assert metrics.slowdown(scores, runtimes, k) == ratio
        assert metrics.top_k_error(scores, runtimes, k) == ratio - 1
    # Kaggle's score is 1 - top-5: the best of five is 2, the best of all 1.
    score = next(m for m in metrics.MEASURES['tile'] if m.title == 'Kaggle').of_graph
    assert score(np.arange(6), np.array([2, 3, 4, 5, 6, 1])) == 0.0


def test_a_ranking_keeps_equal_scores_in_index_order():
    assert arrays.order_by_score([2.0, 1.0, 2.0, 1.0]).tolist() == [1, 3, 0, 2]
    assert metrics.rank_without_ties([2.0, 1.0, 2.0, 1.0]).tolist() == [2, 0, 3, 1]
    # Longer than where unstable sorts still happen to be stable.
    assert arrays.order_by_score(np.zeros(1000)).tolist() == list(range(1000))


def test_equal_scores_count_as_any_order_of_them():
    # Of one alone the mean of 3, 1, 2; of two of them 1, 1 or 2.
    assert metrics.slowdown([0, 0, 0], [3, 1, 2], 1) == 2.0
    assert metrics.slowdown([0, 0, 0], [3, 1, 2], 2) == pytest.approx(4 / 3)
    # The first is chosen in any case, and one of the others: 4 or 2 at best.
    assert metrics.slowdown([0, 1, 1, 2], [4, 5, 2, 1], 2) == 3.0
    # Chosen by costs and judged by other values: 7 of the first, or 9 of the third.
    chosen = metrics.expected_best([0, 1, 1, 2], [4, 5, 2, 1], 2, [7, 8, 9, 10])
    assert chosen == 8.0


@hypothesis.given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(-3, 3)),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 6),
)
def test_expected_best_is_the_mean_over_all_orders(configurations, k):
    """Shuffled rows in a stable sort put ties into every order equally often."""
    best, values = [], []
    for rows in itertools.permutations(configurations):
        first = sorted(rows, key=lambda row: row[0])[:k]
        best.append(min(row[1] for row in first))
        cheapest = [row[2] for row in first if row[1] == best[-1]]
        values.append(np.mean(cheapest))
    scores, costs, others = np.array(configurations).T
    assert metrics.expected_best(scores, costs, k) == pytest.approx(np.mean(best))
    if len(set(costs.tolist())) == len(costs):  # else any of the cheapest is chosen
        found = metrics.expected_best(scores, costs, k, others)
        assert found == pytest.approx(np.mean(values), abs=1e-12)
    runtimes = np.log1p(costs)
    assert metrics.slowdown(scores, runtimes, k) == pytest.approx(
        np.mean(np.log1p(best)) / runtimes.min()
    )


def test_100000_equal_scores():
    # The best of one drawn from 1 .. n is (n + 1) / 2, of k it is (n + 1) / (k + 1).
    count = 100_000
    runtimes = np.random.default_rng(0).permutation(count) + 1
    for k in (1, 5, 99_999, 100_000):
        found = metrics.slowdown(np.zeros(count), runtimes, k)
        assert found == pytest.approx((count + 1) / (k + 1), rel=1e-9)


@pytest.mark.parametrize('j', [0, 1])
def test_top_k_goldens(golden, j):
    scores = golden[f'topk_scores_{j}']
    runtimes = golden[f'topk_runtime_{j}'] / golden[f'topk_normalizer_{j}']
    order = arrays.order_by_score(scores)
    np.testing.assert_array_equal(order, golden[f'topk_order_{j}'])
    errors = [metrics.top_k_error(scores, runtimes, k) for k in golden['topk_k']]
    expected = golden[f'topk_error_{j}']
    np.testing.assert_allclose(errors, expected, rtol=1e-12, atol=1e-15)
    assert metrics.kendall_tau(scores, runtimes) == pytest.approx(
        float(golden[f'kendalltau_kernel_{j}']), rel=1e-12
    )


# --- pairs


@hypothesis.given(_graphs())
def test_ordered_pairs_is_brute_force(graph):
    scores, runtimes = graph
    correct = total = 0
    for i, j in itertools.permutations(range(len(scores)), 2):
        if runtimes[i] > runtimes[j]:
            total += 1
            correct += int(scores[i] > scores[j])
    assert metrics.ordered_pairs(scores, runtimes) == (correct, total)


def test_ordered_pairs_of_100000_configurations():
    count = 100_000
    runtimes = np.random.default_rng(0).permutation(count) + 1
    pairs = 4_999_950_000  # 100,000 * 99,999 / 2: more than 32 bits hold
    assert metrics.ordered_pairs(runtimes, runtimes) == (pairs, pairs)
    assert metrics.ordered_pairs(-runtimes, runtimes) == (0, pairs)
    assert metrics.ordered_pairs(np.zeros(count), runtimes) == (0, pairs)
    # Two halves in the right order, each reversed inside: 50,000 ** 2 right.
    order = np.arange(count)
    halves = np.where(order < count // 2, count // 2 - order, 2 * count - order)
    assert metrics.ordered_pairs(halves, order + 1) == (2_500_000_000, pairs)


@pytest.mark.parametrize('suffix', ['', '_ties'])
def test_pair_goldens(golden, suffix):
    lists = list(zip(golden[f'y_pred{suffix}'], golden[f'y_true{suffix}']))
    correct, total = np.sum([metrics.ordered_pairs(*pair) for pair in lists], axis=0)
    assert correct / total == pytest.approx(float(golden[f'opa{suffix}']), rel=1e-6)
    for pair, published, tau in zip(
        lists, golden[f'opa{suffix}_per_list'], golden[f'kendalltau{suffix}']
    ):
        mine = metrics.ordered_pair_accuracy(*pair)
        if math.isnan(mine):  # all labels equal: the published code divides by 1
            assert published == 0.0
        else:
            assert mine == pytest.approx(float(published), rel=1e-6)
        assert metrics.kendall_tau(*pair) == pytest.approx(tau, rel=1e-12, nan_ok=True)


# --- tau


@hypothesis.given(_graphs())
def test_kendall_tau_is_its_definition(graph):
    scores, runtimes = graph
    signs = [
        np.sign(np.subtract.outer(values, values))[np.triu_indices(len(scores), 1)]
        for values in graph
    ]
    norm = math.sqrt(float((signs[0] ** 2).sum()) * float((signs[1] ** 2).sum()))
    expected = float(signs[0] @ signs[1]) / norm if norm else float('nan')
    tau = metrics.kendall_tau(scores, runtimes)
    assert tau == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


def test_kendall_tau_of_few_scores_is_that_of_many(monkeypatch):
    rng = np.random.default_rng(0)
    graphs = [
        (rng.integers(0, most, size).astype(kind), rng.integers(1, most, size) / 7)
        for size in (2, 9, 60)
        for most in (3, 50)
        for kind in ('i8', 'f4')
    ]
    few = [metrics.kendall_tau(*graph) for graph in graphs]
    monkeypatch.setattr(metrics, '_FEW_SCORES', 1)
    many = [metrics.kendall_tau(*graph) for graph in graphs]
    np.testing.assert_array_equal(few, many)


# --- random choice


@hypothesis.given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=7), st.integers(1, 9)
)
def test_random_top_k_error_is_the_mean_over_all_choices(runtimes, k):
    chosen = itertools.combinations(runtimes, min(k, len(runtimes)))
    best = min(runtimes)
    expected = np.mean([(min(choice) - best) / best for choice in chosen])
    assert metrics.top_k_error(np.zeros(len(runtimes)), runtimes, k) == pytest.approx(
        expected, rel=1e-12, abs=1e-15
    )


# --- bootstrap


def test_bootstrap_of_one_graph_and_of_equal_graphs():
    assert metrics.bootstrap_interval([0.3]) == (None, None)
    assert metrics.bootstrap_interval([0.25] * 8) == (0.25, 0.25)
    with warnings.catch_warnings():  # BCa has no interval of these values
        warnings.simplefilter('error')
        assert metrics.bootstrap_interval([0.25] * 4 + [0.25 + 1e-16]) == (None, None)


def test_bootstrap_of_many_graphs_is_the_normal_interval():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    low, high = metrics.bootstrap_interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.02)
    assert (low, high) == metrics.bootstrap_interval(values)


# --- errors


@pytest.mark.parametrize(
    'scores, runtimes, message',
    [
        ([1.0, 2.0], [1], '2 scores .*, 1'),
        ([1.0, np.nan], [1, 2], 'score 1 is nan'),
        ([1.0, 2.0, 3.0], [1, 2, 0], 'runtime 2 is 0'),
        ([], [], r'scores .*\(0,\)'),
    ],
)
def test_bad_graphs_are_named(scores, runtimes, message):
    for measure in (metrics.ordered_pairs, metrics.kendall_tau):
        with pytest.raises(ValueError, match=message):
            measure(scores, runtimes)
    with pytest.raises(ValueError, match=message):
        metrics.slowdown(scores, runtimes, 1)
