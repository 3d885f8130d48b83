"""LightGBM is imported with threads that soon sleep while they wait."""

import os
import subprocess
import sys

import pytest

_SCRIPT = (
    'import os; from baselines import starting; starting.import_lightgbm(); '
    "print(os.environ.get('GOMP_SPINCOUNT'))"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    'chosen, count',
    [
        ({}, '1000'),
        ({'GOMP_SPINCOUNT': '5'}, '5'),
        ({'OMP_WAIT_POLICY': 'active'}, 'None'),
    ],
)
def test_threads_of_lightgbm_soon_sleep_unless_the_user_says_otherwise(chosen, count):
    pytest.importorskip('lightgbm')
    names = ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')
    environment = {k: v for k, v in os.environ.items() if k not in names}
    printed = subprocess.run(
        [sys.executable, '-c', _SCRIPT],
        env={**environment, **chosen},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == count
