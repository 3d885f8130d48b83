"""Time saved: by the first choice and with some measured, by hand."""

import numpy as np
import pytest

from lab.benchmarks import time_saved


@pytest.mark.parametrize(
    'nanoseconds, name',
    [
        (29_999, 'below 30 us'),
        (30_000, '30 to 300 us'),
        (300_000, '0.3 to 3 ms'),
        (2_999_999, '0.3 to 3 ms'),
        (3_000_000, '3 ms and above'),
    ],
)
def test_size_classes_begin_at_their_bounds(nanoseconds, name):
    assert time_saved.size_class(nanoseconds) == name


def test_savings_are_over_the_default_and_judged_by_another_measurement():
    judge = np.array([70, 100, 60, 120])  # number 1 is the default
    search = np.array([50, 100, 40, 30])
    scores = np.array([1.0, 3.0, 2.0, 4.0])
    saved = time_saved.time_saved(scores, search, judge, default=1, count=2)
    # The first choice is number 0.  Of the default, 0 and 2 the search likes 2 best;
    # of all it likes 3, which is slower than the default.
    assert saved == time_saved.TimeSaved(first=30, measured=40, possible=-20)
    worst = time_saved.time_saved(-scores, search, judge, default=1, count=2)
    assert worst.first == -20


def test_of_equal_scores_every_order_counts():
    times = np.array([100, 60, 80])
    saved = time_saved.time_saved(np.zeros(3), times, times, default=0, count=1)
    # First choices save 0, 40 or 20; with one of the two others measured, 40 or 20.
    assert saved == time_saved.TimeSaved(first=20, measured=30, possible=40)
