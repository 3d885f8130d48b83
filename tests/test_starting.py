"""LightGBM is imported with threads that sleep while they wait."""

import os
import subprocess
import sys

import pytest

_SCRIPT = (
    'import os; from baselines import starting; starting.import_lightgbm(); '
    "print(os.environ['OMP_WAIT_POLICY'])"
)


@pytest.mark.parametrize('chosen, policy', [(None, 'passive'), ('active', 'active')])
def test_threads_of_lightgbm_sleep_unless_the_user_says_otherwise(chosen, policy):
    pytest.importorskip('lightgbm')
    environment = {k: v for k, v in os.environ.items() if k != 'OMP_WAIT_POLICY'}
    if chosen:
        environment['OMP_WAIT_POLICY'] = chosen
    printed = subprocess.run(
        [sys.executable, '-c', _SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == policy
