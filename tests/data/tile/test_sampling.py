"""Sampling: different configurations, all in range, all equally likely."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
import numpy as np

from baselines.data.tile import sampling


@given(
    k=st.integers(1, 12),
    extra=st.lists(st.integers(0, 100_000), min_size=1, max_size=20),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_are_distinct_and_in_range(k, extra, seed):
    counts = k + np.array(extra)
    drawn = sampling.draw_configs(np.random.default_rng(seed), counts, k)
    assert drawn.shape == (len(counts), k)
    assert drawn.dtype == np.int64
    assert (drawn >= 0).all() and (drawn < counts[:, None]).all()
    assert all(len(set(row)) == k for row in drawn.tolist())
    again = sampling.draw_configs(np.random.default_rng(seed), counts, k)
    np.testing.assert_array_equal(again, drawn)


def test_every_ordered_choice_is_equally_likely():
    # 3 of 5 in order: 60 outcomes, 1,000 expected of each.  The sum of
    # (found - expected)^2 / expected is chi-square with 59 degrees of freedom,
    # of which 98.3 is the 99.9 % quantile.
    drawn = sampling.draw_configs(np.random.default_rng(1), np.full(60_000, 5), 3)
    found = np.bincount(drawn @ [25, 5, 1], minlength=125)
    outcomes = [a * 25 + b * 5 + c for a, b, c in itertools.permutations(range(5), 3)]
    assert found.sum() == found[outcomes].sum() == 60_000
    assert ((found[outcomes] - 1000.0) ** 2 / 1000).sum() < 98.3
