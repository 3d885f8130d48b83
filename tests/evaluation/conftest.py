"""What tests of figures share."""

import pytest

from baselines.evaluation import metrics


@pytest.fixture(autouse=True)
def _measures_so_far(monkeypatch):
    """A measure that is added changes no table of these tests."""
    for task, count in (('tile', 6), ('layout', 5)):
        monkeypatch.setitem(metrics.MEASURES, task, metrics.MEASURES[task][:count])
