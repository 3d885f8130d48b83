"""LightGBM is imported with threads that soon sleep while they wait."""

import os

import pytest

from baselines.core import starting


@pytest.mark.parametrize(
    'chosen, count',
    [
        ({}, '1000'),
        ({'GOMP_SPINCOUNT': '5'}, '5'),
        ({'OMP_WAIT_POLICY': 'active'}, None),
    ],
)
def test_threads_of_lightgbm_soon_sleep_unless_the_user_says_otherwise(
    chosen, count, monkeypatch
):
    pytest.importorskip('lightgbm')
    for name in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'):
        monkeypatch.setenv(name, '')  # as it was comes back
        monkeypatch.delenv(name)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert starting.import_lightgbm().__name__ == 'lightgbm'
    assert os.environ.get('GOMP_SPINCOUNT') == count
