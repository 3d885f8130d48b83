"""Pieces of different lengths, end to end."""

import hypothesis
from hypothesis import strategies as st
import numpy as np

from baselines.core import arrays


def _groups(sizes, most):
    return [group.tolist() for group in arrays.group_pieces(np.array(sizes), most)]


def test_groups_by_hand():
    # Ends at 3, 7 | 16 | 17, 18 | 23 | 25: in sevens 0, 0, 2, 2, 2, 3, 3.
    sizes = [3, 4, 9, 1, 1, 5, 2]
    assert _groups(sizes, 7) == [[0, 1], [2, 3, 4], [5, 6]]
    assert _groups(sizes, 1) == [[0], [1], [2], [3], [4], [5], [6]]
    assert _groups(sizes, 99) == [[0, 1, 2, 3, 4, 5, 6]]
    assert not _groups([], 7)


@hypothesis.given(sizes=st.lists(st.integers(1, 50)), most=st.integers(1, 100))
def test_groups_are_bounded_and_in_order(sizes, most):
    groups = _groups(sizes, most)
    assert sum(groups, []) == list(range(len(sizes)))
    for group in groups:
        # A piece is never divided, so the first may stand over.
        assert len(group) and sum(sizes[i] for i in group[1:]) <= most
