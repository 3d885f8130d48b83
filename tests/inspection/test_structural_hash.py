"""Classes of nodes with equal neighbourhoods, on graphs small enough to see."""

import hypothesis
from hypothesis import strategies as st
import numpy as np

from baselines.inspection import structural_hash

# Chains 0 -> 1 -> 2 and 3 -> 4 -> 5, and 6 consumes both ends.
_CHAINS = np.array([[1, 0], [2, 1], [4, 3], [5, 4], [6, 2], [6, 5]])
_OPCODES = np.array([7, 8, 9, 7, 8, 9, 10])


def _classes(opcodes, edges, depth=3, features=None):
    features = np.zeros((len(opcodes), 2)) if features is None else features
    classes = structural_hash.node_classes(opcodes, features, edges, depth)
    return [c.tolist() for c in classes]


def test_equal_chains_that_feed_one_node_are_equal_at_all_depths():
    classes = _classes(_OPCODES, _CHAINS, depth=5)
    assert classes == [[0, 1, 2, 0, 1, 2, 6]] * 6
    shares = structural_hash.repeated_shares([np.array(c) for c in classes])
    assert shares == [3 / 7] * 6


def test_a_difference_is_seen_one_hop_farther_at_each_depth():
    features = np.zeros((7, 2), np.float32)
    features[3, 1] = 1e-30  # at the start of the second chain
    classes = _classes(_OPCODES, _CHAINS, features=features)
    assert classes == [
        [0, 1, 2, 3, 1, 2, 6],
        [0, 1, 2, 3, 4, 2, 6],
        [0, 1, 2, 3, 4, 5, 6],
        [0, 1, 2, 3, 4, 5, 6],
    ]


def test_consumers_and_producers_are_not_the_same():
    assert _classes([4, 4], [[0, 1]], 1) == [[0, 0], [0, 1]]


def test_how_many_neighbours_of_a_class_counts():
    # 2 consumes 0 twice, 3 consumes 1 once.
    edges = [[2, 0], [2, 0], [3, 1]]
    assert _classes([5, 5, 6, 6], edges, 1) == [[0, 0, 2, 2], [0, 1, 2, 3]]


def test_two_neighbours_are_told_by_both_not_by_one():
    # 4 consumes {0, 1} of opcodes {1, 2}, 5 consumes {2, 3} of {1, 3}.
    edges = [[4, 0], [4, 1], [5, 2], [5, 3]]
    classes = _classes([1, 2, 1, 3, 9, 9], edges, 1)
    assert classes == [[0, 1, 0, 3, 4, 4], [0, 1, 0, 3, 4, 5]]


def test_graphs_without_nodes_edges_or_features():
    assert _classes([], np.zeros((0, 2)), 1) == [[], []]
    assert structural_hash.repeated_shares([np.zeros(0, np.int32)]) == [0.0]
    classes = _classes([3, 3, 2], np.zeros((0, 2)), 1, np.zeros((3, 0)))
    assert classes == [[0, 0, 2]] * 2


def test_rows_are_compared_bit_by_bit():
    rows = np.array([[1, 2], [1, 2.0000002], [1, 2], [0, 2]], np.float32)
    assert structural_hash.first_equal(rows).tolist() == [0, 1, 0, 3]


@hypothesis.settings(max_examples=30)
@hypothesis.given(st.integers(0, 10**6), st.integers(1, 30), st.integers(0, 60))
def test_classes_are_those_of_sorted_lists_of_neighbours(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    opcodes = rng.integers(0, 3, nodes)
    ends = rng.integers(0, nodes, (edges, 2))
    found = structural_hash.node_classes(opcodes, np.zeros((nodes, 1)), ends, 3)
    names = opcodes.tolist()
    for depth, first in enumerate(found):
        if depth:
            names = [
                (
                    name,
                    tuple(sorted(old[v] for u, v in ends if u == node)),
                    tuple(sorted(old[u] for u, v in ends if v == node)),
                )
                for old in [names]
                for node, name in enumerate(names)
            ]
        assert first.tolist() == [names.index(name) for name in names]
        # Numbers in place of nested names, which grow.
        names = first.tolist()
